"""The experiments by name: the only list of them."""

import importlib

from experiment_shell import tidy_experiment

# From an experiment's name in `config.json` to a module with its `EXPERIMENT`.
MODULES = {
    "cluster_tables": "experiments.cluster_tables.experiment",
    "clustering_demo": "dp_clustering.demo.sweeps",
    "dp_benchmark": "experiments.dp_benchmark.benchmark",
    "federated_kmeans": "experiments.federated_kmeans.papers",
    "multi_view": "experiments.multi_view.comparison",
    "private_clusters": "experiments.private_clusters.release",
    "private_clusters_simulation": "experiments.private_clusters.simulation",
    "study": "experiments.study.cells",
    "three_phase_emnist": "experiments.three_phase_emnist.experiment",
}


def experiment(name: str) -> tidy_experiment.Experiment:
  return importlib.import_module(MODULES[name]).EXPERIMENT
