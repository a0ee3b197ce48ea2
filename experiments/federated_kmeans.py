"""Federated k-means: the papers' experiments, or the clusters of your own clients' data.

  bazel run experiments:federated_kmeans -- --output_dir=out
  bazel run experiments:federated_kmeans -- --data=folder --k_range=2:8 --standardize
"""

from experiment_shell import launch  # First, for Ctrl-C while the others are imported.

import functools

from absl import flags

from experiment_shell import experiment
from experiment_shell import finished_run
from experiments.kmeans import config as config_lib
from experiments.kmeans import flags as kmeans_flags
from experiments.kmeans import own_data

flags.adopt_module_key_flags(kmeans_flags)


def _load_paper(config, recorded, unused_stack):
  from experiments.kmeans import data  # pylint: disable=g-import-not-at-top

  data_dir = kmeans_flags.data_dir()
  # `auto` stays with what it has chosen.
  described = data.describe(config, data_dir) if recorded is None else recorded["data"]
  lines = tuple(f"data: {what}: {source}" for what, source in described.items())
  draw = data.build_draw(described.get("dataset"), data_dir)
  return experiment.Inputs(draw, {"data": described}, lines)


def _measure_paper(config, inputs, folder):
  # pylint: disable=g-import-not-at-top
  from experiments.kmeans import cells
  from experiments.kmeans import results
  # pylint: enable=g-import-not-at-top

  cells.measure_all(config, inputs.data, folder)
  return results.summary(results.read(finished_run.FinishedRun(folder.path)))


def _write_paper_report(finished):
  from experiments.kmeans import report  # pylint: disable=g-import-not-at-top

  report.write_report(finished)


def _paper_result(finished):
  from experiments.kmeans import report  # pylint: disable=g-import-not-at-top

  return report.result_text(finished)


def _load_own_data(config, recorded, unused_stack):
  return own_data.load(config, kmeans_flags.own_data_dir(), recorded)


def _write_own_report(finished):
  from experiments.kmeans import own_report  # pylint: disable=g-import-not-at-top

  own_report.write_report(finished)


def _own_result(finished):
  from experiments.kmeans import own_report  # pylint: disable=g-import-not-at-top

  return own_report.result_text(finished)


def _failures():
  from fl_clustering import runtime  # pylint: disable=g-import-not-at-top

  return (runtime.WorkerLost,)


# Each replaces the other's run with --overwrite, so both have the files of both.
_experiment = functools.partial(
    experiment.Experiment,
    program="federated_kmeans",
    files=(
        config_lib.MEASUREMENTS, config_lib.TIMING, config_lib.K_SELECTION, config_lib.CENTROIDS,
        config_lib.ROUNDS,
    ),
    folders=("figures", config_lib.ASSIGNMENTS),
    versions_of=("numpy", "scikit-learn", "tensorflow", "tensorflow-federated"),
    failures=_failures,
)

PAPER = _experiment(
    name="federated_kmeans",
    read_flags=kmeans_flags.paper_config,
    load=_load_paper,
    measure=_measure_paper,
    write_report=_write_paper_report,
    result_text=_paper_result,
)

OWN_DATA = _experiment(
    name="federated_kmeans_own_data",
    read_flags=kmeans_flags.own_data_config,
    load=_load_own_data,
    measure=own_data.measure_all,
    write_report=_write_own_report,
    result_text=_own_result,
    # A finished run is told from one on other data.
    rechecks_finished=True,
)


def main():
  chosen = PAPER if kmeans_flags.own_data_dir() is None else OWN_DATA
  experiment.build_main(chosen)()


if __name__ == "__main__":
  launch.run(main)
