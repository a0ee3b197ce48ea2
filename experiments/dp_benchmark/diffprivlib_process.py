"""IBM's diffprivlib in a process of its own, with a Python of its own.

That Python, which may be older, runs this file, so it needs NumPy and diffprivlib alone.  Requests
and answers are lines of JSON; points are in a file.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
from typing import Any

import numpy as np


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


class DiffprivlibProcess:
  """The process; a context manager that ends it.  One that has ended is started anew when needed.

  Attributes:
    versions: Versions of diffprivlib and of what it computes with, by name.
  """

  def __init__(self, python: str) -> None:
    """Starts the process with a Python that has diffprivlib; else `Unavailable`."""
    self._python = python
    self._open = contextlib.ExitStack()
    self._folder = self._open.enter_context(tempfile.TemporaryDirectory())
    self._errors = os.path.join(self._folder, "errors")
    try:
      self._start()
    except (ProcessEnded, ValueError) as e:  # What it prints may be no JSON.
      self._open.close()
      raise Unavailable(f"{python} has no diffprivlib that works ({e})") from e

  def __enter__(self) -> DiffprivlibProcess:
    return self

  def __exit__(self, *unused_exception: object) -> None:
    self._open.close()

  def _start(self) -> None:
    """Starts the process, perhaps in place of one that has ended; `ProcessEnded` if it can't."""
    self._points: np.ndarray | None = None
    with open(self._errors, "wb") as errors:
      try:
        self._process = subprocess.Popen(
            [self._python, "-I", os.path.abspath(__file__)], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=errors, text=True,
            start_new_session=True,  # Ctrl-C is for the program, which ends it.
        )
      except OSError as e:
        raise ProcessEnded(f"the process of diffprivlib can't be started: {e}") from e
    self._open.callback(self._process.communicate)
    self._open.callback(self._process.kill)
    self.versions: dict[str, str] = self._answer()

  def _answer(self) -> Any:
    """Returns the next answer; `ProcessEnded` if there is none."""
    from clustering_basics import child_process  # The other Python doesn't find it.

    assert self._process.stdout is not None  # As types can't say.
    line = self._process.stdout.readline()
    if line:
      return json.loads(line)
    self._process.communicate()  # Closes the pipes, too.
    with open(self._errors, "rb") as errors:
      words = filter(None, (f"code {self._process.returncode}", child_process.last_line(errors)))
    raise ProcessEnded(f"the process of diffprivlib ended with {': '.join(words)}")

  def centers(self, points: np.ndarray, k: int, epsilon: float, seed: int) -> np.ndarray:
    """Returns the centers of diffprivlib's k-means, array of shape (k, dim).

    Args:
      points: Of shape (n, dim); handed over only if it is not the same object as in the last call.
      epsilon: Without delta: diffprivlib's k-means has none, which is stricter.
      seed: From 0 to 2**32 - 1.

    Raises:
      ProcessEnded: If the process ended.
    """
    if self._process.poll() is not None:
      self._start()
    path = None
    if points is not self._points:
      path = os.path.join(self._folder, "points.npy")
      np.save(path, np.ascontiguousarray(points, np.float64))
      self._points = points
    request = {"new_points": path, "k": k, "epsilon": epsilon, "seed": seed}
    # If it has ended, whoever reads its answer is told.
    with contextlib.suppress(BrokenPipeError):
      print(json.dumps(request), file=self._process.stdin, flush=True)
    return np.array(self._answer())


def _centers(points: np.ndarray, k: int, epsilon: float, seed: int) -> np.ndarray:
  from diffprivlib import models

  # The largest coordinate, as in the comparisons of the source; this is not private.
  bound = float(np.abs(points).max())
  model = models.KMeans(
      n_clusters=k, epsilon=epsilon, bounds=(-bound, bound), random_state=seed
  )
  return model.fit(points).cluster_centers_


def _serve() -> None:
  """Answers with versions first, then with the centers for each request."""
  # Whatever else prints must not be taken for an answer.
  answers = os.fdopen(os.dup(1), "w")
  os.dup2(2, 1)
  import diffprivlib
  import sklearn

  versions = {
      "diffprivlib": diffprivlib.__version__, "scikit-learn": sklearn.__version__,
      "numpy": np.__version__,
  }
  print(json.dumps(versions), file=answers, flush=True)
  points = np.empty((0, 0))
  for request in map(json.loads, sys.stdin):
    path = request.pop("new_points")
    points = points if path is None else np.load(path)
    print(json.dumps(_centers(points, **request).tolist()), file=answers, flush=True)


if __name__ == "__main__":
  _serve()
