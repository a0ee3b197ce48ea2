"""A run on clients' own tables shows nothing of one client but in noisy sums.

The program runs on neighbouring folders of tables, which differ in the rows of one client.  Every
run asks its own clients, but goes on with the noisy answers of one of them.  So all that depends
on a client in another way differs, and everything that the runs leave is compared to the byte.
"""

import functools
import os
import shutil
import tempfile
from unittest import mock
import zipfile

from absl.testing import absltest
from absl.testing import parameterized
import numpy as np
import pyarrow as pa
from pyarrow import feather
from pyarrow import parquet
import tqdm

from experiments import private_clusters
from fl_clustering.private_clusters import releases
from fl_clustering.tasks import schema as schema_lib
from tests import nightly
from tests.experiment_shell import in_process

_YES, _NO, _PARQUET, _SHARED, _VIEWS, _ZIP = "yes", "no", "parquet", "shared", "views", "zip"
_ROWS = {
    "north": (b"1,u,0", b"3,v,1", b"5,u,1", b"3,v,0"),
    "south": (b"0,u,0",),  # For training; none is left for testing.
    "west": (b"-1,v,1", b"2,u,1", b"4,v,1"),
}
_NORTH = _ROWS["north"]

# From the kind of the tables to all rows of one client that differ.  By day: an odd row, a file
# without rows, a row removed.
_BY_DAY = (
    (_YES, "north", (b'"nan,\xff,', *_NORTH)),
    (_YES, "west", ()),
    (_SHARED, "north", _NORTH[1:]),
)
_NEIGHBOURS = (
    *_BY_DAY,
    (_YES, "south", (b"1e400,-1e400,0", b"0,u,0")),
    (_YES, "north", (*_NORTH, b"1,2,3,4")),
    (_YES, "north", (*_NORTH, b"x;y;z")),
    (_YES, "north", (*_NORTH, b"9" * 5000 + b",u,1")),
    (_YES, "north", (b"7,w,2",)),
    (_YES, "west", (b"\x00,\x00,\x00",)),
    (_YES, "west", _NORTH),  # As the rows of another client.
    (_YES, "north", (*_NORTH, b",,", b"1,None,0", b"Total,N/A,")),
    (_YES, "north", tuple(b"%d,u,%d" % (98_765 * i % 900_007, i % 2) for i in range(60))),
    (_NO, "north", (b"name,,", *_NORTH)),
    (_NO, "north", _NORTH[:1]),
    (_NO, "south", ()),
    (_PARQUET, "west", (b"tall,NaN,1", b"1,u,0")),
    (_PARQUET, "north", (*_NORTH, b"2,u,1")),
    (_PARQUET, "south", ()),
    (_VIEWS, "west", (b"tall,NaN,1", b"1,u,0")),
    (_VIEWS, "south", ()),
    (_ZIP, "north", (b'"nan,\xff,', *_NORTH)),
    (_ZIP, "south", ()),
    (_SHARED, "west", (*_ROWS["west"], b'"1e999,,')),
    (_SHARED, "north", (b"\xe2\x98\x83,u,0", *_NORTH)),
)


def _schema(kind):
  names = ("column_1", "column_2", "column_3") if kind == _NO else ("x", "c", "y")
  return schema_lib.Schema(
      features=(schema_lib.Number(names[0], 2.0, 2.0), schema_lib.Levels(names[1], ("u", "v"))),
      label_column=names[2], classes=("0", "1"), header="no" if kind == _NO else "yes",
      separator=None if kind in (_PARQUET, _VIEWS) else ",",
      client_column="who" if kind == _SHARED else None,
  )


