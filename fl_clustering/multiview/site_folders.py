"""Clients' views from files: one folder per site, one CSV or NPY file per view.

  data/
    hospital_a/  pixels.npy  fourier.csv  labels.csv
    hospital_b/  pixels.npy  fourier.csv  labels.csv

A file's name without its ending is the view's name; every site has the same views, and
a view the same columns everywhere.  Row i of every file of a site is the site's point i.
A CSV file has commas and may have one line of column names.  `labels` is no view: known
classes, integers, for scoring only.
"""

import dataclasses
import os
from typing import Optional

import numpy as np

from fl_clustering.kmeans import number_tables

_ARGUMENT = "sites_dir"
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


def _read_labels(path, num_points):
  labels = number_tables.read_column(path, _ARGUMENT)
  if np.any(labels != np.round(labels)):
    raise ValueError(f"`{_LABELS}` must hold an integer per point, got others in {path!r}.")
  if len(labels) != num_points:
    raise ValueError(
        f"`{_LABELS}` must have one row per point, got {len(labels)} for {num_points} points "
        f"in {path!r}."
    )
  return labels.astype(np.int64)


def _check_names(folders):
  """Raises a ValueError unless all sites have the files of the first."""
  first, *others = folders
  for site in others:
    for name in sorted(folders[first].keys() ^ folders[site].keys()):
      having, missing = (first, site) if name in folders[first] else (site, first)
      raise ValueError(
          f"`{_ARGUMENT}` must hold the same files for every site, got {name!r} at {having!r} "
          f"but not at {missing!r}."
      )
  if not folders[first].keys() - {_LABELS}:
    raise ValueError(f"`{_ARGUMENT}` must hold a CSV or NPY file per view, got none at {first!r}.")


def read_sites(directory):
  """Reads the clients' views.

  Args:
    directory: The folder with a folder for every site.

  Returns:
    `Sites`. Whether a site's views have the same rows is left to `client_views.py`.

  Raises:
    ValueError: If files are missing, can't be read as tables, or a view has other
      columns at one site than at another.
    OSError: If the folder can't be read.
  """
  number_tables.check_folder(directory, _ARGUMENT)
  sites = sorted(
      name for name in os.listdir(directory)
      if os.path.isdir(os.path.join(directory, name)) and not name.startswith(".")
  )
  if not sites:
    raise ValueError(f"`{_ARGUMENT}` must hold a folder per site, got none in {directory!r}.")
  folders = {
      site: number_tables.table_paths(os.path.join(directory, site), _ARGUMENT, "view")
      for site in sites
  }
  _check_names(folders)
  view_names = tuple(sorted(folders[sites[0]].keys() - {_LABELS}))
  by_view = []
  for name in view_names:
    tables, _ = number_tables.read_tables(
        {site: paths[name] for site, paths in folders.items()}, _ARGUMENT
    )
    by_view.append(tables)
  views = {site: [tables[site] for tables in by_view] for site in sites}
  labels = None
  if _LABELS in folders[sites[0]]:
    labels = {
        site: _read_labels(paths[_LABELS], len(views[site][0]))
        for site, paths in folders.items()
    }
  return Sites(view_names, views, labels)
