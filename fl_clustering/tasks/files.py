"""A task of a user's own clients: a table for each, in a folder or at the clients' sites.

The features are scaled to mean zero and variance one.  Means and variances come from sums over
the training rows of the clients that train, and so do the means that missing cells become: no
row for testing, and no new client, has a part in them.
"""

import dataclasses
import functools
import os
from typing import Collection, Mapping

import numpy as np
import psutil

from clustering_basics import validate
from fl_clustering.tables import client_tables
from fl_clustering.tables import columns as columns_lib
from fl_clustering.tables import problems
from fl_clustering.tables import table_format
from fl_clustering.tables import table_options
from fl_clustering.tasks import client_rows
from fl_clustering.tasks import examples as examples_lib
from fl_clustering.tasks import federated_task
from fl_clustering.tasks import held_out
from fl_clustering.tasks import task_options

DEFAULT_TEST_SHARE = held_out.TEST_SHARE

@dataclasses.dataclass(frozen=True, eq=False)
class _FolderRows(client_rows.ClientRows):
  """Tables in a folder of this machine."""

  tables: client_tables.ClientTables

  @property
  def digests(self) -> Mapping[str, str]:
    return self.tables.digests

  @property
  def warnings(self) -> tuple[str, ...]:
    return tuple(f"{text}." for text in self.tables.warnings)

  def told_tests(self) -> held_out.TestRows | None:
    if self.format.options.split_column is None:
      return None
    masks = {}
    for client_id in self.num_rows:
      is_test = self.tables.read(client_id).is_test
      assert is_test is not None  # There is a split column.
      masks[client_id] = is_test
    return held_out.TestRows.of_masks(masks)

  def make_clients(
      self, tests: held_out.TestRows, usable: Collection[str], training: Collection[str],
      validation: Mapping[str, np.ndarray],
  ) -> client_rows.Made:

    def trains(client_id: str, table: client_tables.ClientTable) -> np.ndarray:
      return ~tests.masks[client_id] & np.full(len(table.rows), client_id in training)

    tables = self.tables.filled(trains).standardized(trains)
    _check_memory(sum(self.num_rows.values()) * len(tables.feature_names))
    clients = []
    for client_id in usable:
      table, is_test = tables.read(client_id), tests.masks[client_id]
      assert table.labels is not None  # `check_classes` has seen some.
      train, test = (
          examples_lib.converted(client_id, table.features[rows], table.labels[rows], "float32")
          for rows in (~is_test, is_test)
      )
      mask, held = validation.get(client_id), None
      if mask is not None and mask.any():
        train, held = train.take(~mask), train.take(mask)
      clients.append(federated_task.ClientData(client_id, train, test, validation=held))
    return tuple(clients), tables.format


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
def open_folder(data_dir: str | None, tables: table_options.TableOptions) -> client_rows.ClientRows:
  """Returns the rows of the tables in a folder, which have been looked at.

  Raises:
    ValueError: If there is no folder, or a file can't be used.
  """
  if data_dir is None:
    raise validate.error("data_dir", "name the folder with the clients' files", None)
  opened = client_tables.open_folder(data_dir, tables)
  where = f"in {os.path.basename(os.path.abspath(data_dir))}"
  return _FolderRows("data_dir", data_dir, where, opened.format, opened.num_rows, opened)


def check_classes(format_: table_format.TableFormat) -> tuple[str, ...]:
  """Returns the classes; raises a ValueError if there are less than two."""
  classes = format_.classes or ()
  if len(classes) < 2:
    raise validate.error("label_column", "hold at least two classes", classes)
  return classes


def _test_rows(
    rows: client_rows.ClientRows, test_share: float | None, seed: int,
    fold: held_out.Fold | None = None,
) -> held_out.TestRows:
  return rows.told_tests() or held_out.draw_rows(rows.num_rows, test_share, seed, fold)


def num_clients(rows: client_rows.ClientRows, test_share: float | None, seed: int) -> int:
  """Returns the number of clients that have rows for training and for testing.

  Args:
    rows: The clients' rows.
    test_share: The share of every client's rows that is for testing, or None.
    seed: Decides which rows these are.

  Raises:
    ValueError: If there are less than two, the tables have no classes, or a column says which
      rows are for testing and a share too.
  """
  check_options(rows.format.options, test_share)
  found = len(_test_rows(rows, test_share, seed).usable(rows.num_rows))
  if found < 2:
    raise ValueError(
        f"`{rows.argument}` must hold two clients or more with rows for training and for testing, "
        f"got {found} in {rows.place!r}; {columns_lib.SEVERAL_CLIENTS}."
    )
  return found


def load_task(options: task_options.TaskOptions) -> federated_task.FederatedTask:
  """Returns the task of the clients' tables; call it where TFF computes at their sites, if any.

  From sites, it is the task of the same tables in a folder but for rounding.

  Raises:
    ValueError: If the files, or what they hold, can't be used, or too many clients can't be
      trained and tested.
    runtime.WorkerLost: If a site is lost and does not come back.
  """
  rows = options.rows
  if rows is None:
    rows = open_folder(options.data_dir, options.tables or table_options.TableOptions())
  classes = check_classes(rows.format)
  # Before the features are known, since the new clients have no part in their means.
  tests = _test_rows(rows, options.test_share, options.seed, options.fold)
  usable = tests.usable(rows.num_rows)
  warnings = (*held_out.left_out_warnings(list(rows.num_rows), usable), *rows.warnings)
  new = held_out.new_positions(len(usable), options.num_new_clients, options.seed)
  training = {client_id for i, client_id in enumerate(usable) if i not in new}
  num_train = {c: rows.num_rows[c] - tests.counts[c] for c in usable if c in training}
  validation = held_out.draw_validation(num_train, options.validation_share, options.seed)
  clients, format_ = rows.make_clients(tests, usable, training, validation)
  names, levels = format_.encoding.feature_names, format_.levels_told
  return federated_task.FederatedTask(
      name=options.dataset,
      source=(
          f"{sum(rows.num_rows[c] for c in usable):,} rows of tables {rows.where}: {len(names)} "
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
      feature_names=names,
      table_format=format_,
      row_digests=rows.digests,
  )
