"""Differentially private k-means: two methods, one result.

  data = clustering_params.Data(points, radius=1.0)
  budget = clustering_params.DifferentialPrivacyParam(epsilon=1.0, delta=1e-6)
  result = clustering.private_clustering(k=10, data=data, privacy_param=budget)
  result.centers, result.ledger

The privacy is that of the central model; neighbouring data sets differ by one point,
added or removed.  This module only collects the public names.
"""

# pylint: disable=unused-import
from dp_clustering.metrics import ClusteringMetrics
from dp_clustering.private_methods import ClusteringResult
from dp_clustering.private_methods import METHODS
from dp_clustering.private_methods import private_clustering
from dp_clustering.private_methods import private_lsh_clustering


def __getattr__(name: str) -> type:
  # `PrivateKMeans` needs scikit-learn, whose import takes most of a second.
  if name == "PrivateKMeans":
    from dp_clustering import private_kmeans  # pylint: disable=g-import-not-at-top

    return private_kmeans.PrivateKMeans
  raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
