"""Two data sets of the UCI repository, from local files in UCI's layout or from OpenML."""

import contextlib
import os
import socket
import warnings
from typing import Any, Iterator

import numpy as np

from clustering_basics import validate

_LETTER_FILES = ("letter-recognition.data", "letter-recognition.data.gz")
_LETTER_SHAPE = (20_000, 16)
_GAS_FILES = tuple(f"gt_{year}.csv" for year in range(2011, 2016))
_GAS_SHAPE = (36_733, 11)
_OPENML_TIMEOUT_SECONDS = 20


class Unavailable(Exception):
  """A data set can't be had; the message says why."""


def _read_numbers(path: str, num_columns: int, **options: Any) -> np.ndarray:
  """Returns the columns of a CSV file; ValueError if they aren't numbers."""
  try:
    if not os.path.isfile(path):
      raise OSError("not a regular file")
    return np.loadtxt(path, delimiter=",", ndmin=2, encoding="utf-8", **options)
  except (ValueError, EOFError, OSError) as e:
    raise validate.error(
        "data_dir", f"hold {os.path.basename(path)} with {num_columns} columns of numbers in "
        f"UCI's layout ({e})", path,
    ) from e


@contextlib.contextmanager
def _network_timeout(seconds: float) -> Iterator[None]:
  before = socket.getdefaulttimeout()
  socket.setdefaulttimeout(seconds)
  try:
    yield
  finally:
    socket.setdefaulttimeout(before)


def _from_openml(shape: tuple[int, int], **request: Any) -> np.ndarray:
  """Returns a data set of OpenML's as an array of this shape."""
  # Imported late: it takes most of a second, and most runs need no network.
  from sklearn import datasets

  try:
    with _network_timeout(_OPENML_TIMEOUT_SECONDS), warnings.catch_warnings():
      warnings.simplefilter("ignore")  # It warns before it tries again.
      bunch = datasets.fetch_openml(as_frame=False, n_retries=1, **request)
    points = np.asarray(bunch.data, np.float64)
  except (OSError, ValueError) as e:
    raise Unavailable(f"OpenML could not provide it ({e})") from e
  if points.shape != shape:
    raise Unavailable(f"OpenML's has the shape {points.shape}, not UCI's {shape}")
  return points


def _missing(names: str, data_dir: str | None) -> str:
  place = "without --data_dir" if data_dir is None else f"not in {data_dir}"
  return f"{names} {place}"


def load_letter(data_dir: str | None) -> tuple[np.ndarray, str]:
  """Returns UCI letter recognition and one line about it.

  David Slate, "Letter Recognition", UCI Machine Learning Repository, 1991,
  https://doi.org/10.24432/C5ZP40.

  Args:
    data_dir: Folder with `letter-recognition.data`, which may be gzipped, or None.

  Raises:
    Unavailable: If there is no such file and OpenML does not have it.
    ValueError: If the file is not in UCI's layout.
  """
  if data_dir is not None:
    for name in _LETTER_FILES:
      path = os.path.join(data_dir, name)
      if os.path.exists(path):
        # The letter itself is in the first column.
        columns = range(1, 1 + _LETTER_SHAPE[1])
        return _read_numbers(path, _LETTER_SHAPE[1], usecols=columns), f"UCI letter, {name}"
  try:
    points = _from_openml(_LETTER_SHAPE, name="letter", version=1)
  except Unavailable as e:
    raise Unavailable(f"{_missing(_LETTER_FILES[0], data_dir)}; {e}") from e
  return points, "UCI letter, from OpenML"


def load_gas_emissions(data_dir: str | None) -> tuple[np.ndarray, str]:
  """Returns UCI gas turbine emissions and one line about it.

  "Gas Turbine CO and NOx Emission Data Set", UCI Machine Learning Repository, 2019,
  https://doi.org/10.24432/C5WC95.

  Args:
    data_dir: Folder with `gt_2011.csv` to `gt_2015.csv`, or None.

  Raises:
    Unavailable: If a file is missing and OpenML does not have the data.
    ValueError: If a file is not in UCI's layout.
  """
  if data_dir is not None:
    paths = [os.path.join(data_dir, name) for name in _GAS_FILES]
    if all(map(os.path.exists, paths)):
      years = [
          _read_numbers(path, _GAS_SHAPE[1], skiprows=1, usecols=range(_GAS_SHAPE[1]))
          for path in paths
      ]
      return np.concatenate(years), "UCI gas turbine emissions, gt_2011.csv to gt_2015.csv"
  files = f"{_GAS_FILES[0]} to {_GAS_FILES[-1]}"
  try:
    # OpenML may have another data set by this name; only UCI's shape is accepted.
    points = _from_openml(
        _GAS_SHAPE, name="gas_turbine_co_and_nox_emission_data_set", target_column=None
    )
  except Unavailable as e:
    raise Unavailable(f"{_missing(files, data_dir)}; {e}") from e
  return points, "UCI gas turbine emissions, from OpenML"
