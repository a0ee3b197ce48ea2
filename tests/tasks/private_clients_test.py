import contextlib
import dataclasses
import gzip
import io
import math
import os
import warnings

from absl.testing import parameterized
import numpy as np
import pandas as pd
import pyarrow as pa
from pyarrow import parquet

from fl_clustering.tables import schema as schema_lib
from fl_clustering.tasks import private_clients

_SCHEMA = schema_lib.Schema(
    (
        schema_lib.Field("age", center=50.0, scale=10.0),
        schema_lib.Field("sex", "string", enum=("f", "m")),
        schema_lib.Field("x", center=1.0, scale=2.0),
        schema_lib.Field("ill", "string", enum=("no", "yes", "3")),
        schema_lib.Field("part", "string"),
    ),
    label="ill", split="part",
)
_WITH_CLIENTS = dataclasses.replace(
    _SCHEMA, fields=(*_SCHEMA.fields, schema_lib.Field("who", "string")), client="who"
)
_HEADER = "age,sex,x,ill,part\n"
_ROWS = ("40,f,1,no,train\n", "60,m,3,yes,test\n", "70,f,5,3,train\n", "50,m,1,no,train\n")
_NO_ROWS = np.zeros((0, 4), np.float32)


def _table(*rows, header=_HEADER):
  return (header + "".join(rows)).encode()


def _parquet(columns):
  sink = io.BytesIO()
  parquet.write_table(columns if isinstance(columns, pa.Table) else pa.table(columns), sink)
  return sink.getvalue()


def _views(**changes):
  """Returns a table whose columns of text are views, and those that `changes` gives as text."""
  columns = _columns(**changes)
  return pa.table({
      name: pa.array(column, pa.string_view()) if isinstance(column[0], str) else column
      for name, column in columns.items()
  })


def _columns(**changes):
  columns = {
      "age": [40.0, 60.0], "sex": ["f", "m"], "x": [1, 3], "ill": ["no", "yes"],
      "part": ["train", "test"],
  }
  return {**columns, **changes}


class _TestCase(parameterized.TestCase):

  def folder(self, files):
    folder = self.create_tempdir().full_path
    for name, content in files.items():
      with open(os.path.join(folder, name), "wb") as file:
        file.write(content)
    return folder

  def load(self, files, schema=_SCHEMA, seed=0):
    """Returns what `load` does, which says nothing meanwhile."""
    said = io.StringIO()
    with (
        warnings.catch_warnings(record=True) as warned, contextlib.redirect_stdout(said),
        contextlib.redirect_stderr(said),
    ):
      warnings.simplefilter("always")
      train, test = private_clients.load(schema, self.folder(files), seed)
    self.assertEqual(said.getvalue(), "")
    # Other than those of collected garbage.
    self.assertEmpty([w for w in warned if not issubclass(w.category, ResourceWarning)])
    for examples in (*train.values(), *test.values()):
      self.assertEqual((examples.features.dtype, examples.labels.dtype), (np.float32, np.int32))
    return train, test


def _scaled(rows):
  """Returns rows in which a level is one, as features: of two levels, each has half a variance."""
  return np.float32(np.reshape(rows, (-1, 4)) * [1, math.sqrt(2), math.sqrt(2), 1])


