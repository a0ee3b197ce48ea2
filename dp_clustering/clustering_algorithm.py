"""Another name for `clustering`, the one that its source uses today."""

# pylint: disable=unused-import
from dp_clustering.clustering import ClusteringMetrics
from dp_clustering.clustering import ClusteringResult
from dp_clustering.clustering import private_clustering
from dp_clustering.clustering import private_lsh_clustering
