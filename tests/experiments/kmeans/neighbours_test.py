"""A private run of the program shows nothing of one row but in what was released with noise.

The program runs on neighbouring folders of tables, which differ in one row.  All that it leaves
is compared, but for the centers.
"""

import functools
import os
import re
import shutil
import tempfile
import zipfile

from absl.testing import absltest
from absl.testing import parameterized
import numpy as np
import pyarrow as pa
from pyarrow import feather
from pyarrow import parquet

from experiments import federated_kmeans
from tests import nightly
from tests.experiment_shell import in_process

_YES, _NO, _ZIP, _DRESSED = "yes", "no", "zip", "dressed"
_PARQUET, _FEATHER, _PARQUET_VIEWS, _FEATHER_VIEWS = (
    "parquet", "feather", "parquet views", "feather views"
)
_FLAGS = {
    _YES: ("--header=yes",),
    _NO: ("--header=no", "--separator=,", "--columns=column_1,column_2"),
    _ZIP: ("--header=yes",),
    _DRESSED: (
        "--header=yes", "--separator=|", "--thousands=,", "--strip_units", "--skip_lines=2",
        "--comment=#", "--encoding=latin-1",
    ),
    _PARQUET: (), _FEATHER: (), _PARQUET_VIEWS: (), _FEATHER_VIEWS: (),
}
_ROWS = {"north": (b"1,2", b"3,4", b"5,6.5", b"3,4"), "south": (), "west": (b"-1,0", b"2,2")}
_NO_ROWS = {client: () for client in _ROWS}
# Files of centers, whose content and size are not compared.
_OF_CENTERS = ("centroids.csv", "model/arrays.npz")

# By day: a row that no reader likes at every place, and in every kind of table.
_BY_DAY = (
    (_YES, "first", b"NA,tall"),
    (_YES, "only", b'"1,2'),
    (_YES, "alone", b"1,2,3"),
    (_NO, "first", b"name,"),
    (_NO, "last", b"\xff\xfe;1e400"),
    (_PARQUET, "only", b"tall,NaN"),
    (_FEATHER_VIEWS, "first", b"tall,NaN"),
    (_ZIP, "last", b'\xff,"'),
    (_DRESSED, "first", b"#1,234.5 kg|<\xb5"),
)
_NEIGHBOURS = (
    *_BY_DAY,
    (_YES, "first", b","),
    (_YES, "first", b"x,y"),
    (_YES, "first", b"1;2"),
    (_YES, "last", b"1e400,-1e400"),
    (_YES, "last", b"-0,-0.0"),
    (_YES, "last", b"1"),
    (_YES, "last", b'"7","8"'),
    (_YES, "last", "\u00e9\u2603,\uff13\u2028".encode()),
    (_YES, "last", b"9" * 5000 + b",1"),
    (_YES, "last", b"x" * 200_000 + b",1"),
    (_YES, "last", b"\x00,\x00"),
    (_YES, "last", b"3,4"),
    (_YES, "last", b"Total,"),
    (_YES, "last", b"12,16.5"),  # The sums of the rows above.
    (_YES, "last", b"0012,4E5"),
    (_YES, "last", b"None,N/A"),
    (_YES, "only", b"nan,-inf"),
    (_YES, "only", b"1_000,0x10"),
    (_YES, "alone", b"1,2"),
    (_YES, "alone", b"a\tb"),
    (_NO, "first", b"1,2"),
    (_NO, "first", b"1"),
    (_NO, "first", b"1,2,3,4"),
    (_NO, "last", b'3,"4'),
    (_NO, "only", b"5,6"),
    (_NO, "alone", b"x;y|z"),
    (_PARQUET, "last", b"\xe2\x98\x83,1e400"),
    (_PARQUET, "alone", b","),
    (_PARQUET_VIEWS, "last", b"tall,1e400"),
    (_PARQUET_VIEWS, "only", b"7,\xe2\x98\x83"),
    (_FEATHER, "first", b"tall,NaN"),
    (_FEATHER, "last", b"7,8"),
    (_FEATHER_VIEWS, "alone", b",u"),
    (_ZIP, "first", b"tall,NA"),
    (_ZIP, "only", b"7,8"),
    (_ZIP, "alone", b"1"),
    (_DRESSED, "first", b"Report: 1"),
    (_DRESSED, "first", b"x|y"),
    (_DRESSED, "last", b"1,234.5 mg/dl|85%"),
    (_DRESSED, "last", b"1,23,4|1.234,5"),
    (_DRESSED, "last", b'"#|2'),
    (_DRESSED, "last", b"\xff\xfe|\x81"),
    (_DRESSED, "last", b"1" + b" " * 100_000 + b"!|" + b"1,234" * 20_000),
    (_DRESSED, "only", b"# |1"),
    (_DRESSED, "alone", b"1 kg|~1,000"),
)