class LoadTest(_TestCase):

  def assert_client(self, content, train, labels, ending="csv", schema=_SCHEMA):
    found, test = self.load({f"a.{ending}": content}, schema)
    self.assertEqual(list(found), ["a"])
    np.testing.assert_array_equal(found["a"].features, _scaled(train))
    np.testing.assert_array_equal(found["a"].labels, labels)
    return test["a"]

  def test_numbers_of_any_size_whatever_numpy_does_on_errors(self):
    fields = (
        schema_lib.Field("age", center=0.0, scale=10.0),
        schema_lib.Field("x", center=0.0, scale=1e-10), *_SCHEMA.fields[3:],
    )
    rows = ("5e-324,1e300,no,train\n", "1e-50,1,yes,train\n", "nan,-1e308,no,train\n")
    files = {"a.csv": _table(*rows, header="age,x,ill,part\n")}
    found = []
    for action in ("warn", "raise"):
      with np.errstate(all=action):
        train, _ = self.load(files, schema_lib.Schema(fields, label="ill", split="part"))
      found.append(train["a"].features)
    self.assertLen(found[0], 3)
    np.testing.assert_array_equal(*found)

  @parameterized.named_parameters(
      ("no number", "tall,f,u,no,train", [0, 1, 0, 0]),
      ("missing", ",,NA,no,train", [0, 0, 0, 0]),
      ("too large", "1e999,f,-1e300,no,train", [5, 1, 0, -5]),
      ("an unknown level", "50,x,1,no,train", [0, 0, 0, 0]),
      ("blanks and quotes", '" 40 ","f",1,"no",train', [-1, 1, 0, 0]),
      ("another class", "40,f,1,maybe,train", None),
      ("another split", "40,f,1,no,validation", None),
      ("no split", "40,f,1,no,", None),
      ("too few cells", "40,f,1,no", None),
  )
  def test_rows(self, row, features):
    rows = [features] if features else []
    test = self.assert_client(
        _table(*_ROWS, row + "\n"), [[-1, 1, 0, 0], [2, 1, 0, 2], [0, 0, 1, 0], *rows],
        [0, 2, 0, *[0] * len(rows)],
    )
    np.testing.assert_array_equal(test.features, _scaled([1, 0, 1, 1]))
    np.testing.assert_array_equal(test.labels, [1])

  def test_images(self):
    names = schema_lib.array_names((2, 3, 1))
    fields = [schema_lib.Field(name, minimum=0, maximum=2) for name in names]
    classes = schema_lib.Field("y", "string", enum=("0", "1"))
    x, sink = np.arange(24).reshape(4, 2, 3), io.BytesIO()
    np.savez(sink, x=x, y=[0, 1, 7, 0])
    files = {"a.npz": sink.getvalue(), "b.npz": sink.getvalue()[:-9]}
    parts = self.load(files, schema_lib.Schema((*fields, classes), label="y"))
    found = [np.concatenate([part[c].features for part in parts]) for c in "ab"]
    expected = np.clip(x, 0, 2)[[0, 1, 3], :, :, np.newaxis] - 1
    np.testing.assert_array_equal(np.sort(found[0], axis=0), expected)
    self.assertEqual(found[1].shape, (0, 2, 3, 1))

  @parameterized.named_parameters(
      ("empty", b""), ("names alone", _table()),
      ("a column less", _table("40,f,1,no\n", header="age,sex,x,ill\n")),
      ("a column twice", _table("40,f,1,no,train,1\n", header="age,sex,x,ill,part,age\n")),
      ("half a gzip file", gzip.compress(_table(*_ROWS))[:-12], "csv.gz"),
      ("no Parquet", b"PAR1 no PAR1", "parquet"),
  )
  def test_files_that_hold_no_rows(self, content, ending="csv"):
    test = self.assert_client(content, _NO_ROWS, [], ending)
    self.assertEqual(test.features.shape, (0, 4))

  @parameterized.named_parameters(
      ("Parquet", _parquet(_columns()), "parquet"),
      ("categories", _parquet(_columns(sex=pd.Categorical(["f", "m"]))), "parquet"),
      ("text in Parquet", _parquet(_columns(age=["40", "60"])), "parquet"),
      ("views in Parquet", _parquet(_views(age=["40", "60"])), "parquet"),
      ("gzip", gzip.compress(_table(*_ROWS[:2])), "csv.gz"),
      ("another order",
       _table("no,u,1,train,f,40\n", "yes,u,3,test,m,60\n", header="ill,name,x,part,sex,age\n"),
       "csv"),
  )
  def test_kinds_of_files(self, content, ending):
    test = self.assert_client(content, [[-1, 1, 0, 0]], [0], ending)
    np.testing.assert_array_equal(test.features, _scaled([1, 0, 1, 1]))


