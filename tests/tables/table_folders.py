"""Folders with tables for tests."""

import csv
import gzip
import io
import os
import shlex
import zipfile

from absl.testing import parameterized
import numpy as np
import pandas as pd
import pyarrow as pa
from pyarrow import feather
from pyarrow import parquet

from fl_clustering.tables import client_tables
from fl_clustering.tables import table_options


def zipped(ending=".csv", **contents):
  """Returns the bytes of an archive of files, plain where they are not small."""
  file = io.BytesIO()
  with zipfile.ZipFile(file, "w") as archive:
    for name, content in contents.items():
      archive.writestr(name + ending, content)
    archive.writestr("__MACOSX/x", "")
    archive.writestr("data/.hidden", "")
  return file.getvalue()


def _write(path, content):
  if isinstance(content, pd.DataFrame):
    content.to_parquet(path)
  elif path.endswith(".feather") and isinstance(content, pa.Table):
    feather.write_feather(content, path)
  elif isinstance(content, pa.Table):
    parquet.write_table(content, path)
  elif isinstance(content, np.ndarray):
    np.save(path, content)
  elif isinstance(content, dict):
    np.savez(path, **content)
  elif isinstance(content, bytes):
    with open(path, "wb") as file:
      file.write(content)
  elif path.endswith(".gz"):
    with gzip.open(path, "wt") as file:
      file.write(content)
  else:
    with open(path, "w", encoding="utf-8") as file:
      file.write(content)


def advised(message):
  """Returns the options of the flags that a message ends with."""
  given = shlex.split(message.split(" Try: ")[1])
  values = dict(f"{flag}=true".removeprefix("--").split("=")[:2] for flag in given)
  lists = ("columns", "exclude", "categories")
  return {
      name: tuple(next(csv.reader([value]))) if name in lists else value
      for name, value in values.items()
  }


def lines(*texts):
  return "".join(f"{text}\n" for text in texts)


class TablesTestCase(parameterized.TestCase):

  def write(self, files):
    """Writes text, bytes, arrays or frames by name into a new folder; returns it."""
    folder = self.create_tempdir().full_path
    for name, content in files.items():
      _write(os.path.join(folder, name), content)
    return folder

  def open(self, files, **options):
    """Returns the `ClientTables` of files."""
    options = table_options.TableOptions(**options)
    return client_tables.open_folder(self.write(files), options).filled()

  def open_later(self, format_, files, **later):
    """Returns the `ClientTables` of files that come after a model."""
    later = table_options.LaterFiles(**later)
    return client_tables.open_folder_for(format_, self.write(files), later=later)

  def assert_features(self, tables, expected):
    self.assertEqual(list(tables.client_ids), list(expected))
    for client_id, rows in expected.items():
      np.testing.assert_allclose(tables.read(client_id).features, rows, rtol=1e-12)
