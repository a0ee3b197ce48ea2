"""Clients' points from a folder of CSV and NPY files.

One file per client, named after it (`read_clients`):

  data/
    amsterdam.csv   boston.csv   chicago.npy

Or one folder per site with one file per view (`read_sites`):

  data/
    hospital_a/  pixels.npy  fourier.csv  labels.csv
    hospital_b/  pixels.npy  fourier.csv  labels.csv

A row is a point, and all clients have the same columns.  A CSV file has commas, and may
have one line of column names, which must then be the same in all CSV files.

A site's file is a view, named after the file without its ending; every site has the same
views.  Row i of every file of a site is the site's point i.  `labels` is no view: it holds
known classes, integers, for scoring only.
"""

import dataclasses
import os
from typing import Optional

import numpy as np

from fl_clustering.points import number_tables

_LABELS = "labels"


@dataclasses.dataclass(frozen=True, eq=False)
class ClientTables:
  """What a folder with a file per client holds.

  Attributes:
    points: A mapping from client id, the file's name without ending, to float64 of
      shape (n, d), in alphabetic order of the ids.
    column_names: The columns' names, or None if the files have none.
  """

  points: dict[str, np.ndarray]
  column_names: Optional[tuple[str, ...]]


def read_clients(directory, argument="data"):
  """Reads the points of clients that have a file each.

  Args:
    directory: The folder with a file for every client.
    argument: What messages call the folder.

  Returns:
    `ClientTables`.

  Raises:
    ValueError: If a file can't be used, or its columns differ from the others'.
    OSError: If the folder or a file can't be read.
  """
  paths = number_tables.table_paths(directory, argument, "client")
  return ClientTables(*number_tables.read_tables(paths, argument))


@dataclasses.dataclass(frozen=True, eq=False)
class Sites:
  """What a folder with a folder per site holds.

  Attributes:
    view_names: The views' names, in alphabetic order.
    views: A mapping from site to its arrays of shape (n, d_h), one per view.
    labels: A mapping from site to int64 of shape (n,); None if there are none.
  """

  view_names: tuple[str, ...]
  views: dict[str, list[np.ndarray]]
  labels: Optional[dict[str, np.ndarray]]


def _read_labels(path, argument, num_points):
  labels = number_tables.read_column(path, argument)
  if np.any(labels != np.round(labels)):
    raise ValueError(f"`{_LABELS}` must hold an integer per point, got others in {path!r}.")
  if len(labels) != num_points:
    raise ValueError(
        f"`{_LABELS}` must have one row per point, got {len(labels)} for {num_points} points "
        f"in {path!r}."
    )
  return labels.astype(np.int64)


def _check_names(folders, argument):
  """Raises a ValueError unless all sites have the files of the first."""
  first, *others = folders
  for site in others:
    for name in sorted(folders[first].keys() ^ folders[site].keys()):
      having, missing = (first, site) if name in folders[first] else (site, first)
      raise ValueError(
          f"`{argument}` must hold the same files for every site, got {name!r} at {having!r} "
          f"but not at {missing!r}."
      )
  if not folders[first].keys() - {_LABELS}:
    raise ValueError(f"`{argument}` must hold a CSV or NPY file per view, got none at {first!r}.")


def _site_folders(directory, argument):
  """Returns the paths of every site's files, by site and name."""
  number_tables.check_folder(directory, argument)
  sites = sorted(
      name for name in os.listdir(directory)
      if os.path.isdir(os.path.join(directory, name)) and not name.startswith(".")
  )
  if not sites:
    raise ValueError(f"`{argument}` must hold a folder per site, got none in {directory!r}.")
  folders = {
      site: number_tables.table_paths(os.path.join(directory, site), argument, "view")
      for site in sites
  }
  _check_names(folders, argument)
  return folders


def read_sites(directory, argument="sites_dir"):
  """Reads the views of sites that have a folder each.

  Args:
    directory: The folder with a folder for every site.
    argument: What messages call the folder.

  Returns:
    `Sites`.  It is not checked that a site's views have the same number of rows; see
    `fl_clustering/multiview/client_views.py`.

  Raises:
    ValueError: If files are missing, can't be read as tables, or a view's columns differ
      between sites.
    OSError: If the folder can't be read.
  """
  folders = _site_folders(directory, argument)
  names = sorted(next(iter(folders.values())))
  view_names = tuple(name for name in names if name != _LABELS)
  by_view = []
  for name in view_names:
    paths = {site: files[name] for site, files in folders.items()}
    tables, _ = number_tables.read_tables(paths, argument)
    by_view.append(tables)
  views = {site: [tables[site] for tables in by_view] for site in folders}
  labels = None
  if _LABELS in names:
    labels = {
        site: _read_labels(files[_LABELS], argument, len(views[site][0]))
        for site, files in folders.items()
    }
  return Sites(view_names, views, labels)
