"""Clients' points from files: one CSV or NPY file per client, named after it.

  data/
    amsterdam.csv   boston.csv   chicago.npy

A row is a point, and every file has the same columns.  A CSV file has commas, and may
have one line of column names, which must then be the same in all CSV files.
"""

import dataclasses
from typing import Optional

import numpy as np

from fl_clustering.kmeans import number_tables

_ARGUMENT = "data"


@dataclasses.dataclass(frozen=True, eq=False)
class ClientTables:
  """What the files hold.

  Attributes:
    points: A mapping from client id, the file's name without ending, to float64 of
      shape (n, d), in alphabetic order of the ids.
    column_names: The columns' names, or None if the files have none.
  """

  points: dict[str, np.ndarray]
  column_names: Optional[tuple[str, ...]]


def read_tables(directory):
  """Reads the clients' points.

  Args:
    directory: The folder with a file for every client.

  Returns:
    `ClientTables`.

  Raises:
    ValueError: If a file can't be used, or has other columns than the others.
    OSError: If the folder or a file can't be read.
  """
  paths = number_tables.table_paths(directory, _ARGUMENT, "client")
  return ClientTables(*number_tables.read_tables(paths, _ARGUMENT))
