"""Federated k-means: the papers' experiments, or the clusters of your own clients' data.

Your data are those of a folder, or stay at sites: workers that own their clients.

  bazel run experiments:federated_kmeans -- --output_dir=out
  bazel run experiments:federated_kmeans -- --data_dir=folder --k_range=2:8 --standardize
  bazel run experiments:federated_kmeans -- --data_dir=folder --num_clusters=3 --epsilon=1 \\
      --delta=1e-6 --radius=9
  bazel run experiments:federated_kmeans -- --workers=host:8000,other:8000 --num_clusters=3
"""

from experiment_shell import launch  # First, for Ctrl-C while the others are imported.

import functools

from absl import flags

from experiment_shell import experiment
from experiments.kmeans import config as config_lib
from experiments.kmeans import flags as kmeans_flags
from experiments.kmeans import own_data
from experiments import worker_flags

flags.adopt_module_key_flags(worker_flags)
flags.adopt_module_key_flags(kmeans_flags)


_open_runtime = functools.partial(
    worker_flags.open_runtime, "give --num_clusters or --k_range, and no --data_dir"
)


def _load_paper(config, recorded, unused_stack):
  from experiments.kmeans import data  # pylint: disable=g-import-not-at-top

  data_dir = kmeans_flags.cache_dir()
  # `auto` stays with what it has chosen.
  described = data.describe(config, data_dir) if recorded is None else recorded["data"]
  lines = tuple(f"data: {what}: {source}" for what, source in described.items())
  draw = data.build_draw(described.get("dataset"), data_dir)
  return experiment.Inputs(draw, {"data": described}, lines)


def _measure_paper(config, inputs, folder):
  from experiments.kmeans import cells  # pylint: disable=g-import-not-at-top

  cells.measure_all(config, inputs.data, folder, _open_runtime)


def _summarize_paper(finished):
  from experiments.kmeans import results  # pylint: disable=g-import-not-at-top

  return results.summary(results.read(finished))


def _build_paper_report():
  from experiments.kmeans import report  # pylint: disable=g-import-not-at-top

  return report.write_report


def _paper_result(finished):
  from experiments.kmeans import report  # pylint: disable=g-import-not-at-top

  return report.result_text(finished)


def _load_own_data(config, recorded, unused_stack):
  return own_data.load(config, kmeans_flags.data_dir(), recorded)


def _build_own_report():
  from experiments.kmeans import own_report  # pylint: disable=g-import-not-at-top

  return own_report.write_report


def _own_result(finished):
  from experiments.kmeans import own_report  # pylint: disable=g-import-not-at-top

  return own_report.result_text(finished)


def _load_sites(config, recorded, stack):
  from experiments.kmeans import site_data  # pylint: disable=g-import-not-at-top

  return site_data.load(config, recorded, stack)


def _measure_sites(config, inputs, folder):
  from experiments.kmeans import site_data  # pylint: disable=g-import-not-at-top

  return site_data.measure_all(config, inputs, folder)


def _build_site_report():
  from experiments.kmeans import site_report  # pylint: disable=g-import-not-at-top

  return site_report.write_report


def _site_result(finished):
  from experiments.kmeans import site_report  # pylint: disable=g-import-not-at-top

  return site_report.result_text(finished)


def _failures():
  from fl_clustering import runtime  # pylint: disable=g-import-not-at-top

  return (runtime.WorkerLost,)


_experiment = functools.partial(
    experiment.Experiment,
    program="federated_kmeans",
    versions_of=("numpy", "scikit-learn", "tensorflow", "tensorflow-federated"),
    failures=_failures,
)

PAPER = _experiment(
    name="federated_kmeans",
    files=(config_lib.MEASUREMENTS, config_lib.TIMING),
    folders=("figures",),
    read_flags=kmeans_flags.paper_config,
    load=_load_paper,
    measure=_measure_paper,
    build_write_report=_build_paper_report,
    result_text=_paper_result,
    summarize=_summarize_paper,
)

OWN_DATA = _experiment(
    name="federated_kmeans_own_data",
    files=(
        config_lib.K_SELECTION, config_lib.CENTROIDS, config_lib.ROUNDS, config_lib.PROFILES,
    ),
    folders=("figures", config_lib.ASSIGNMENTS, config_lib.MODEL),
    read_flags=kmeans_flags.own_data_config,
    load=_load_own_data,
    measure=functools.partial(own_data.measure_all, open_runtime=_open_runtime),
    build_write_report=_build_own_report,
    result_text=_own_result,
    # A finished run is told from one on other data.
    rechecks_finished=True,
)

SITES = _experiment(
    name="federated_kmeans_sites",
    files=OWN_DATA.files,
    folders=("figures", config_lib.MODEL),
    read_flags=kmeans_flags.sites_config,
    load=_load_sites,
    measure=_measure_sites,
    build_write_report=_build_site_report,
    result_text=_site_result,
    rechecks_finished=True,
)


def _chosen():
  if kmeans_flags.are_at_sites(worker_flags.addresses()):
    return SITES
  return PAPER if kmeans_flags.data_dir() is None else OWN_DATA


def main():
  experiment.build_main(_chosen())()


if __name__ == "__main__":
  launch.run(main)
