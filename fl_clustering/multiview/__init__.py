"""Federated multi-view k-means: `FederatedMultiViewKMeans`, and its `ViewPrivacy`."""

import importlib

# scikit-learn takes most of a second to import, and the modules of this package that check settings
# do without.
_MODULES = {
    "FederatedMultiViewKMeans": "fl_clustering.multiview.estimator",
    "ViewPrivacy": "fl_clustering.points.privacy",
}


def __getattr__(name: str) -> type:
  if name not in _MODULES:
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
  return getattr(importlib.import_module(_MODULES[name]), name)
