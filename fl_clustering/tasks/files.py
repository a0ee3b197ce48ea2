"""A task of a user's own clients, from a folder with a table for each.

The features are scaled to mean zero and variance one.  Means and variances come from sums over
the training rows of the clients that train, and so do the means that missing cells become: no
row for testing, and no new client, has a part in them.
"""

import dataclasses
import functools
import os

import numpy as np
import psutil

from clustering_basics import randomness
from clustering_basics import validate
from fl_clustering.tables import client_tables
from fl_clustering.tables import columns as columns_lib
from fl_clustering.tasks import federated_task
from fl_clustering.tasks import folds
from fl_clustering.tasks import own_clients

DEFAULT_TEST_SHARE = 0.2


def check_options(tables, test_share):
  """Raises a ValueError unless these settings fit each other.

  Args:
    tables: `TableOptions`.
    test_share: The share of every client's rows that is for testing, or None.
  """
  if tables.label_column is None:
    raise validate.error("label_column", "be given for `dataset` files", None)
  if tables.split_column is not None and test_share is not None:
    raise validate.error("test_share", "be left out with `split_column`", test_share)
  if test_share is not None:
    validate.between(0, 1, test_share=test_share)


# A run asks for the number of clients before it loads them.
@functools.lru_cache(maxsize=1)
def open_clients(data_dir, tables):
  """Returns the `ClientTables` of a folder, which has been looked at.

  Args:
    data_dir: The folder.
    tables: `TableOptions`.

  Raises:
    ValueError: If there is no folder, or a file can't be used.
  """
  if data_dir is None:
    raise validate.error("data_dir", "name the folder with the clients' files", None)
  return client_tables.open_folder(data_dir, tables)


def draw_tests(client_id, num_rows, test_share, seed):
  """Returns which rows of a client are for testing where no column says so, bool of shape (n,).

  Args:
    client_id: The client.
    num_rows: Its number of rows, n >= 1.
    test_share: The share of them; None for the default.  At least one is for testing.
    seed: Decides which.
  """
  share = DEFAULT_TEST_SHARE if test_share is None else test_share
  num_test = min(max(1, round(share * num_rows)), num_rows - 1)
  rng = randomness.generator(seed, f"rows for testing: {client_id}")
  chosen = np.zeros(num_rows, bool)
  chosen[rng.choice(num_rows, num_test, replace=False)] = True
  return chosen


def _is_test(client_id, table, test_share, seed, fold):
  """Returns which rows are for testing: as they say, those of a fold, or a share of them."""
  if table.is_test is not None:
    return table.is_test
  num_rows = len(table.rows)
  if fold is None or num_rows < 2:
    return draw_tests(client_id, num_rows, test_share, seed)
  chosen = np.zeros(num_rows, bool)
  chosen[folds.test_positions(num_rows, fold, seed, client_id)] = True
  return chosen


def _rows_for_testing(tables, test_share, seed, fold=None):
  """Returns every client's mask of rows for testing, by id."""
  return {
      client_id: _is_test(client_id, tables.read(client_id), test_share, seed, fold)
      for client_id in tables.client_ids
  }


def usable(num_rows, num_test):
  """Returns the ids of the clients that can be trained and tested, in order.

  Args:
    num_rows: The clients' numbers of rows, by id.
    num_test: How many of them are for testing, by id.
  """
  return [client_id for client_id, num in num_rows.items() if 0 < num_test[client_id] < num]


def _usable(tests):
  num_rows = {client_id: len(rows) for client_id, rows in tests.items()}
  return usable(num_rows, {client_id: rows.sum() for client_id, rows in tests.items()})


def training_ids(usable_ids, num_new_clients, seed):
  """Returns the ids of the clients that train, a set.

  Args:
    usable_ids: What `usable` returned.
    num_new_clients: How many of them don't train.
    seed: Decides which.
  """
  new = federated_task.choose_new(len(usable_ids), num_new_clients, seed)
  return {client_id for i, client_id in enumerate(usable_ids) if i not in new}


def check_num_clients(found, argument, where):
  """Raises a ValueError if there are less than two clients for training and testing.

  Args:
    found: Their number.
    argument: What messages call the place of the clients.
    where: The place.
  """
  if found < 2:
    raise ValueError(
        f"`{argument}` must hold two clients or more with rows for training and for testing, got "
        f"{found} in {where!r}; {columns_lib.SEVERAL_CLIENTS}."
    )


def check_classes(classes):
  """Raises a ValueError if there are less than two classes.

  Args:
    classes: Their names.
  """
  if len(classes) < 2:
    raise validate.error("label_column", "hold at least two classes", classes)


def num_clients(data_dir, tables, test_share, seed):
  """Returns the number of clients that have rows for training and for testing.

  Args:
    data_dir: As for `open_clients`.
    tables: Likewise.
    test_share: The share of every client's rows that is for testing, or None.
    seed: Decides which rows these are.

  Raises:
    ValueError: If there are less than two, or as `open_clients`.
  """
  opened = open_clients(data_dir, tables)
  found = len(_usable(_rows_for_testing(opened, test_share, seed)))
  check_num_clients(found, "data_dir", data_dir)
  return found


def _check_memory(num_cells):
  """Raises a ValueError if so many features, which training keeps, can't fit into memory."""
  needed, available = 4 * num_cells, psutil.virtual_memory().available  # They are float32.
  if needed > available:
    raise ValueError(
        f"`data_dir` must hold tables that fit into memory, of which {available / 1e9:.1f} GB are "
        f"free, got {needed / 1e9:.1f} GB of features."
    )


def load_task(options):
  """Returns the `FederatedTask` of a folder of tables.

  Args:
    options: `federated_task.TaskOptions` with `tables`.

  Raises:
    ValueError: If the files, or what they hold, can't be used.
  """
  tables = open_clients(options.data_dir, options.tables)
  check_classes(tables.format.classes)
  # Before the features are known, since the new clients have no part in their means.
  tests = _rows_for_testing(tables, options.test_share, options.seed, options.fold)
  training = training_ids(_usable(tests), options.num_new_clients, options.seed)

  def trains(client_id, table):
    return ~tests[client_id] & np.full(len(table.rows), client_id in training)

  tables = tables.filled(trains).standardized(trains)
  _check_memory(sum(tables.num_rows.values()) * len(tables.feature_names))
  clients = {}
  for client_id in tables.client_ids:
    table = tables.read(client_id)
    clients[client_id] = tuple(
        (table.features[rows].astype(np.float32), table.labels[rows])
        for rows in (~tests[client_id], tests[client_id])
    )
  task = own_clients.task_from_arrays(
      clients,
      options.model,
      seed=options.seed,
      class_names=tables.format.classes,
      feature_names=tables.feature_names,
      **{name: value for name, value in options.model_options.items() if value is not None},
  )
  return dataclasses.replace(
      task,
      name=options.dataset,
      source=_source(options, clients, tables),
      table_format=tables.format,
  )


def _source(options, clients, tables):
  """Returns what the data are, in one line."""
  num_rows = sum(len(labels) for parts in clients.values() for _, labels in parts)
  folder = os.path.basename(os.path.abspath(options.data_dir))
  return (
      f"{num_rows:,} rows of tables in {folder}: {len(tables.feature_names)} features, "
      f"and {len(tables.format.classes)} classes in the column {options.tables.label_column}"
  )
