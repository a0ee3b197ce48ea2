"""A private run of the program shows nothing of one row but in what was released with noise.

The program runs on neighbouring folders of tables, which differ in one row.  All that it leaves
is compared, but for the centers.
"""

import functools
import gzip
import os
import re
import shutil
import tempfile

from absl.testing import parameterized
import numpy as np
import pyarrow as pa
from pyarrow import parquet

from experiments.cluster_tables import __main__ as cluster_tables
from fl_clustering.tables import schema as schema_lib
from fl_clustering.tables import views
from tests import nightly
from tests.experiment_shell import in_process
from tests.experiment_shell import run_folder

_TEXT, _SEMICOLON, _GZIP, _PARQUET, _PARQUET_VIEWS, _FLOATS, _VIEWS = (
    "text", "semicolon", "gzip", "parquet", "parquet views", "floats", "views"
)
_ROWS = {"north": (b"1,2", b"3,4", b"5,6.5", b"3,4"), "south": (), "west": (b"-1,0", b"2,2")}
_NO_ROWS = {client: () for client in _ROWS}
# Files of centers, whose content and size are not compared.
_OF_CENTERS = ("centroids.csv", "model/arrays.npz", "tables/centroids.csv")

# By day: a row that no reader likes at every place, and in every kind of table.
_BY_DAY = (
    (_TEXT, "first", b"NA,tall"),
    (_TEXT, "only", b'"1,2'),
    (_TEXT, "alone", b'1,"2\r\n3"'),
    (_SEMICOLON, "first", b"name;"),
    (_SEMICOLON, "last", b"\xff\xfe,1e400"),
    (_PARQUET, "only", b"tall,NaN"),
    (_PARQUET_VIEWS, "first", b"tall,NaN"),
    (_FLOATS, "last", b"nan,1"),
    (_GZIP, "last", b'\xff,"'),
    (_VIEWS, "last", b'"1,tall'),
)
_ALL = {
    (_TEXT, "first"): (b",", b"x,y", b"1;2", b"\xef\xbb\xbf1,2", b'1,"2', b""),
    (_TEXT, "last"): (
        b"1e400,-1e400", b"1e999,2", b"-0,-0.0", b"1", b'"7","8"', b'"7"8,9', b'7"8,9',
        "\u00e9\u2603,\uff13\u2028".encode(), b"9" * 5000 + b",1", b"x" * 200_000 + b",1",
        b"\x00,\x00", b"1,2\r", b"1\r,2", b"3,4", b"Total,",
        b"12,16.5",  # The sums of the rows above.
        b"0012,4E5", b"None,N/A", b" 5 ,+6",
        b"9000,-9000",  # Outside of the bounds.
    ),
    (_TEXT, "only"): (b"nan,-inf", b"1_000,0x10"),
    (_TEXT, "alone"): (b"1,2,3", b"1,2", b"a\tb", b""),
    (_SEMICOLON, "first"): (b"1,5,2", b"1", b"1.5,2"),
    (_SEMICOLON, "last"): (b'3,"4', b'3,"4\n5,6"'),
    (_SEMICOLON, "only"): (b"5,6",),
    (_SEMICOLON, "alone"): (b"x;y|z",),
    (_PARQUET, "last"): (b"\xe2\x98\x83,1e400",),
    (_PARQUET, "first"): (b"9000,x",),
    (_PARQUET, "alone"): (b",",),
    (_PARQUET_VIEWS, "last"): (b"tall,1e400",),
    (_PARQUET_VIEWS, "only"): (b"7,\xe2\x98\x83",),
    (_GZIP, "first"): (b"tall,NA",),
    (_GZIP, "only"): (b"7,8",),
    (_GZIP, "alone"): (b"1",),
    (_GZIP, "last"): (b"1,2,3",),
    (_VIEWS, "last"): (b"9000,-9000", b"3"),
    (_VIEWS, "alone"): (b"1,2",),
}
_NEIGHBOURS = (
    *_BY_DAY, *((kind, place, row) for (kind, place), rows in _ALL.items() for row in rows)
)


