"""Federated k-means: `FederatedKMeans`."""


def __getattr__(name):
  # TensorFlow Federated takes seconds to import, and the modules of this package
  # that read files and check settings do without.
  if name == "FederatedKMeans":
    from fl_clustering.kmeans import estimator  # pylint: disable=g-import-not-at-top

    return estimator.FederatedKMeans
  raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
