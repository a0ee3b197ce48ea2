"""Private reading of clients' tables: with a public schema, and no word of what they hold.

A row decides nothing but its own examples, in files as CSV writers write them (else a quote in one
row may close another's; `tables/read.py`): no cell is an error, and none changes how another row,
or another client, is read.  What can't be read is left out where it is, in silence.  Public are the
schema, the names of the files, and with a column for the client the clients' ids and the columns of
the tables that they share.
"""

from __future__ import annotations

import warnings

import numpy as np

from clustering_basics import validate
from dp_clustering import clustering_params
from fl_clustering.tables import encode
from fl_clustering.tables import folder as folder_lib
from fl_clustering.tables import saved
from fl_clustering.tables import schema as schema_lib
from fl_clustering.tasks import examples as examples_lib
from fl_clustering.tasks import held_out


def _split(
    rows: folder_lib.ClientRows, schema: schema_lib.Schema, client_id: str, seed: int
) -> tuple[examples_lib.Examples, examples_lib.Examples]:
  """Returns a client's examples for training and for testing; the features are scaled already."""
  assert rows.labels is not None  # As `load` checked.
  labels = encode.positions(rows.labels, schema.classes or ())
  is_used, is_test = labels >= 0, np.zeros(len(labels), bool)
  if rows.parts is not None:
    parts = encode.positions(rows.parts, schema_lib.SPLIT)
    is_used, is_test = is_used & (parts >= 0), parts == schema_lib.SPLIT.index("test")
  elif is_used.any():
    is_test[is_used] = held_out.HeldOut().draw_rows(client_id, int(is_used.sum()), seed)
  features = rows.features[is_used].astype(np.float32).reshape(-1, *schema.feature_shape)
  examples = examples_lib.Examples(features, labels[is_used].astype(np.int32))
  return examples.take(~is_test[is_used]), examples.take(is_test[is_used])


def load(
    schema: schema_lib.Schema, data_dir: str, seed: int
) -> tuple[dict[str, examples_lib.Examples], dict[str, examples_lib.Examples]]:
  """Reads clients' tables with nothing but a public schema.

  Returns their examples for training, and those for testing, by client id; a client may have none.
  Features are float32, labels int32.  Nothing of them may be shown but the ids.

  A client's examples depend on its id, its own rows, the schema and the seed alone.  Its rows
  without a known class, or with a cell in the split column that says neither `train` nor `test`,
  are left out.  Without a split column, one row alone is for training.  A client's own file that
  can't be read, or lacks a column of the schema, holds no rows.

  Args:
    seed: Decides, without a split column, which of a client's rows are for testing.

  Raises:
    ValueError: If the schema does not say enough, the folder has no files or other ones, or a table
      that clients share can't be read, lacks a column or has no client.
  """
  if schema.label is None:
    raise validate.error("label", "be the name of a field in a private run's schema", None)
  with warnings.catch_warnings(), clustering_params.content_raises_nothing():
    warnings.simplefilter("ignore")  # What libraries say of cells.
    tables = saved.SavedTables.private({schema_lib.NO_VIEW: schema})
    folder = folder_lib.open_folder(data_dir, tables.schemas, private=True)
    if not folder:
      raise validate.error("client", "be a column with a client's name in some row", schema.client)
    folder.scale(tables.features)
    split = {name: _split(rows, schema, name, seed) for name, rows in folder.items()}
  return (
      {client_id: train for client_id, (train, _) in split.items()},
      {client_id: test for client_id, (_, test) in split.items()},
  )