def _schemas(kind):
  fields = {name: schema_lib.Field(name, minimum=-9, maximum=9) for name in "xy"}
  if kind == _VIEWS:
    return {name: schema_lib.Schema((field,)) for name, field in fields.items()}
  return {schema_lib.NO_VIEW: schema_lib.Schema(
      tuple(fields.values()),
      delimiter=";" if kind == _SEMICOLON else ",", decimal="," if kind == _SEMICOLON else ".",
  )}


def _write_table(path, kind, rows):
  if kind == _FLOATS:
    cells = np.array([row.split(b",") for row in rows]).astype(np.float32).reshape(-1, 2)
    # One of those that NumPy warns of as it makes float64 of them.
    cells.view(np.uint32)[np.isnan(cells)] = 0x7FA00000
    parquet.write_table(pa.table(dict(zip("xy", cells.T))), f"{path}.parquet")
    return
  if kind in (_PARQUET, _PARQUET_VIEWS):
    cells = [row.decode().split(",") for row in rows]
    columns = {name: [row[i] for row in cells] for i, name in enumerate("xy")}
    type_ = pa.string_view() if kind == _PARQUET_VIEWS else pa.string()
    table = pa.table(columns, pa.schema([("x", type_), ("y", type_)]))
    parquet.write_table(table, f"{path}.parquet")
    return
  if kind == _VIEWS:
    os.mkdir(path)
    for name, *cells in zip("xy", *(row.partition(b",")[::2] for row in rows)):
      with open(os.path.join(path, f"{name}.csv"), "wb") as file:
        file.writelines(cell + b"\n" for cell in (name.encode(), *cells))
    return
  if kind == _SEMICOLON:
    rows = [row.replace(b",", b";").replace(b".", b",") for row in rows]
  text = b"".join(line + b"\n" for line in (b"x;y" if kind == _SEMICOLON else b"x,y", *rows))
  if kind == _GZIP:
    path, text = f"{path}.csv.gz", gzip.compress(text, mtime=0)
  else:
    path = f"{path}.csv"
  with open(path, "wb") as file:
    file.write(text)


def _files(folder):
  """Returns the content of all files by name, without the centers."""
  found = run_folder.files(folder)
  found["report.html"] = re.sub(rb"<td>[^<]*</td>", b"", found["report.html"])
  return {**found, **dict.fromkeys(set(found) & {*_OF_CENTERS})}


class NeighboursTest(parameterized.TestCase):

  @classmethod
  def setUpClass(cls):
    super().setUpClass()
    cls.base = os.path.realpath(cls.enterClassContext(tempfile.TemporaryDirectory()))
    cls.outcome = staticmethod(functools.cache(cls._outcome))

  @classmethod
  def _outcome(cls, kind, place=None, row=None):
    """Returns all that a run leaves but the centers, with a row more at a place."""
    # The same paths in all runs: they are printed.
    data, out, schema = (os.path.join(cls.base, name) for name in ("data", "out", "schema.json"))
    views.write(_schemas(kind), schema)
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
    code, printed, errors = in_process.run_program(
        cluster_tables.main, f"--data_dir={data}", f"--output_dir={out}", "--num_clusters=2",
        "--epsilon=1", "--delta=1e-5", f"--schema={schema}",
    )
    printed = re.sub("(?s)\ncolumn .*\nreport: ", "", printed)  # The centers.
    return (code, printed, errors), _files(out)

  @parameterized.parameters(*_NEIGHBOURS)
  def test_nothing_but_centers_shows_a_row(self, kind, place, row):
    # By day, a few of each kind of files.
    nightly.skip_by_day(self, (kind, place, row) not in _BY_DAY)
    without = self.outcome(kind, "alone" if place == "alone" else None)
    (code, _, errors), files = without
    self.assertEqual((code, errors), (0, ""))
    self.assertContainsSubset((*_OF_CENTERS, "report.html"), files)
    self.assertEqual(self.outcome(kind, place, row), without)

  def test_a_row_raises_nothing_whatever_numpy_does_on_floating_point_errors(self):
    without = self.outcome(_TEXT)
    with np.errstate(all="raise"):
      self.assertEqual(self.outcome(_TEXT, "last", b"5e-324,1e308"), without)
