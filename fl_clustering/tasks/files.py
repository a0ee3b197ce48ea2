"""A task of a user's own clients: a folder with a table for each.

The features are scaled to mean zero and variance one.  Means and variances come from sums over
the training rows of the clients that train, and so do the means that missing cells become: no
row for testing, and no new client, has a part in them.
"""

import functools
import os
from typing import Iterator, Mapping

import numpy as np
import psutil

from clustering_basics import validate
from fl_clustering.tables import client_tables
from fl_clustering.tables import columns as columns_lib
from fl_clustering.tables import problems
from fl_clustering.tables import table_options
from fl_clustering.tasks import examples as examples_lib
from fl_clustering.tasks import federated_task
from fl_clustering.tasks import held_out
from fl_clustering.tasks import task_options


def _check_memory(num_cells: int) -> None:
  """Raises a ValueError if so many features, which training keeps, can't fit into memory."""
  needed, available = 4 * num_cells, psutil.virtual_memory().available  # They are float32.
  if needed > available:
    raise ValueError(
        f"`data_dir` must hold tables that fit into memory, of which {available / 1e9:.1f} GB are "
        f"free, got {needed / 1e9:.1f} GB of features."
    )


def check_options(
    tables: table_options.TableOptions | None, test_share: float | None
) -> None:
  """Raises a ValueError unless these settings fit each other."""
  if tables is None or tables.label_column is None:
    raise validate.error("label_column", "be given for `dataset` files", None)
  if tables.split_column is not None and test_share is not None:
    raise validate.error("test_share", "be left out with `split_column`", test_share)
  if test_share is not None:
    validate.between(0, 1, test_share=test_share)


# A run asks for the number of clients before it loads them.
@functools.lru_cache(maxsize=1)
def open_folder(
    data_dir: str | None, options: table_options.TableOptions
) -> client_tables.ClientTables:
  """Returns the tables in a folder, which have been looked at.

  Raises:
    ValueError: If there is no folder, or a file can't be used.
  """
  if data_dir is None:
    raise validate.error("data_dir", "name the folder with the clients' files", None)
  return client_tables.open_folder(data_dir, options)


def _test_masks(
    tables: client_tables.ClientTables, test_share: float | None, seed: int,
    fold: held_out.Fold | None = None,
) -> dict[str, np.ndarray]:
  """Returns which rows of the clients are for testing, bool of shape (n,) by client id."""
  masks = {}
  for client_id, num_rows in tables.num_rows.items():
    if tables.format.options.split_column is None:
      masks[client_id] = held_out.draw_rows(client_id, num_rows, test_share, seed, fold)
    else:
      is_test = tables.read(client_id).is_test
      assert is_test is not None  # There is a split column.
      masks[client_id] = is_test
  return masks


def _usable(is_test: Mapping[str, np.ndarray]) -> list[str]:
  """Returns the ids of the clients that can be trained and tested, in order."""
  return [client_id for client_id, mask in is_test.items() if mask.any() and not mask.all()]


def num_clients(
    data_dir: str | None, options: table_options.TableOptions, test_share: float | None, seed: int
) -> int:
  """Returns the number of clients of a folder that have rows for training and for testing.

  Args:
    data_dir: The folder.
    options: How its files are read.
    test_share: The share of every client's rows that is for testing, or None.
    seed: Decides which rows these are.

  Raises:
    ValueError: If there are less than two, the tables have no classes, or a column says which
      rows are for testing and a share too.
  """
  tables = open_folder(data_dir, options)
  check_options(tables.format.options, test_share)
  found = len(_usable(_test_masks(tables, test_share, seed)))
  if found < 2:
    raise ValueError(
        "`data_dir` must hold two clients or more with rows for training and for testing, "
        f"got {found} in {data_dir!r}; {columns_lib.SEVERAL_CLIENTS}."
    )
  return found


def _clients(
    tables: client_tables.ClientTables, is_test: Mapping[str, np.ndarray]
) -> Iterator[federated_task.ClientData]:
  """Yields the clients that can be trained and tested, of standardized tables."""
  for client_id in _usable(is_test):
    table = tables.read(client_id)
    assert table.labels is not None  # There are classes.
    train, test = (
        examples_lib.converted(client_id, table.features[rows], table.labels[rows], "float32")
        for rows in (~is_test[client_id], is_test[client_id])
    )
    yield federated_task.ClientData(client_id, train, test)


def load_task(options: task_options.TaskOptions) -> federated_task.FederatedTask:
  """Returns the task of the clients' tables.

  Raises:
    ValueError: If the files, or what they hold, can't be used, or too many clients can't be
      trained and tested.
  """
  tables = open_folder(options.data_dir, options.tables or table_options.TableOptions())
  num_rows = tables.num_rows
  classes = tables.format.classes or ()
  if len(classes) < 2:
    raise validate.error("label_column", "hold at least two classes", classes)
  # Before the features are known, since the new clients have no part in their means.
  is_test = _test_masks(tables, options.test_share, options.seed, options.fold)
  usable = _usable(is_test)
  warnings = (
      *held_out.left_out_warnings(list(num_rows), usable),
      *(f"{text}." for text in tables.warnings),
  )
  new = held_out.new_positions(len(usable), options.num_new_clients, options.seed)
  training = {client_id for i, client_id in enumerate(usable) if i not in new}

  def trains(client_id: str, table: client_tables.ClientTable) -> np.ndarray:
    return ~is_test[client_id] & np.full(len(table.rows), client_id in training)

  tables = tables.filled(trains).standardized(trains)
  _check_memory(sum(num_rows.values()) * len(tables.feature_names))
  clients = tuple(_clients(tables, is_test))
  format_ = tables.format
  names, levels = format_.encoding.feature_names, format_.levels_told
  where = os.path.basename(os.path.abspath(options.data_dir or ""))
  return federated_task.FederatedTask(
      name=options.dataset,
      source=(
          f"{sum(num_rows[c] for c in usable):,} rows of tables in {where}: {len(names)} "
          f"features, and {len(classes)} classes in the column {format_.options.label_column} "
          f"({problems.listed(classes)}){levels and f'; levels: {levels}'}"
      ),
      partition="natural",
      clients=clients,
      global_test=examples_lib.pooled(client.test for client in clients),
      global_test_source="the clients' pooled test data",
      num_classes=len(classes),
      model=options.build_model(clients[0].train, len(classes)),
      warnings=warnings,
      class_names=classes,
      table_format=format_,
      row_digests=tables.digests,
  )
