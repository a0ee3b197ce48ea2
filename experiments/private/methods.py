"""The methods that the benchmark compares.

A method is a function (points, k, epsilon, delta, seed) that returns the centers, an
array of shape (k, dim).  It ignores epsilon or delta if it has no such parameter.
"""

import dataclasses
import functools
from typing import Callable

from clustering_basics import core_count
from clustering_basics import validate
from dp_clustering import clustering_params
from dp_clustering import private_methods
from experiments.private import data
from experiments.private import diffprivlib_process

# The label of each method in tables and figures.
LABELS = {
    "sklearn": "scikit-learn (not private)",
    "diffprivlib": "IBM diffprivlib",
    "lsh": "LSH tree",
    "refine": "split and refine",
}
NOT_PRIVATE = "sklearn"

# scikit-learn's default when the source's benchmarks were made.  With today's default, 1,
# k-means without privacy is often worse than private k-means.
_NUM_STARTS = 10


@dataclasses.dataclass(frozen=True, eq=False)
class LoadedMethods:
  """The methods that can be run on this machine.

  Attributes:
    by_name: The functions, by name.
    skipped: The reasons why the others can't be run, by name.
    diffprivlib_versions: Versions in the environment of diffprivlib; empty without it.
  """

  by_name: dict[str, Callable]
  skipped: dict[str, str]
  diffprivlib_versions: dict[str, str]


def _sklearn_centers(points, k, epsilon, delta, seed):
  del epsilon, delta  # It has no privacy.
  # Imported late: it takes most of a second, and bad flags should fail at once.
  from sklearn import cluster

  core_count.count_quietly()
  kmeans = cluster.KMeans(n_clusters=k, n_init=_NUM_STARTS, random_state=seed)
  return kmeans.fit(points).cluster_centers_


def private_result(method, points, k, epsilon, delta, seed):
  """Returns the `ClusteringResult` of one of our private methods, with seeded noise.

  Args:
    method: A key of `private_methods.METHODS`.
    points: Array of shape (num_points, dim), every row within `data.RADIUS`.
    k: Number of clusters.
    epsilon: Privacy parameter.
    delta: Privacy parameter.
    seed: Seed of the noise.
  """
  return private_methods.METHODS[method](
      k,
      clustering_params.Data(points, data.RADIUS),
      clustering_params.DifferentialPrivacyParam(epsilon, delta),
      random_state=seed,
  )


def _private_centers(method, *arguments):
  return private_result(method, *arguments).centers


def _start_diffprivlib(python):
  """Returns a `DiffprivlibProcess`, or else None and the reason.

  Args:
    python: Path of a Python with diffprivlib; None for Bazel's, if any.
  """
  chosen = python or diffprivlib_process.default_python()
  if chosen is None:
    return None, (
        "no Python with diffprivlib was found; run with Bazel, or name one with "
        "--diffprivlib_python"
    )
  try:
    return diffprivlib_process.DiffprivlibProcess(chosen), None
  except diffprivlib_process.Unavailable as e:
    if python is not None:
      raise validate.error("diffprivlib_python", f"have diffprivlib ({e})", python) from e
    return None, str(e)


def load(names, diffprivlib_python, stack):
  """Returns the `LoadedMethods`; starts diffprivlib if it is among them.

  Args:
    names: Keys of `LABELS`.
    diffprivlib_python: Path of a Python with diffprivlib; None for Bazel's, if any.
    stack: A `contextlib.ExitStack`, which ends the process of diffprivlib.

  Raises:
    ValueError: If `diffprivlib_python` has no diffprivlib, or no method is left.
  """
  found = {
      "sklearn": _sklearn_centers,
      "lsh": functools.partial(_private_centers, "lsh"),
      "refine": functools.partial(_private_centers, "refine"),
  }
  skipped, versions = {}, {}
  if "diffprivlib" in names:
    process, reason = _start_diffprivlib(diffprivlib_python)
    if process is None:
      skipped["diffprivlib"] = reason
    else:
      found["diffprivlib"] = stack.enter_context(process).centers
      versions = process.versions
  by_name = {name: found[name] for name in names if name in found}
  if not by_name:
    (reason,) = skipped.values()
    raise validate.error("methods", f"name one that can be run here ({reason})", "diffprivlib")
  return LoadedMethods(by_name, skipped, versions)