class SplitTest(_TestCase):

  def _split(self, num_rows, client_id="a", seed=0, others=()):
    schema = schema_lib.Schema(
        (
            schema_lib.Field("x", center=0.0, scale=100.0),
            schema_lib.Field("y", "string", enum=("0", "1")),
        ), label="y",
    )
    rows = [f"{i},{i % 2}\n" for i in range(num_rows)]
    files = {f"{client_id}.csv": _table(*rows, header="x,y\n")}
    parts = self.load({**files, **dict(others)}, schema, seed)
    train, test = (part[client_id].features * 100 for part in parts)
    np.testing.assert_allclose(np.sort(np.concatenate([train, test])[:, 0]), range(num_rows))
    return len(train), np.rint(test[:, 0]).tolist()

  @parameterized.parameters((0, 0), (1, 0), (2, 1), (10, 2))
  def test_numbers(self, num_rows, num_test):
    num_train, test = self._split(num_rows)
    self.assertEqual((num_train, len(test)), (num_rows - num_test, num_test))

  def test_the_seed_and_the_client_decide(self):
    first = self._split(40)
    self.assertEqual(self._split(40), first)
    self.assertEqual(self._split(40, others={"0.csv": b"", "c.csv": b"x,y\n1,1\n"}.items()), first)
    self.assertNotEqual(self._split(40, seed=1), first)
    self.assertNotEqual(self._split(40, client_id="b"), first)


# What a client's file may hold instead of its rows.
_CONTENTS = {
    "nothing": b"",
    "names alone": _table(),
    "one row": _table(_ROWS[0]),
    "any bytes": bytes(range(256)) * 20,
    "bytes for cells": _table() + b"\xff\xfe,\x00,\xc3(,no,train\n\x1a",
    "no number is finite": _table("nan,nan,inf,no,train\n", "-inf,f,1e999,yes,test\n"),
    "large numbers": _table("1e308,f,-1.7e308,no,train\n", "9" * 5000 + ",m,1e-320,yes,train\n"),
    "a cell of 200,000 letters": _table("x" * 200_000 + ",f,1,no,train\n"),
    "a cell of 130,000 digits": _table("9" * 130_000 + "u,f,1,no,train\n"),
    "other columns": _table("1,2\n", header="a,b\n"),
    "columns in another order": _table("train,no,1,f,40\n", header="part,ill,x,sex,age\n"),
    "a column less": _table("40,f,1,no\n", header="age,sex,x,ill\n"),
    "another separator": _table(*_ROWS).replace(b",", b";"),
    "lone quotes": _table('"40,f,1,no,train\n', '40,"f,1,no,train\n', *_ROWS),
    "a quote in the names": _table(*_ROWS, header='"age,sex,x,ill,part\n'),
    "unknown labels": _table("40,f,1,maybe,train\n", "40,f,1,,train\n", "40,f,1,no,never\n"),
    "lines of other lengths": _table("1\n", ",,,,,,,\n", "\n", *_ROWS),
    "other ends of lines": _table(*_ROWS).replace(b"\n", b"\r"),
    "the text of others": _table(*(5 * _ROWS)),
}
_GZIP = {
    "text": _table(*_ROWS),
    "a damaged sum": gzip.compress(_table(*_ROWS))[:-8] + bytes(8),
    "a damaged stream": gzip.compress(_table(*_ROWS))[:20] + b"\xff" * 40,
}
_PARQUET = {
    "nothing": b"",
    "half of it": _parquet(_columns())[:-30],
    "its end alone": _parquet(_columns())[-300:],
    "bytes in between": b"PAR1" + b"\xff" * 400 + _parquet(_columns())[404:],
    "lists": _parquet(_columns(age=[[1.0], [2.0]])),
    "no rows": _parquet(pa.table(_columns()).slice(0, 0)),
    "nulls": _parquet(_columns(age=[None, None], ill=[None, "no"])),
}

def _cases(contents, ending):
  return [(f"{ending}, {name}", ending, content) for name, content in contents.items()]


