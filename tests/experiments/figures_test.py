"""The report of an invented run of every experiment has each figure that it has the numbers for."""

import os

from absl.testing import parameterized

from experiment_shell import tidy_report
from experiments import registry
from tests import nightly
from tests.experiment_shell import run_folder
from tests.experiments.dp_benchmark import sample_benchmark
from tests.experiments.federated_kmeans import sample_papers
from tests.experiments.multi_view import sample_run as sample_views
from tests.experiments.private_clusters import sample_runs as sample_clusters
from tests.experiments.study import sample_study
from tests.experiments.three_phase_emnist import sample_run

_THREE_PHASES = ("three_phase_emnist", sample_run.write)
_SIMULATION = ("private_clusters_simulation", sample_clusters.write_simulation)
_ODD_NAMES = ("$x$ & <b>", "y" * 90, *map(str, range(10)))
# By day, `output_test` draws those of three phases.
_BY_NIGHT = (
    "many_names", "one_client", "papers", "benchmark_at_one_epsilon", "simulation_of_one_cluster",
    "study", "study_of_folds", "three_phases",
)


class FiguresTest(parameterized.TestCase):

  @parameterized.named_parameters(
      ("benchmark", "dp_benchmark", sample_benchmark.write),
      ("benchmark_at_one_epsilon", "dp_benchmark", sample_benchmark.write,
       {"epsilon_to_try": (), "factors": {"sklearn": 0.5}}, ["loss_over_epsilon"]),
      ("papers", "federated_kmeans", sample_papers.write),
      ("views", "multi_view", sample_views.write),
      ("views_of_the_tutorial", "multi_view", sample_views.write,
       {"names": (), "datasets": ("simulated_dha",)}, ["confusion"]),
      ("released", "private_clusters", sample_clusters.write_released),
      ("simulation", *_SIMULATION),
      ("simulation_of_one_cluster", *_SIMULATION,
       {"num_clusters": 1, "epsilon": (8.0,), "num_seeds": 1}),
      ("simulation_without_noise", *_SIMULATION, {"methods": ("ifca", "fedavg")},
       ["rounds", "scores"]),
      ("study", "study", sample_study.write, {}, ["candidates"]),
      ("study_of_folds", "study", sample_study.write,
       {"num_seeds": 1, "num_folds": 3, "settings": ("iid",)}, ["candidates"]),
      ("study_that_is_tuned", "study", sample_study.write,
       {"learning_rates": (0.1, 0.2), "tuning_seeds": 2}),
      ("three_phases", *_THREE_PHASES,
       {"on": sample_run.task(num_new=2), "choice": sample_run.choice(),
        "means": {"fedavg_matched": 13, "ditto": 14, "my_method": 13}}, ["profiles"]),
      ("one_client", *_THREE_PHASES,
       {"on": sample_run.task(1), "means": {"dynamic_distance": None},
        "settings": {"num_clusters": 1, "methods": ("kmeans",)}}, ["distance_matrix", "profiles"]),
      ("many_names", *_THREE_PHASES,
       {"on": sample_run.task(510, num_classes=12, class_names=_ODD_NAMES)}, ["profiles"]),
  )
  def test_all_are_drawn_but_those_without_numbers(self, name, write, changes=(), missing=()):
    nightly.skip_by_day(self, self._testMethodName.endswith(_BY_NIGHT))
    experiment = registry.experiment(name)
    run = write(self.create_tempdir().full_path, **dict(changes))
    tidy_report.report(experiment, run)
    expected = {figure.name for figure in experiment.figures}.difference(missing)
    found = {figure.removesuffix(".png") for figure in os.listdir(run.join("figures"))}
    self.assertEqual(found, expected)
    if nightly.either(False, True):
      before = run_folder.files(run.path)
      tidy_report.report(experiment, run)
      self.assertEqual(run_folder.files(run.path), before)