def _write_tables(folder, kind, tables):
  os.mkdir(folder)
  if kind == _SHARED:
    rows = (row + b"," + who.encode() for who, own in tables.items() for row in own)
    tables = {"all": (b"x,c,y,who", *rows)}
  for client, rows in tables.items():
    path = os.path.join(folder, client)
    if kind in (_PARQUET, _VIEWS):
      cells = [row.decode().split(",") for row in rows]
      columns = {name: [row[i] for row in cells] for i, name in enumerate("xcy")}
      type_ = pa.string() if kind == _PARQUET else pa.string_view()
      table = pa.table(columns, pa.schema([(name, type_) for name in "xcy"]))
      if kind == _PARQUET:
        parquet.write_table(table, f"{path}.parquet")
      else:
        feather.write_feather(table, f"{path}.feather")
      continue
    above = [b"x,c,y"] * (kind in (_YES, _ZIP))
    text = b"".join(line + b"\n" for line in (*above, *rows))
    if kind == _ZIP:
      with zipfile.ZipFile(f"{path}.zip", "w") as archive:
        archive.writestr("table.csv", text)
      continue
    with open(f"{path}.csv", "wb") as file:
      file.write(text)


def _files(folder):
  """Returns the content of all files by name."""
  found = {}
  for directory, _, names in os.walk(folder):
    for name in names:
      path = os.path.join(directory, name)
      with open(path, "rb") as file:
        found[os.path.relpath(path, folder)] = file.read()
  return found


class NeighboursTest(parameterized.TestCase):

  @classmethod
  def setUpClass(cls):
    super().setUpClass()
    temporary = tempfile.TemporaryDirectory()
    cls.addClassCleanup(temporary.cleanup)
    cls.base = os.path.realpath(temporary.name)
    cls.without = staticmethod(functools.cache(cls._without))

  @classmethod
  def _left_of(cls, kind, tables, answers):
    """Returns all that a run leaves; it goes on with these answers, and adds its own to them."""
    # The same paths in all runs: they are printed.
    data, out, schema = (os.path.join(cls.base, name) for name in ("data", "out", "schema.json"))
    for folder in (data, out):
      shutil.rmtree(folder, ignore_errors=True)
    _write_tables(data, kind, tables)
    _schema(kind).write(schema)
    answer = releases.Releases.answer
    exact = []

    def replayed(books, question):
      number = len(books.ledger.releases)

      def asked():
        exact.append(question())
        return answers.setdefault(number, exact[-1])

      return answer(books, asked)

    with (
        mock.patch.object(releases.Releases, "answer", replayed),
        # Its bar shows how long a run takes.
        mock.patch.object(tqdm, "tqdm", functools.partial(tqdm.tqdm, disable=True)),
    ):
      ended = in_process.run_program(
          private_clusters.PrivateClusters().main, "--dataset=files", f"--data_dir={data}",
          f"--schema={schema}", f"--output_dir={out}", "--num_clusters=2", "--rounds=2",
          "--epsilon=1",
      )
    return ended, _files(out), [np.shape(found) for found in exact]

  @classmethod
  def _without(cls, kind):
    answers = {}
    return cls._left_of(kind, _ROWS, answers), answers

  @parameterized.parameters(*_NEIGHBOURS)
  def test_nothing_but_noisy_sums_shows_a_client(self, kind, client, rows):
    nightly.skip_by_day(self, (kind, client, rows) not in _BY_DAY)
    expected, answers = self.without(kind)
    ended, files, shapes = expected
    self.assertEqual((ended[0], ended[2]), (0, ""))
    self.assertEqual(
        {name.split("/")[0] for name in files},
        {"config.json", "journal", "released", "report.html", "summary.json"},
    )
    found = self._left_of(kind, {**_ROWS, client: rows}, dict(answers))
    self.assertEqual(found[0], ended)
    self.assertEqual(found[2], shapes)
    # Without the contents, whose difference takes long to be shown.
    self.assertEqual(set(found[1]), set(files))
    self.assertEmpty([name for name in files if found[1][name] != files[name]])

  def test_there_are_twenty_four(self):
    self.assertLen(set(_NEIGHBOURS), 24)


if __name__ == "__main__":
  absltest.main()
