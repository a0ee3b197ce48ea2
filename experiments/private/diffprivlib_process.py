"""IBM's diffprivlib in a process of its own, with a Python of its own."""

import json
import os
import subprocess
import tempfile

import numpy as np

from experiment_shell import child_process

_WORKER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "diffprivlib_worker.py")
_SECONDS_TO_END = 5


class Unavailable(Exception):
  """diffprivlib can't be run; the message says why."""


class ProcessEnded(RuntimeError):
  """The process ended before it answered."""


def default_python():
  """Returns the path of the Python that Bazel made for diffprivlib, or None."""
  try:
    from diffprivlib_env import interpreter
  except ImportError:
    return None
  return interpreter.PATH


class DiffprivlibProcess:
  """The process; a context manager that ends it.

  Attributes:
    versions: Versions of diffprivlib and of what it computes with, by name.
  """

  def __init__(self, python):
    """Starts the process.

    Args:
      python: Path of a Python that has diffprivlib.

    Raises:
      Unavailable: If it does not run, or has no diffprivlib.
    """
    self._points = None
    self._errors = tempfile.TemporaryFile()
    try:
      self._process = subprocess.Popen(
          # Isolated, because this program's packages are not for that Python.
          [python, "-I", _WORKER],
          stdin=subprocess.PIPE,
          stdout=subprocess.PIPE,
          stderr=self._errors,
      )
    except OSError as e:
      self._errors.close()
      raise Unavailable(f"{python} can't be run ({e.strerror})") from e
    try:
      answer = json.loads(self._process.stdout.readline())
      error = answer.get("error")
    except ValueError:
      error = self._last_error()
    if error is not None:
      self.close()
      raise Unavailable(f"{python} has no diffprivlib that works ({error})")
    self.versions = answer["versions"]

  def __enter__(self):
    return self

  def __exit__(self, *unused_exception):
    self.close()

  def close(self):
    """Ends the process."""
    self._process.kill()
    self._process.communicate()
    self._errors.close()

  def _last_error(self):
    """Returns the process's exit code and last error line; ends the process if need be."""
    try:
      code = self._process.wait(timeout=_SECONDS_TO_END)
    except subprocess.TimeoutExpired:
      self._process.kill()
      code = self._process.wait()
    return ": ".join(filter(None, (f"code {code}", child_process.last_line(self._errors))))

  def centers(self, points, k, epsilon, delta, seed):
    """Returns the centers of diffprivlib's k-means, array of shape (k, dim).

    Args:
      points: Float64 array of shape (num_points, dim); sent only if it is not the same
        object as in the last call.
      k: Number of clusters.
      epsilon: The privacy parameter.
      delta: Not used: diffprivlib's k-means has none, which is stricter.
      seed: Integer from 0 to 2**32 - 1.

    Raises:
      ProcessEnded: If the process ended.
    """
    del delta
    request = {"k": k, "epsilon": epsilon, "seed": seed}
    try:
      self._send(request, None if points is self._points else points)
      (num_rows, dim) = json.loads(self._process.stdout.readline())["shape"]
      values = self._process.stdout.read(8 * num_rows * dim)
      return np.frombuffer(values).reshape(num_rows, dim)
    except (OSError, ValueError) as e:
      raise ProcessEnded(f"the process of diffprivlib ended ({self._last_error()})") from e

  def _send(self, request, points):
    if points is not None:
      request["shape"] = points.shape
    self._process.stdin.write(json.dumps(request).encode() + b"\n")
    if points is not None:
      self._process.stdin.write(np.ascontiguousarray(points, np.float64))
      self._points = points
    self._process.stdin.flush()
