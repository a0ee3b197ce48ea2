"""Federated k-means: `FederatedKMeans`, with `PointPrivacy` or `ClientPrivacy`."""


def __getattr__(name):
  # TensorFlow Federated takes seconds to import, and the modules of this package
  # that read files and check settings do without.
  # pylint: disable=g-import-not-at-top
  if name == "FederatedKMeans":
    from fl_clustering.kmeans import estimator

    return estimator.FederatedKMeans
  if name in ("PointPrivacy", "ClientPrivacy"):
    from fl_clustering.points import privacy

    return getattr(privacy, name)
  raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
