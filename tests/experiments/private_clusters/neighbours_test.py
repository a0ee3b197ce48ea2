"""A run on clients' own tables shows nothing of one client but in noisy sums.

The program runs on neighbouring folders of tables, which differ in the rows of one client.  Every
run asks its own clients, but goes on with the noisy answers of one of them.  So all that depends
on a client in another way differs, and everything that the runs leave is compared to the byte.
"""

import functools
import gzip
import os
import shutil
import tempfile
from unittest import mock

from absl.testing import parameterized
import numpy as np
import pyarrow as pa
from pyarrow import parquet
import tqdm

from experiments.private_clusters import __main__ as private_clusters
from fl_clustering.engine import engines
from fl_clustering.private_clusters import releases
from fl_clustering.tables import schema as schema_lib
from tests import nightly
from tests.experiment_shell import in_process
from tests.experiment_shell import run_folder
from tests.experiments.private_clusters import shared_worker

_TEXT, _SEMICOLON, _PARQUET, _SHARED, _GZIP = "text", "semicolon", "parquet", "shared", "gzip"
_ROWS = {
    "north": (b"1,u,0", b"3,v,1", b"5,u,1", b"3,v,0"),
    "south": (b"0,u,0",),  # For training; none is left for testing.
    "west": (b"-1,v,1", b"2,u,1", b"4,v,1"),
}
_NORTH = _ROWS["north"]

# From the kind of the tables to all rows of one client that differ.  By day: a record of two lines
# and an odd row, a file without rows, a row removed.
_BY_DAY = (
    (_TEXT, "north", (b'7,"u\n""v,1",0', *_NORTH, b'"nan,\xff,')),
    (_TEXT, "west", ()),
    (_SHARED, "north", _NORTH[1:]),
)
_ALL = {
    (_TEXT, "south"): ((b"1e400,-1e400,0", b"0,u,0"),),
    (_TEXT, "north"): (
        (*_NORTH, b"1,2,3,4"), (*_NORTH, b"x;y;z"), (*_NORTH, b"9" * 5000 + b",u,1"),
        (b"7,w,2",), (*_NORTH, b",,", b"1,None,0", b"Total,N/A,"),
        (b'1,"u,1', *_NORTH, b'"'),  # Quotes that others close lines later.
        tuple(b"%d,u,%d" % (98_765 * i % 900_007, i % 2) for i in range(60)),
    ),
    (_TEXT, "west"): ((b"\x00,\x00,\x00",), _NORTH),  # As the rows of another client.
    (_SEMICOLON, "north"): ((b"name;;", *_NORTH), (b"1.5;u;1", *_NORTH)),
    (_SEMICOLON, "south"): ((),),
    (_PARQUET, "west"): ((b"tall,NaN,1", b"1,u,0"),),
    (_PARQUET, "north"): ((*_NORTH, b"2,u,1"),),
    (_PARQUET, "south"): ((),),
    (_GZIP, "north"): ((b'"nan,\xff,', *_NORTH),),
    (_GZIP, "south"): ((),),
    (_SHARED, "west"): ((*_ROWS["west"], b'"1e999,,'),),
    (_SHARED, "north"): ((b"\xe2\x98\x83,u,0", *_NORTH), (b"1\r,u,0", *_NORTH)),
}
_NEIGHBOURS = (
    *_BY_DAY, *((kind, client, rows) for (kind, client), own in _ALL.items() for rows in own)
)


setUpModule = shared_worker.use


def _schema(kind):
  fields = (
      schema_lib.Field("x", center=2.0, scale=2.0),
      schema_lib.Field("c", "string", enum=("u", "v")),
      schema_lib.Field("y", "string", enum=("0", "1")),
  )
  if kind == _SHARED:
    fields += (schema_lib.Field("who", "string"),)
  return schema_lib.Schema(
      fields, label="y", client="who" if kind == _SHARED else None,
      delimiter=";" if kind == _SEMICOLON else ",", decimal="," if kind == _SEMICOLON else ".",
  )


def _write_tables(folder, kind, tables):
  os.mkdir(folder)
  if kind == _SHARED:
    rows = (row + b"," + who.encode() for who, own in tables.items() for row in own)
    tables = {"all": (b"x,c,y,who", *rows)}
  for client, rows in tables.items():
    path = os.path.join(folder, client)
    if kind == _PARQUET:
      cells = [row.decode().split(",") for row in rows]
      columns = {name: [row[i] for row in cells] for i, name in enumerate("xcy")}
      table = pa.table(columns, pa.schema([(name, pa.string()) for name in "xcy"]))
      parquet.write_table(table, f"{path}.parquet")
      continue
    above = [b"x,c,y"] * (kind != _SHARED)
    text = b"".join(line + b"\n" for line in (*above, *rows))
    if kind == _SEMICOLON:
      text = text.replace(b",", b";")
    with (gzip.open if kind == _GZIP else open)(
        f"{path}.csv{'.gz' * (kind == _GZIP)}", "wb"
    ) as file:
      file.write(text)


class NeighboursTest(parameterized.TestCase):

  @classmethod
  def setUpClass(cls):
    super().setUpClass()
    cls.base = os.path.realpath(cls.enterClassContext(tempfile.TemporaryDirectory()))
    cls.without = staticmethod(functools.cache(cls._without))

  @classmethod
  def _left_of(cls, engine, kind, tables, answers):
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
          private_clusters.main, "--dataset=files", f"--data_dir={data}",
          f"--schema={schema}", f"--output_dir={out}", "--num_clusters=2", "--rounds=2",
          "--epsilon=1", f"--engine={engine}",
      )
    return ended, run_folder.files(out), [np.shape(found) for found in exact]

  @classmethod
  def _without(cls, engine, kind):
    answers = {}
    return cls._left_of(engine, kind, _ROWS, answers), answers

  @parameterized.parameters(
      *((*one, engine) for engine in engines.ENGINES for one in _NEIGHBOURS)
  )
  def test_nothing_but_noisy_sums_shows_a_client(self, kind, client, rows, engine):
    # By day one engine: the tables are read before there is any.
    nightly.skip_by_day(self, engine == engines.TFF or (kind, client, rows) not in _BY_DAY)
    expected, answers = self.without(engine, kind)
    ended, files, shapes = expected
    self.assertEqual((ended[0], ended[2]), (0, ""))
    self.assertEqual(
        {name.split("/")[0] for name in files},
        {
            "budget.csv", "clusters.csv", "config.json", "figures", "journal", "ledger.csv",
            "released", "report.html", "results.csv", "rounds.csv", "summary.json", "tables",
        },
    )
    found = self._left_of(engine, kind, {**_ROWS, client: rows}, dict(answers))
    self.assertEqual(found[0], ended)
    self.assertEqual(found[2], shapes)
    # Without the contents, whose difference takes long to be shown.
    self.assertEqual(set(found[1]), set(files))
    self.assertEmpty([name for name in files if found[1][name] != files[name]])
