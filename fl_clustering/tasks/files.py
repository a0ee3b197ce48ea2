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
from fl_clustering.tables import clients as clients_lib
from fl_clustering.tables import encode
from fl_clustering.tables import saved
from fl_clustering.tables import schema as schema_lib
from fl_clustering.tasks import examples as examples_lib
from fl_clustering.tasks import federated_task
from fl_clustering.tasks import held_out
from fl_clustering.tasks import pooled_examples
from fl_clustering.tasks import task_options


def _check_memory(num_cells: int) -> None:
  """Raises a ValueError if so many features, which training keeps, can't fit into memory."""
  needed, available = 4 * num_cells, psutil.virtual_memory().available  # They are float32.
  if needed > available:
    raise ValueError(
        f"`data_dir` must hold tables that fit into memory, of which {available / 1e9:.1f} GB are "
        f"free, got {needed / 1e9:.1f} GB of features."
    )


def check_options(schema: schema_lib.Schema | None, test_share: float | None) -> None:
  """Raises a ValueError unless these settings fit each other."""
  if schema is None or schema.label is None:
    raise validate.error("label_column", "be given for `dataset` files", None)
  if schema.split is not None and test_share is not None:
    raise validate.error("test_share", "be left out with `split_column`", test_share)
  if test_share is not None:
    validate.between(0, 1, test_share=test_share)


# A run asks for the number of clients before it loads them.
@functools.lru_cache(maxsize=1)
def open_folder(data_dir: str | None, schema: schema_lib.Schema) -> clients_lib.Clients:
  """Returns the clients of a folder, whose files have been read once.

  Raises:
    ValueError: If there is no folder, or a file can't be used.
  """
  if data_dir is None:
    raise validate.error("data_dir", "name the folder with the clients' files", None)
  return clients_lib.open_folder(data_dir, schema)


def _test_masks(
    clients: clients_lib.Clients, test_share: float | None, seed: int,
    fold: held_out.Fold | None = None,
) -> dict[str, np.ndarray]:
  """Returns which rows of the clients are for testing, bool of shape (n,) by client id."""
  split = clients.schema.split
  if split is None:
    return {
        client_id: held_out.draw_rows(client_id, num_rows, test_share, seed, fold)
        for client_id, num_rows in clients.num_rows.items()
    }
  return {client_id: (table[split] == "test").to_numpy() for client_id, table in clients.items()}


def _usable(is_test: Mapping[str, np.ndarray]) -> list[str]:
  """Returns the ids of the clients that can be trained and tested, in order."""
  return [client_id for client_id, mask in is_test.items() if mask.any() and not mask.all()]


def num_clients(
    data_dir: str | None, schema: schema_lib.Schema, test_share: float | None, seed: int
) -> int:
  """Returns the number of clients of a folder that have rows for training and for testing.

  Raises:
    ValueError: If there are less than two, the tables have no classes, or a column says which
      rows are for testing and a share too.
  """
  check_options(schema, test_share)
  found = len(_usable(_test_masks(open_folder(data_dir, schema), test_share, seed)))
  if found < 2:
    raise ValueError(
        "`data_dir` must hold two clients or more with rows for training and for testing, "
        f"got {found} in {data_dir!r}; `client_column` says whose row it is, where a table holds "
        "the rows of several."
    )
  return found


def _clients(
    clients: clients_lib.Clients, is_test: Mapping[str, np.ndarray], tables: saved.SavedTables,
    classes: tuple[str, ...],
) -> federated_task.PooledClients:
  """Returns the clients that can be trained and tested, with scaled features."""
  ids, shape = _usable(is_test), clients.schema.feature_shape
  counts = np.array([len(is_test[client_id]) for client_id in ids], np.int64)
  # Filled client by client: the data may be most of what the memory holds.
  features = np.empty((counts.sum(), *shape), np.float32)
  labels = np.empty(len(features), np.int64)
  for client_id, end in zip(ids, np.cumsum(counts)):
    table = clients[client_id]
    own = examples_lib.converted(
        client_id, tables.features(table).reshape(-1, *shape),
        encode.positions(table[clients.schema.label].to_numpy(), classes), "float32",
    )
    features[end - len(own) : end], labels[end - len(own) : end] = own.features, own.labels
  everything = pooled_examples.PooledExamples(
      examples_lib.Examples(features, labels), np.arange(len(labels), dtype=np.int32), counts
  )
  mask = np.concatenate([is_test[client_id] for client_id in ids])
  return federated_task.PooledClients(
      tuple(ids), everything.where(~mask), everything.where(mask)
  )


def load_task(options: task_options.TaskOptions) -> federated_task.FederatedTask:
  """Returns the task of the clients' tables.

  Raises:
    ValueError: If the files, or what they hold, can't be used, or too many clients can't be
      trained and tested.
  """
  schema = options.schema
  assert schema is not None  # `check_options` asks for one.
  opened = open_folder(options.data_dir, schema)
  classes = opened.classes()
  if len(classes) < 2:
    raise validate.error("label_column", "hold at least two classes", classes)
  # Before the features are known, since the new clients have no part in their means.
  is_test = _test_masks(opened, options.test_share, options.seed, options.fold)
  usable = _usable(is_test)
  warnings = held_out.left_out_warnings(list(opened), usable)
  new = held_out.new_positions(len(usable), options.num_new_clients, options.seed)
  training = [client_id for i, client_id in enumerate(usable) if i not in new]

  def training_rows() -> Iterator[np.ndarray]:
    for client_id in training:
      yield encode.numbers(opened[client_id], schema)[~is_test[client_id]]

  _check_memory(sum(opened.num_rows.values()) * len(schema.feature_names))
  scaling = encode.scaling_over(training_rows, schema, standardize=True)
  tables = saved.SavedTables({schema_lib.NO_VIEW: schema.with_classes(classes)}, scaling)
  clients = _clients(opened, is_test, tables, classes)
  where = os.path.basename(os.path.abspath(options.data_dir or ""))
  return federated_task.FederatedTask(
      name=options.dataset,
      source=(
          f"{sum(opened.num_rows[c] for c in usable):,} rows of tables in {where}: "
          f"{len(schema.feature_names)} features, and {len(classes)} classes in the column "
          f"{schema.label} ({', '.join(classes[:20])}{', ...' * (len(classes) > 20)})"
      ),
      partition="natural",
      clients=clients,
      global_test=clients.test.together,
      global_test_source="the clients' pooled test data",
      num_classes=len(classes),
      model=options.build_model(clients[0].train, len(classes)),
      warnings=warnings,
      class_names=classes,
      tables=tables,
      row_digests=opened.digests(),
  )
