"""Federated multi-view k-means against its alternatives, and against its source's claims.

  bazel run experiments:multi_view -- --datasets=digits --output_dir=out
  bazel run experiments:multi_view -- --data_dir=folder --num_clusters=4
  bazel run experiments:multi_view -- --workers=host:8000,other:8000 --num_clusters=4

Flags, output folder and data are checked before TensorFlow Federated is imported, which
takes seconds.
"""

from experiment_shell import launch  # First, for Ctrl-C while the others are imported.

import functools

from absl import flags

from experiment_shell import experiment
from experiments.multiview import config as config_lib
from experiments.multiview import data
from experiments.multiview import flags as experiment_flags
from experiments import worker_flags

flags.adopt_module_key_flags(worker_flags)
flags.adopt_module_key_flags(experiment_flags)


def _load(config, unused_recorded, unused_stack):
  loaded = data.load(config, experiment_flags.features_dir(), experiment_flags.data_dir())
  lines = [f"left out: {name}: {reason}" for name, reason in loaded.left_out.items()]
  lines += [f"data: {one.source}" for one in loaded.datasets.values()]
  return experiment.Inputs(loaded, loaded.describe(), tuple(lines))


def _measure(config, inputs, folder):
  # pylint: disable=g-import-not-at-top
  from experiment_shell import study
  from experiments.multiview import cells
  from experiments.multiview import methods
  from experiments.multiview import own_model
  # pylint: enable=g-import-not-at-top

  loaded = inputs.data
  table = study.Study(folder, config_lib.MEASUREMENTS, cells.KEYS, methods.VALUES)
  with worker_flags.open_runtime("give --num_clusters and no --data_dir"):
    table.run(cells.cells(loaded, config), cells.build_measure(loaded, config))
    if data.SITES in loaded.datasets:
      own_model.write(folder, loaded.datasets[data.SITES], config)


def _summarize(run):
  from experiments.multiview import results  # pylint: disable=g-import-not-at-top

  return results.summary(results.read(run))


def _build_write_report():
  from experiments.multiview import report  # pylint: disable=g-import-not-at-top

  return report.write_report


def _result_text(run):
  from experiments.multiview import results  # pylint: disable=g-import-not-at-top

  return results.text(results.read(run))


def _load_sites(config, recorded, stack):
  from experiments.multiview import site_data  # pylint: disable=g-import-not-at-top

  return site_data.load(config, recorded, stack)


def _measure_sites(config, inputs, folder):
  from experiments.multiview import site_data  # pylint: disable=g-import-not-at-top

  return site_data.measure_all(config, inputs, folder)


def _build_write_site_report():
  from experiments.multiview import site_report  # pylint: disable=g-import-not-at-top

  return site_report.write_report


def _site_result_text(run):
  from experiments.multiview import site_report  # pylint: disable=g-import-not-at-top

  return site_report.result_text(run)


def _failures():
  from fl_clustering import runtime  # pylint: disable=g-import-not-at-top

  return (runtime.WorkerLost,)


_experiment = functools.partial(
    experiment.Experiment,
    program="multi_view",
    versions_of=("numpy", "scikit-learn", "scipy", "tensorflow", "tensorflow-federated"),
    rechecks_finished=True,
    failures=_failures,
)

EXPERIMENT = _experiment(
    name="multi_view",
    files=(
        config_lib.MEASUREMENTS, config_lib.CLUSTERS, config_lib.CENTROIDS, config_lib.PROFILES,
    ),
    folders=("figures", config_lib.MODEL),
    read_flags=experiment_flags.config,
    load=_load,
    measure=_measure,
    build_write_report=_build_write_report,
    result_text=_result_text,
    check_recorded=data.check_recorded,
    summarize=_summarize,
)

# Views that stay at sites: workers that own their clients.
SITES = _experiment(
    name="multi_view_sites",
    files=(config_lib.MEASUREMENTS, config_lib.CENTROIDS, config_lib.PROFILES),
    folders=("figures", config_lib.MODEL),
    read_flags=experiment_flags.sites_config,
    load=_load_sites,
    measure=_measure_sites,
    build_write_report=_build_write_site_report,
    result_text=_site_result_text,
)


def main():
  at_sites = experiment_flags.are_at_sites(worker_flags.addresses())
  experiment.build_main(SITES if at_sites else EXPERIMENT)()


if __name__ == "__main__":
  launch.run(main)
