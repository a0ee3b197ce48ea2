from absl.testing import absltest
from absl.testing import parameterized

from tests.experiments.grouping_study import sample_study


class StudyConfigTest(parameterized.TestCase):

  def test_a_run_has_its_settings_and_its_seed(self):
    study = sample_study.config(("rotated",), num_seeds=2)

    run = study.run_config("rotated", 1)

    self.assertEqual((run.partition, run.num_groups, run.seed), ("rotated", 4, 1))
    self.assertEqual(run.methods, study.run.methods)

  def test_json_has_the_studys_settings_and_those_of_all_runs(self):
    found = sample_study.config(num_folds=3, ifca_start="perturbed").to_json()

    self.assertEqual((found["num_folds"], found["ifca_start"]), (3, "perturbed"))
    self.assertNotIn("partition", found)

  @parameterized.named_parameters(
      ("unknown", {"settings": ("sorted",)}, "settings"),
      ("twice", {"settings": ("iid", "iid")}, "settings"),
      ("none", {"settings": ()}, "settings"),
      ("no_seeds", {"num_seeds": 0}, "num_seeds"),
      ("one_fold", {"num_folds": 1}, "num_folds"),
      ("decided", {"partition": "iid"}, "partition"),
      ("unnamed", {"dataset": "auto"}, "dataset"),
      ("repeats", {"control_repeats": 1}, "control_repeats"),
      ("own_clients", {"settings": ("natural",)}, "partition"),
      ("too_few_clients", {"num_clients": 3, "settings": ("rotated",)}, "num_clients"),
  )
  def test_bad_settings(self, values, name):
    with self.assertRaisesRegex(ValueError, f"^`{name}` must "):
      sample_study.config(**values)


if __name__ == "__main__":
  absltest.main()
