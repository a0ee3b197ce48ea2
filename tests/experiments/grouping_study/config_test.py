from absl.testing import absltest
from absl.testing import parameterized

from experiments.grouping_study import config as config_lib
from experiments.grouping_study import settings
from fl_clustering.three_phase import config as run_config
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

  def test_some_methods_run_only_where_they_are_named(self):
    self.assertContainsSubset({"kmeans", "ifca", "pacfl"}, config_lib.METHODS)
    self.assertNoCommonElements({"clove", "flexcfl", "flux"}, config_lib.METHODS)

  def test_personal_models_run_where_a_study_names_no_others(self):
    self.assertEqual(config_lib.PERSONAL, ("ditto", "apfl"))
    study = sample_study.config(personal=("mr_mtl", "ditto"), ditto_lambda=0.5)
    self.assertEqual(study.to_json()["personal"], ["mr_mtl", "ditto"])

  def test_settings_of_all_names_can_be_made(self):
    names = tuple(name for name in settings.SETTINGS if name != "natural")

    self.assertEqual(sample_study.config(names).settings, names)

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

  def test_natural_clients_are_for_data_that_have_some(self):
    run = run_config.ThreePhaseConfig(dataset="emnist", control_repeats=0)

    study = config_lib.StudyConfig(run, ("natural",), 1)

    self.assertEqual(study.run_config("natural", 0).partition, "natural")


if __name__ == "__main__":
  absltest.main()
