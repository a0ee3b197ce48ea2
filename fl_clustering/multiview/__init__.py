"""Federated multi-view k-means: `FederatedMultiViewKMeans`."""


def __getattr__(name):
  # TensorFlow Federated takes seconds to import, and the modules of this package
  # that read files and check settings do without.
  if name == "FederatedMultiViewKMeans":
    from fl_clustering.multiview import estimator  # pylint: disable=g-import-not-at-top

    return estimator.FederatedMultiViewKMeans
  raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
