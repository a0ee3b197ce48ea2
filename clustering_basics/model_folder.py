"""A model as a folder of plain files: JSON for what people read, NPZ for numbers, no pickle.

  model/
    model.json    format, kind, columns, classes, assignments
    arrays.npz    centroids or parameters

`load_model.load_model` makes an object of it that predicts.
"""

import json
import os
from typing import Any, Mapping

import numpy as np

from clustering_basics import atomic_file
from clustering_basics import file_format

# The folder's name inside a run's.
MODEL = "model"
# What people read of it.
DOCUMENT = "model.json"

_ARRAYS = "arrays.npz"


def write(
    directory: str, kind: str, document: Mapping[str, Any], arrays: Mapping[str, np.ndarray]
) -> None:
  """Writes a model into a folder, which is made; the document must be fit for JSON."""
  os.makedirs(directory, exist_ok=True)
  atomic_file.write_arrays(os.path.join(directory, _ARRAYS), arrays)
  document = file_format.stamped({"kind": kind, **document})
  text = json.dumps(document, indent=1, allow_nan=False, ensure_ascii=False) + "\n"
  atomic_file.write_text(os.path.join(directory, DOCUMENT), text)


def find(path: str) -> str:
  """Returns the model's folder: `path` itself, or `model` in it.

  Raises:
    ValueError: If there is none.
  """
  for directory in (os.path.join(path, MODEL), path):
    if os.path.isfile(os.path.join(directory, DOCUMENT)):
      return directory
  raise ValueError(
      f"`run` must be the folder of a finished run with a model in it, got {path!r}."
  )


def read(directory: str) -> tuple[str, dict[str, Any], dict[str, np.ndarray]]:
  """Returns the kind, the document and the arrays of a model.

  Raises:
    ValueError: If a file is damaged, or of another format.
    OSError: If a file is missing.
  """
  path = os.path.join(directory, DOCUMENT)
  try:
    with open(path, encoding="utf-8") as file:
      document = json.load(file)
    kind = document.pop("kind")
    file_format.check(document)
    path = os.path.join(directory, _ARRAYS)
    arrays = atomic_file.read_arrays(path)
    for name, array in arrays.items():
      if array.dtype.kind not in "biuf":
        raise ValueError(f"{name!r} is not of numbers")
    return f"{kind}", document, arrays
  except (ValueError, TypeError, AttributeError, KeyError, RecursionError) as e:
    raise ValueError(f"`run` must hold a model that can be read, got {path!r}: {e}.") from e
