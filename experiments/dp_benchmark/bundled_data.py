"""Six real data sets that installed packages bring along, so that they need no network.

None of them was used to choose the constants of `dp_clustering.refine`.  Each function
returns the points, an array of shape (num_points, dim), and one line on them.
"""

from typing import Any

import numpy as np

_PATCH_SIDE = 4
_WINDOW = 36


def standardized(points: np.ndarray) -> np.ndarray:
  """Returns points with mean zero and variance one in every column; none may be constant."""
  points = np.asarray(points, np.float64)
  return (points - points.mean(axis=0)) / points.std(axis=0)


def _sample_image(name: str) -> np.ndarray:
  # Imported late: it takes most of a second, and bad flags should fail at once.
  from sklearn import datasets

  return datasets.load_sample_image(name)


def load_photo_colors() -> tuple[np.ndarray, str]:
  """Returns the colors of a quarter of the pixels of a photograph; 68,480 x 3."""
  pixels = _sample_image("china.jpg")[::2, ::2].reshape(-1, 3)
  return pixels, "red, green and blue of every second pixel, both ways, of scikit-learn's china.jpg"


def load_photo_patches() -> tuple[np.ndarray, str]:
  """Returns squares of 4 x 4 pixels of another photograph; 16,960 x 48."""
  image = _sample_image("flower.jpg")
  rows, columns = (length // _PATCH_SIDE for length in image.shape[:2])
  cut = image[: rows * _PATCH_SIDE, : columns * _PATCH_SIDE]
  patches = cut.reshape(rows, _PATCH_SIDE, columns, _PATCH_SIDE, 3).swapaxes(1, 2)
  return (
      patches.reshape(rows * columns, -1),
      "squares of 4 x 4 pixels, in colors, of scikit-learn's flower.jpg",
  )


def load_ecg_windows() -> tuple[np.ndarray, str]:
  """Returns tenths of seconds of an electrocardiogram of five minutes; 3,000 x 36."""
  from scipy import misc

  signal = misc.electrocardiogram()
  return (
      signal.reshape(-1, _WINDOW),
      "tenths of seconds of SciPy's electrocardiogram (MIT-BIH record 208, 360 Hz)",
  )


def load_terrain() -> tuple[np.ndarray, str]:
  """Returns places and heights of a piece of land, standardized; 34,744 x 3."""
  from matplotlib import cbook

  sample: Any = cbook.get_sample_data("jacksboro_fault_dem.npz")
  with sample as file:
    heights = file["elevation"][::2, ::2]
  places = np.indices(heights.shape).reshape(2, -1)
  return (
      standardized(np.column_stack([*places, heights.ravel()])),
      "row, column and height of every second place, both ways, of Matplotlib's "
      "jacksboro_fault_dem.npz, standardized",
  )


def load_breast_cancer() -> tuple[np.ndarray, str]:
  """Returns measurements of cell nuclei, standardized; 569 x 30."""
  from sklearn import datasets

  points = standardized(datasets.load_breast_cancer().data)
  return points, "cell nuclei, from scikit-learn, standardized"


def load_diabetes() -> tuple[np.ndarray, str]:
  """Returns measurements of patients, standardized; 442 x 10."""
  from sklearn import datasets

  return standardized(datasets.load_diabetes().data), "patients, from scikit-learn, standardized"


# By the names of the benchmark's data sets.
LOADERS = {
    "photo_colors": load_photo_colors,
    "photo_patches": load_photo_patches,
    "ecg_windows": load_ecg_windows,
    "terrain": load_terrain,
    "breast_cancer": load_breast_cancer,
    "diabetes": load_diabetes,
}
