"""Clients' views from files: one folder per site, one CSV or NPY file per view.

  data/
    hospital_a/  pixels.npy  fourier.csv  labels.csv
    hospital_b/  pixels.npy  fourier.csv  labels.csv

A file's name without its ending is the view's name, and every site has the same ones.
Row i of every file of a site is the site's point i.  A CSV file has commas and may have
one line of column names.  `labels` is no view: known classes, integers, for scoring only.
"""

import csv
import dataclasses
import os
from typing import Optional
import warnings

import numpy as np

_ENDINGS = (".csv", ".npy")
_LABELS = "labels"


@dataclasses.dataclass(frozen=True, eq=False)
class Sites:
  """What the folders hold.

  Attributes:
    view_names: The views' names, in alphabetic order.
    views: A mapping from site to its arrays of shape (n, d_h), one per view.
    labels: A mapping from site to int64 of shape (n,); None if there are none.
  """

  view_names: tuple[str, ...]
  views: dict[str, list[np.ndarray]]
  labels: Optional[dict[str, np.ndarray]]


def _is_number(text):
  try:
    float(text)
  except ValueError:
    return False
  return True


def _read_csv(path):
  with open(path, encoding="utf-8", newline="") as file:
    first = next(csv.reader(file), [])
  has_names = not all(map(_is_number, first))
  with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # An empty file is told of below.
    return np.loadtxt(path, delimiter=",", ndmin=2, skiprows=int(has_names), encoding="utf-8")


def _load(path):
  """Returns the array in a CSV or NPY file."""
  try:
    if path.endswith(".npy"):
      array = np.load(path, allow_pickle=False)
    else:
      array = _read_csv(path)
  except (ValueError, EOFError, csv.Error) as e:
    raise ValueError(f"The file must hold numbers, got {path!r} ({e}).") from e
  if array.dtype.kind not in "biuf" or not array.size:
    raise ValueError(
        f"The file must hold numbers, got {path!r} with shape {array.shape} and type "
        f"{array.dtype}."
    )
  return array


def _files_by_name(folder):
  """Returns the paths of a site's files by the name without ending."""
  paths = {}
  for name in sorted(os.listdir(folder)):
    stem, ending = os.path.splitext(name)
    if ending not in _ENDINGS or name.startswith("."):
      continue
    if stem in paths:
      raise ValueError(
          f"A view must be in one file only, got {paths[stem]!r} and {name!r} in {folder!r}."
      )
    paths[stem] = os.path.join(folder, name)
  return paths


def _read_labels(path):
  labels = _load(path).astype(np.float64).reshape(-1)
  if not np.all(np.isfinite(labels)) or np.any(labels != labels.astype(np.int64)):
    raise ValueError(f"`{_LABELS}` must hold an integer per point, got others in {path!r}.")
  return labels.astype(np.int64)


def _check_names(folders):
  """Raises a ValueError unless all sites have the files of the first."""
  first, *others = folders
  for site in others:
    for name in sorted(folders[first].keys() ^ folders[site].keys()):
      having, missing = (first, site) if name in folders[first] else (site, first)
      raise ValueError(
          f"Every site must have the same files, got {name!r} at {having!r} but not at "
          f"{missing!r}."
      )
  if not folders[first].keys() - {_LABELS}:
    raise ValueError(f"A site must have a CSV or NPY file per view, got none at {first!r}.")


def read_sites(directory):
  """Reads the clients' views.

  Args:
    directory: The folder with a folder for every site.

  Returns:
    `Sites`. Whether the sites' views fit together is left to `client_views.py`.

  Raises:
    ValueError: If files are missing or can't be read as matrices.
    OSError: If the folder can't be read.
  """
  sites = sorted(
      name for name in os.listdir(directory)
      if os.path.isdir(os.path.join(directory, name)) and not name.startswith(".")
  )
  if not sites:
    raise ValueError(f"The folder must hold a folder per site, got none in {directory!r}.")
  folders = {site: _files_by_name(os.path.join(directory, site)) for site in sites}
  _check_names(folders)
  view_names = tuple(sorted(folders[sites[0]].keys() - {_LABELS}))
  views = {
      site: [_load(paths[name]) for name in view_names] for site, paths in folders.items()
  }
  labels = None
  if _LABELS in folders[sites[0]]:
    labels = {site: _read_labels(paths[_LABELS]) for site, paths in folders.items()}
    for site in sites:
      if len(labels[site]) != len(views[site][0]):
        raise ValueError(
            f"`{_LABELS}` must have one row per point, got {len(labels[site])} for "
            f"{len(views[site][0])} points at {site!r}."
        )
  return Sites(view_names, views, labels)
