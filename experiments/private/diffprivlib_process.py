"""IBM's diffprivlib in a process of its own, with a Python of its own.

That Python, which may be older, imports this module too, so it needs NumPy and diffprivlib alone.
"""

from __future__ import annotations

import os
import tempfile
from typing import Any, Callable, Iterator

import numpy as np

from experiment_shell import child_process


class Unavailable(Exception):
  """diffprivlib can't be run; the message says why."""


class ProcessEnded(RuntimeError):
  """The process ended before it answered."""


def default_python() -> str | None:
  """Returns the path of the Python that Bazel made for diffprivlib, if any."""
  try:
    from diffprivlib_env import interpreter
  except ImportError:
    return None
  return interpreter.PATH


def _centers(points: np.ndarray, k: int, epsilon: float, seed: int) -> np.ndarray:
  from diffprivlib import models

  # The largest coordinate, as in the comparisons of the source; this is not private.
  bound = float(np.abs(points).max())
  model = models.KMeans(
      n_clusters=k, epsilon=epsilon, bounds=(-bound, bound), random_state=seed
  )
  return model.fit(points).cluster_centers_


def serve(requests: Iterator[Any], answer: Callable[[Any], None]) -> None:
  """Answers with versions first, then with the centers for each request."""
  try:
    import diffprivlib
    import sklearn
  except ImportError as e:
    answer({"error": str(e)})
    return
  answer({"versions": {
      "diffprivlib": diffprivlib.__version__,
      "scikit-learn": sklearn.__version__,
      "numpy": np.__version__,
  }})
  points = np.empty((0, 0))
  for request in requests:
    if request["new_points"] is not None:
      points = np.load(request["new_points"])
    answer(_centers(points, **request["settings"]).tolist())


class DiffprivlibProcess:
  """The process; a context manager that ends it.  One that has ended is started anew when needed.

  Attributes:
    versions: Versions of diffprivlib and of what it computes with, by name.
  """

  def __init__(self, python: str) -> None:
    """Starts the process with a Python that has diffprivlib; else `Unavailable`."""
    self._python = python
    self._child: child_process.ChildProcess | None = None
    self._folder = tempfile.TemporaryDirectory()
    try:
      self._child = self._started()
    except Unavailable:
      self._folder.cleanup()
      raise

  def __enter__(self) -> DiffprivlibProcess:
    return self

  def __exit__(self, *unused_exception: object) -> None:
    if self._child is not None:
      self._child.close()
    self._folder.cleanup()

  def _started(self) -> child_process.ChildProcess:
    self._points: np.ndarray | None = None
    try:
      child = child_process.ChildProcess(child_process.serving(__name__, self._python))
    except OSError as e:
      raise Unavailable(f"{self._python} can't be run ({e.strerror})") from e
    try:
      answer = child.answer()
      error = answer.get("error")
    except child_process.Failed:
      error = child.ending() or "no answer"
    if error is not None:
      child.close()
      raise Unavailable(f"{self._python} has no diffprivlib that works ({error})")
    self.versions: dict[str, str] = answer["versions"]
    self.pid = child.pid
    return child

  def centers(self, points: np.ndarray, k: int, epsilon: float, seed: int) -> np.ndarray:
    """Returns the centers of diffprivlib's k-means, array of shape (k, dim).

    Args:
      points: Of shape (num_points, dim); handed over only if it is not the same object as in the
        last call.
      epsilon: Without delta: diffprivlib's k-means has none, which is stricter.
      seed: From 0 to 2**32 - 1.

    Raises:
      ProcessEnded: If the process ended.
    """
    child = self._child = self._child or self._started()
    path = None
    if points is not self._points:
      path = os.path.join(self._folder.name, "points.npy")
      np.save(path, np.ascontiguousarray(points, np.float64))
      self._points = points
    settings = {"k": k, "epsilon": epsilon, "seed": seed}
    child.send({"new_points": path, "settings": settings})
    try:
      return np.array(child.answer())
    except child_process.Failed as e:
      ending = child.ending() or "no answer"
      child.close()
      self._child = None
      raise ProcessEnded(f"the process of diffprivlib ended ({ending})") from e
