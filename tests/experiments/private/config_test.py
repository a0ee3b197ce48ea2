import json

from absl.testing import absltest
from absl.testing import parameterized

from experiments.private import config as config_lib
from experiments.private import data


class BenchmarkConfigTest(parameterized.TestCase):

  def test_default_is_what_the_source_has_without_tff(self):
    config = config_lib.BenchmarkConfig()

    self.assertEqual(config.datasets, tuple(data.KNOWN))
    self.assertEqual(config.methods, ("sklearn", "diffprivlib", "lsh", "refine"))
    self.assertEqual(config.k_to_try, (2, 4, 8, 16, 32, 64))
    self.assertEqual((config.fixed_epsilon, config.delta), (1.0, 1e-6))

  def test_is_the_same_after_json(self):
    document = config_lib.BenchmarkConfig(epsilon_to_try=()).to_json()

    self.assertEqual(json.loads(json.dumps(document)), document)

  @parameterized.parameters(
      ("datasets", ("iris",)), ("datasets", ()), ("datasets", ("letter", "letter")),
      ("methods", ("sklearn", "spectral")), ("methods", ()), ("k_to_try", (2, 0)),
      ("k_to_try", (2, 4, 2)), ("k_to_try", ()), ("fixed_epsilon", 0.0),
      ("fixed_epsilon", float("inf")), ("fixed_epsilon", 1e300), ("epsilon_to_try", (1.0, 1e-9)),
      ("epsilon_to_try", (1.0, float("nan"))), ("epsilon_to_try", (1.0, 1.0)), ("fixed_k", 0),
      ("delta", 1.0), ("runs", 0), ("seed", -1),
  )
  def test_refuses(self, name, value):
    with self.assertRaisesRegex(ValueError, f"`{name}`"):
      config_lib.BenchmarkConfig(**{name: value})


if __name__ == "__main__":
  absltest.main()
