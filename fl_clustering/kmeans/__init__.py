"""Federated k-means: `FederatedKMeans`, its algorithms, `PointPrivacy` and `ClientPrivacy`."""

import importlib

_ALGORITHMS = ("Sums", "FkmLloyd", "Lloyd", "Fkm", "KFed", "ChildParent", "TffMinibatch")
# scikit-learn takes most of a second to import, and the modules of this package that check settings
# do without.
_MODULES = {
    "FederatedKMeans": "fl_clustering.kmeans.estimator",
    "PointPrivacy": "fl_clustering.points.privacy",
    "ClientPrivacy": "fl_clustering.points.privacy",
    **dict.fromkeys(_ALGORITHMS, "fl_clustering.kmeans.kmeans_config"),
}


def __getattr__(name: str) -> type:
  if name not in _MODULES:
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
  return getattr(importlib.import_module(_MODULES[name]), name)
