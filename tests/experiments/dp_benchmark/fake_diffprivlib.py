"""A stand-in for a Python with diffprivlib: this Python, with an invented k-means."""

import os
import sys

_PACKAGE = {
    "diffprivlib/__init__.py": '__version__ = "0.0-invented"\n',
    "diffprivlib/models.py": """
import numpy as np


class KMeans:

  def __init__(self, n_clusters, epsilon, bounds, random_state):
    self._settings = n_clusters, epsilon, bounds, random_state

  def fit(self, points):
    n_clusters, epsilon, bounds, random_state = self._settings
    if n_clusters == 13:
      raise ArithmeticError("thirteen clusters")
    rng = np.random.default_rng(random_state)
    self.cluster_centers_ = rng.normal(size=(n_clusters, points.shape[1])) / 100
    # For the tests to see what has come here.
    self.cluster_centers_[0] = points.mean(axis=0)
    self.cluster_centers_[1, :3] = epsilon, *bounds
    return self
""",
    "sklearn/__init__.py": '__version__ = "0.0-invented"\n',
}


def write_python(folder, with_package=True):
  """Writes an executable that behaves like a Python with diffprivlib.

  Args:
    folder: Where to write it.
    with_package: Whether it has diffprivlib.

  Returns:
    The path of the executable.
  """
  for name, text in _PACKAGE.items() if with_package else ():
    path = os.path.join(folder, "packages", name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
      file.write(text)
  python = os.path.join(folder, "python")
  with open(python, "w", encoding="utf-8") as file:
    # Without the flag for isolation, which would hide the invented packages.
    file.write(f'#!/bin/sh\nshift\nPYTHONPATH="{folder}/packages" exec "{sys.executable}" "$@"\n')
  os.chmod(python, 0o755)
  return python
