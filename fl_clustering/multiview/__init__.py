"""Federated multi-view k-means: `FederatedMultiViewKMeans`, and its `PointPrivacy`."""


def __getattr__(name):
  # TensorFlow Federated takes seconds to import, and the modules of this package
  # that read files and check settings do without.
  # pylint: disable=g-import-not-at-top
  if name == "FederatedMultiViewKMeans":
    from fl_clustering.multiview import estimator

    return estimator.FederatedMultiViewKMeans
  if name == "PointPrivacy":
    from fl_clustering.multiview import multiview_config

    return multiview_config.PointPrivacy
  raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