class NeighboursTest(_TestCase):
  """One client's file changes nothing for the others, and nobody is told what it holds."""

  _expected = {}

  def _assert_same_but_for(self, client_id, found, expected):
    for part, expected_part in zip(found, expected):
      self.assertEqual(list(part), list(expected_part))
      for other in part.keys() - {client_id}:
        mine, before = part[other], expected_part[other]
        self.assertEqual(mine.features.tobytes(), before.features.tobytes())
        self.assertEqual(mine.features.shape, before.features.shape)
        self.assertEqual(mine.labels.tobytes(), before.labels.tobytes())

  @parameterized.named_parameters(
      *_cases(_CONTENTS, "csv"), *_cases(_GZIP, "csv.gz"), *_cases(_PARQUET, "parquet"),
  )
  def test_files(self, ending, content):
    others = {
        "a.csv": _table(*_ROWS), "c.csv": _table(*_ROWS[1:]).replace(b",", b";"), "d.csv": b"",
        "e.parquet": _parquet(_columns()),
    }
    for schema in (_SCHEMA, _SCHEMA.without("split")):
      key = ending, schema.split
      if key not in self._expected:
        self._expected[key] = self.load({**others, f"b.{ending}": _table(*_ROWS)}, schema)
      found = self.load({**others, f"b.{ending}": content}, schema)
      self._assert_same_but_for("b", found, self._expected[key])

  @parameterized.parameters(
      '"40,f,1,no,train,b', "nan,x,1e999,maybe,never,b", ",,,,,b", "40,f,1,no,train", ",,,,,,,,b",
      '"', "x" * 200_000 + ",f,1,no,train,b", "\udcff,f,\0,no,train,b", "40,f,1,no,train,b\r,,",
  )
  def test_rows_of_a_shared_table(self, row):
    def table(*rows):
      text = "age,sex,x,ill,part,who\n" + "".join(f"{line}\n" for line in rows)
      return text.encode(errors="surrogateescape")

    rows = [f"{line.strip()},{who}" for line, who in zip(2 * _ROWS, "abcdabcd")]
    for place in (0, 4, 8):
      changed = [*rows[:place], row, *rows[place:]]
      found = self.load({"1.csv": table(*changed), "2.csv": table(*rows)}, _WITH_CLIENTS)
      expected = self.load({"1.csv": table(*rows), "2.csv": table(*rows)}, _WITH_CLIENTS)
      self._assert_same_but_for("b", found, expected)


class FolderTest(_TestCase):

  def test_clients_that_share_tables(self):
    rows = ("10,no,40,f,1,train\n", "2,yes,60,m,1,train\n", ",no,50,m,1,train\n")
    train, test = self.load({
        "1.csv": _table(*rows, header="who,ill,age,sex,x,part\n"),
        "2.parquet": _parquet({**_columns(), "who": [10, 10]}),
    }, _WITH_CLIENTS)
    self.assertEqual(list(train), ["2", "10"])
    np.testing.assert_array_equal(train["10"].features, _scaled([[-1, 1, 0, 0]] * 2))
    np.testing.assert_array_equal(test["10"].labels, [1])
    self.assertLen(train["2"], 1)
    self.assertEmpty(test["2"])

  @parameterized.named_parameters(
      ("a column less", {"1.csv": b"who,age\nu,secret\n"}, "1.csv.*'sex'"),
      ("no table", {"1.csv.gz": b"secret"}, "1.csv.gz"),
      ("no Parquet", {"1.parquet": b"secret"}, "1.parquet"),
      ("no client", {"1.csv": _table(header="who,age,sex,x,ill,part\n")}, "client.*'who'"),
  )
  def test_tables_that_clients_can_not_share(self, files, message):
    with self.assertRaisesRegex(ValueError, message) as caught:
      self.load(files, _WITH_CLIENTS)
    self.assertNotIn("secret", str(caught.exception))

  @parameterized.named_parameters(
      ("no files", {}, "data_dir"),
      ("another kind", {"a.csv": b"", "b.xlsx": b""}, "data_dir.*b.xlsx"),
      ("one client twice", {"a.csv": b"", "a.parquet": b""}, "data_dir.*'a'"),
      ("no label", {"a.csv": _table(*_ROWS)}, "label", _SCHEMA.without("label")),
      ("no scale", {"a.csv": _table(*_ROWS)}, "age", dataclasses.replace(
          _SCHEMA, fields=(schema_lib.Field("age"), *_SCHEMA.fields[1:]))),
  )
  def test_refuses(self, files, message, schema=_SCHEMA):
    with self.assertRaisesRegex(ValueError, message):
      self.load(files, schema)
