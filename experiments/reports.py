"""What draws the report of each experiment: the only list of them."""

# From an experiment's name in `config.json` to the module whose `write_report` draws its report.
MODULES = {
    "dp_benchmark": "experiments.private.benchmark",
    "federated_kmeans": "experiments.kmeans.papers",
    "federated_kmeans_own_data": "experiments.kmeans.own_report",
    "multi_view": "experiments.multiview.comparison",
    "private_clusters": "experiments.private_training.release",
    "private_clusters_simulation": "experiments.private_training.simulation",
    "study": "experiments.grouping_study.report",
    "three_phase_emnist": "experiments.three_phase.report",
}
