from absl.testing import absltest
from absl.testing import parameterized

from experiments.three_phase import cost_text
from experiments.three_phase import method_looks
from experiments.three_phase import method_names
from fl_clustering.methods import registry


class MethodNamesTest(parameterized.TestCase):

  def test_a_known_method_always_has_its_look(self):
    few = method_looks.method_looks(["kmeans"])
    many = method_looks.method_looks(["other", "fedavg", "kmeans"])
    self.assertEqual(few["kmeans"], many["kmeans"])

  def test_all_methods_look_different(self):
    methods = ["pretrain", *registry.METHODS, *method_names.CONTROLS, "first_unknown", "second"]

    looks = [tuple(look.values()) for look in method_looks.method_looks(methods).values()]

    self.assertLen(set(looks), len(methods))
    # Two methods may share a colour, if their lines or markers differ.
    self.assertGreaterEqual(len({color for color, *_ in looks}), 10)
    first, second = (method_looks.method_looks([name])[name] for name in ("local", "finetuned"))
    self.assertNotEqual(first["color"], second["color"])

  @parameterized.parameters(
      (0, "0"), (999, "999"), (1000, "1 k"), (12_345, "12.3 k"), (999_600, "1 M"), (2.5e6, "2.5 M")
  )
  def test_steps(self, number, text):
    self.assertEqual(cost_text.steps_text(number), text)

  @parameterized.parameters((999, "999 B"), (15_426_208, "15.4 MB"), (1.2e9, "1.2 GB"))
  def test_bytes(self, number, text):
    self.assertEqual(cost_text.bytes_text(number), text)


if __name__ == "__main__":
  absltest.main()
