"""A task of a user's own clients: a folder with a table for each.

The features are scaled to mean zero and variance one.  Means and variances come from sums over
the training rows of the clients that train, and so do the means that missing cells become: no
row for testing, and no new client, has a part in them.
"""

from __future__ import annotations

import functools
import os
from typing import TYPE_CHECKING, Iterator, Mapping

import numpy as np
import psutil

from clustering_basics import validate
from fl_clustering.tables import encode
from fl_clustering.tables import folder as folder_lib
from fl_clustering.tables import saved
from fl_clustering.tables import schema as schema_lib
from fl_clustering.tasks import examples as examples_lib
from fl_clustering.tasks import federated_task
from fl_clustering.tasks import held_out
from fl_clustering.tasks import pooled_examples

if TYPE_CHECKING:
  from fl_clustering.tasks import registry


def _check_memory(num_cells: int) -> None:
  """Raises a ValueError if so many features, which training keeps, can't fit into memory."""
  needed, available = 4 * num_cells, psutil.virtual_memory().available  # They are float32.
  if needed > available:
    raise ValueError(
        f"`data_dir` must hold tables that fit into memory, of which {available / 1e9:.1f} GB are "
        f"free, got {needed / 1e9:.1f} GB of features."
    )


def _stamp(path: str) -> tuple[str, int, int]:
  """Returns the path, size and time of a file: others where it has changed."""
  try:
    stat = os.stat(path)
  except OSError:  # Reading it says what is wrong.
    return path, 0, 0
  return path, stat.st_size, stat.st_mtime_ns


# A run asks for the number of clients before it loads them.
@functools.lru_cache(maxsize=1)
def _opened(
    data_dir: str, schema: schema_lib.Schema, stamps: tuple[tuple[str, int, int], ...]
) -> folder_lib.Folder:
  del stamps  # With others, it is read again.
  return folder_lib.open_folder(data_dir, {schema_lib.NO_VIEW: schema})


def open_folder(
    data_dir: str | None, schema: schema_lib.Schema | None
) -> folder_lib.Folder:
  """Returns the rows of a folder's clients.

  Raises:
    ValueError: If there is no folder, the schema has no classes, or a file can't be used.
  """
  if schema is None or schema.label is None:
    raise validate.error("label_column", "be given for `dataset` files", None)
  if data_dir is None:
    raise validate.error("data_dir", "name the folder with the clients' files", None)
  return _opened(data_dir, schema, tuple(map(_stamp, folder_lib.files(data_dir).values())))


def _test_masks(
    folder: folder_lib.Folder, held: held_out.HeldOut = held_out.HeldOut(), seed: int = 0,
    fold: held_out.Fold | None = None,
) -> dict[str, np.ndarray]:
  """Returns which rows are for testing, bool of shape (n,) by the ids of clients with both kinds.

  Which clients these are depends on their rows alone.
  """
  if folder.schemas[schema_lib.NO_VIEW].split is None:
    masks = (
        (name, held.draw_rows(name, num_rows, seed, fold))
        for name, num_rows in folder.num_rows.items()
    )
  else:
    masks = ((name, np.asarray(rows.parts == "test")) for name, rows in folder.items())
  return {name: mask for name, mask in masks if mask.any() and not mask.all()}


def num_clients(data_dir: str | None, schema: schema_lib.Schema | None) -> int:
  """Returns the number of clients of a folder that have rows for training and for testing.

  Raises:
    ValueError: If there are less than two, or as of `open_folder`.
  """
  found = len(_test_masks(open_folder(data_dir, schema)))
  if found < 2:
    raise ValueError(
        "`data_dir` must hold two clients or more with rows for training and for testing, "
        f"got {found} in {data_dir!r}; `client_column` says whose row it is, where a table holds "
        "the rows of several."
    )
  return found


def _clients(
    folder: folder_lib.Folder, is_test: Mapping[str, np.ndarray], tables: saved.SavedTables,
    classes: tuple[str, ...],
) -> federated_task.PooledClients:
  """Returns the clients of `_test_masks`, with scaled features."""
  ids, shape = tuple(is_test), tables.schema.feature_shape
  counts = np.array([len(is_test[client_id]) for client_id in ids], np.int64)
  # Filled client by client: the data may be most of what the memory holds.
  features = np.empty((counts.sum(), *shape), np.float32)
  labels = np.empty(len(features), np.int64)
  for client_id, end in zip(ids, np.cumsum(counts)):
    rows = folder[client_id]
    assert rows.labels is not None  # As `open_folder` checked.
    own = examples_lib.converted(
        client_id, tables.features(rows.features).reshape(-1, *shape),
        encode.positions(rows.labels, classes), "float32",
    )
    features[end - len(own) : end], labels[end - len(own) : end] = own.features, own.labels
  everything = pooled_examples.PooledExamples(
      examples_lib.Examples(features, labels), np.arange(len(labels), dtype=np.int32), counts
  )
  mask = np.concatenate([is_test[client_id] for client_id in ids])
  return federated_task.PooledClients(ids, everything.where(~mask), everything.where(mask))


def load_task(
    options: registry.TaskOptions, data_dir: str | None, held: held_out.HeldOut,
    fold: held_out.Fold | None,
) -> federated_task.FederatedTask:
  """Returns the task of the clients' tables.

  Raises:
    ValueError: If the files, or what they hold, can't be used, or too many clients can't be
      trained and tested.
  """
  opened = open_folder(data_dir, options.schema)
  schema, classes = opened.schemas[schema_lib.NO_VIEW], opened.classes()
  if len(classes) < 2:
    raise validate.error("label_column", "hold at least two classes", classes)
  # Before the features are known, since the new clients have no part in their means.
  is_test = _test_masks(opened, held, options.seed, fold)
  warnings = held_out.left_out_warnings(list(opened), is_test)
  new = held.new_positions(len(is_test), options.seed)
  training = [client_id for i, client_id in enumerate(is_test) if i not in new]

  def training_rows() -> Iterator[np.ndarray]:
    for client_id in training:
      yield opened[client_id].features[~is_test[client_id]]

  _check_memory(sum(opened.num_rows.values()) * len(schema.feature_names))
  scaling = encode.standard_scaling(training_rows, schema)
  tables = saved.SavedTables({schema_lib.NO_VIEW: schema.with_classes(classes)}, scaling)
  clients = _clients(opened, is_test, tables, classes)
  where = os.path.basename(os.path.abspath(data_dir or ""))
  return federated_task.FederatedTask(
      name="files",
      source=(
          f"{sum(opened.num_rows[c] for c in is_test):,} rows of tables in {where}: "
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
      row_digests=opened.digests,
  )
