"""A model of a finished run, whatever the program that made it."""

from typing import Any

from fl_clustering import model_folder
from fl_clustering.kmeans import saved_kmeans
from fl_clustering.multiview import saved_multiview
from fl_clustering.three_phase import saved_clusters

# To add a kind: one class with `KIND`, `save`, `load`, `open_folder`, `place_others`, `predict` and
# `predict_tables`.
_CLASSES = (
    saved_clusters.SavedClusters, saved_kmeans.SavedKMeans, saved_multiview.SavedMultiView
)
KINDS = {model.KIND: model for model in _CLASSES}


def load_model(path: str) -> Any:
  """Returns the model of a finished run, an object of a class in `KINDS`.

  Args:
    path: The run's folder, or the folder `model` in it.

  Raises:
    ValueError: If there is none, or it can't be read.
    OSError: If a file is missing.
  """
  directory = model_folder.find(path)
  kind, document, arrays = model_folder.read(directory)
  if kind not in KINDS:
    raise ValueError(
        f"`run` must hold a model of a kind in {', '.join(KINDS)}, got {kind!r} in {directory!r}."
    )
  try:
    return KINDS[kind].load(document, arrays)
  except (KeyError, TypeError, ValueError, AttributeError) as e:
    raise ValueError(
        f"`run` must hold a model that can be read, got {directory!r}: {type(e).__name__}: {e}."
    ) from e