def _write_arrow(path, kind, rows):
  cells = [row.decode().split(",") for row in rows]
  columns = {name: [row[i] for row in cells] for i, name in enumerate("xy")}
  type_ = pa.string_view() if kind in (_PARQUET_VIEWS, _FEATHER_VIEWS) else pa.string()
  table = pa.table(columns, pa.schema([("x", type_), ("y", type_)]))
  if kind in (_PARQUET, _PARQUET_VIEWS):
    parquet.write_table(table, f"{path}.parquet")
  else:
    feather.write_feather(table, f"{path}.feather")


def _write_table(path, kind, rows):
  if kind in (_PARQUET, _FEATHER, _PARQUET_VIEWS, _FEATHER_VIEWS):
    _write_arrow(path, kind, rows)
    return
  above = () if kind == _NO else (b"x,y",)
  if kind == _DRESSED:
    above = (b"Report", b"# of all", b"# told", b"x|y")
    rows = [row.replace(b",", b"|") if row in sum(_ROWS.values(), ()) else row for row in rows]
  text = b"".join(line + b"\n" for line in (*above, *rows))
  if kind == _ZIP:
    with zipfile.ZipFile(f"{path}.zip", "w") as archive:
      archive.writestr("table.csv", text)
    return
  with open(f"{path}.csv", "wb") as file:
    file.write(text)


def _files(folder):
  """Returns the content of all files by name, without the centers."""
  found = {}
  for directory, _, names in os.walk(folder):
    for name in names:
      path = os.path.join(directory, name)
      short = os.path.relpath(path, folder)
      with open(path, "rb") as file:
        content = file.read()
      if short == "report.html":
        content = re.sub(rb"<td>[^<]*</td>", b"", content)
      found[short] = None if short in _OF_CENTERS else content
  return found


class NeighboursTest(parameterized.TestCase):

  @classmethod
  def setUpClass(cls):
    super().setUpClass()
    temporary = tempfile.TemporaryDirectory()
    cls.addClassCleanup(temporary.cleanup)
    cls.base = os.path.realpath(temporary.name)
    cls.outcome = staticmethod(functools.cache(cls._outcome))

  @classmethod
  def _outcome(cls, kind, place=None, row=None):
    """Returns all that a run leaves but the centers, with a row more at a place."""
    # The same paths in all runs: they are printed.
    data, out = (os.path.join(cls.base, name) for name in ("data", "out"))
    for folder in (data, out):
      shutil.rmtree(folder, ignore_errors=True)
    os.mkdir(data)
    tables = dict(_NO_ROWS if place == "alone" else _ROWS)
    if row is not None:
      client = "south" if place == "only" else "north"
      there = tables[client]
      tables[client] = (row, *there) if place == "first" else (*there, row)
    for client, rows in tables.items():
      _write_table(os.path.join(data, client), kind, rows)
    ended = in_process.run_program(
        federated_kmeans.main, f"--data_dir={data}", f"--output_dir={out}", "--num_clusters=2",
        "--epsilon=1", "--delta=1e-5", "--radius=9", *_FLAGS[kind],
    )
    return ended, _files(out)

  @parameterized.parameters(*_NEIGHBOURS)
  def test_nothing_but_centers_shows_a_row(self, kind, place, row):
    nightly.skip_by_day(self, (kind, place, row) not in _BY_DAY)
    without = self.outcome(kind, "alone" if place == "alone" else None)
    (code, _, errors), files = without
    self.assertEqual((code, errors), (0, ""))
    self.assertContainsSubset((*_OF_CENTERS, "report.html"), files)
    self.assertEqual(self.outcome(kind, place, row), without)

  def test_a_row_raises_nothing_whatever_numpy_does_on_floating_point_errors(self):
    without = self.outcome(_YES)
    with np.errstate(all="raise"):
      self.assertEqual(self.outcome(_YES, "last", b"5e-324,1e308"), without)

  def test_there_are_more_than_fifty(self):
    self.assertLen(set(_NEIGHBOURS), 54)

  def test_workbooks_are_refused_whatever_they_hold(self):
    ends = set()
    for content in (b"", b"secret"):
      folder = self.create_tempdir().full_path
      shutil.rmtree(os.path.join(self.base, "data"), ignore_errors=True)
      data = os.path.join(self.base, "data")
      os.mkdir(data)
      for name in ("a.xlsx", "b.zip"):
        path = os.path.join(data, name)
        with open(path, "wb") as file:
          file.write(content)
      with zipfile.ZipFile(os.path.join(data, "b.zip"), "w") as archive:
        archive.writestr("table.xlsx", content)
      ends.add(in_process.run_program(
          federated_kmeans.main, f"--data_dir={data}", f"--output_dir={folder}/out",
          "--num_clusters=2", "--epsilon=1", "--delta=1e-5", "--radius=9", "--header=yes",
      ))
    ((code, _, errors),) = ends
    self.assertEqual(code, 2)
    self.assertRegex(errors, "a.xlsx': it is of no kind that can be read")
    self.assertRegex(errors, "b.zip': it holds 'table.xlsx', which is of no kind that can be read")


if __name__ == "__main__":
  absltest.main()
