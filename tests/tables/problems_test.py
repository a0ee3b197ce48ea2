"""Tests of what is said of files that can't be used."""

import gzip
import re
from unittest import mock

from absl.testing import absltest
from absl.testing import parameterized
import numpy as np
import pandas as pd
import psutil

from fl_clustering.tables import client_tables
from fl_clustering.tables import table_options
from tests.tables import table_folders as folders


class BadFilesTest(folders.TablesTestCase):

  @parameterized.named_parameters(
      ("no files", {}, {}, "a file per client .*, got none"),
      ("another kind", {"a.csv": "x\n1\n", "b.json": "1"}, {},
       "got '.*b.json': it is of no kind that can be read; kinds are .csv, .*.zip"),
      ("other kinds alone", {"a.json": "{}", "b.docx": ""}, {},
       r"a file per client \(.csv, .*\), got only a.json, b.docx in"),
      ("a note", {"a.csv": "x,y\n1,2\n", "b.csv": "x,y\n3,4\n",
                  "notes.txt": "Exported by Bob, in March\nsee the wiki\n"}, {},
       "notes.txt': it looks like no table: line 1 is 'Exported by Bob,in March', and no table .*"
       "a folder must hold nothing but tables.$"),
      ("a note of one line", {"a.csv": "x,y\n1,2\n", "notes.txt": "All sites but the last\n"}, {},
       "notes.txt': it looks like no table"),
      ("a note beside arrays", {"a.npz": {"x": np.ones(2), "y": np.ones(2)}, "b.txt": "Hello\n"},
       {}, "b.txt': it looks like no table"),
      ("no zip", {"a.zip": b"x"}, {}, "a.zip': it is no zip file, or not all of one"),
      ("two files in a zip", {"a.zip": folders.zipped(b="1,2\n", c="1,2\n")}, {},
       "a.zip': it must hold one file, got 2"),
      ("another kind in a zip", {"a.zip": folders.zipped(b="{}", ending=".json")}, {},
       "a.zip': it holds 'b.json', which is of no kind that can be read"),
      ("half a zip", {"a.zip": folders.zipped(b="x,y\n1,2\n" * 999)[:-9]}, {}, "it is no zip file"),
      ("no feather", {"a.feather": b"x"}, {}, "a.feather': it can't be read as Feather"),
      ("one client twice", {"a.csv": "1", "a.npy": np.ones((1, 1))}, {},
       "one file per client, got .*a.csv.* and .*a.npy"),
      ("empty", {"a.csv": ""}, {}, "a.csv': it is empty"),
      ("names only", {"a.csv": "x,y\n"}, {}, "a.csv': it has no rows"),
      ("text", {"a.csv": "x,y,z\n1,2,3\n3,yes,u\n1,yes,no\n"}, {},
       "a.csv': line 3, column 'y': 'yes' is not a number .also 'z'.; --categories makes .*"
       "--exclude leaves .* Try: --exclude=z --categories=y$"),
      ("a name with a space", {"a.csv": "a b\n1\nyes\n"}, {}, "Try: --categories='a b'$"),
      ("a name with a comma", {"a.csv": '"a, b",c\n1,2\nyes,3\n'}, {},
       """Try: --categories='"a, b"'$"""),
      ("text in a quoted cell of two lines", {"a.csv": 'x,y\n1,"\n"\n3,yes\n'}, {},
       "line 4, column 'y': 'yes'"),
      ("a decimal comma", {"a.csv": "x;y\n1,5;2\n"}, {"decimal": "."},
       "'1,5' is not a number: it has a decimal comma; without --decimal, each file's .*out"),
      ("points between thousands", {"a.csv": "x;y\n1,5;1.234,5\n"}, {"decimal": ","},
       "'1.234,5' is not a number: it has points between thousands; .*Try: --thousands=.$"),
      ("a decimal point", {"a.csv": "x;y\n1,5;1.2\n"}, {"decimal": ","},
       "'1.2' is not a number: it has a decimal point; without --decimal, each file's"),
      ("commas between thousands", {"a.csv": 'x,y\n1.5,"1,234.5"\n'}, {},
       "'1,234.5' is not a number: it has commas between thousands; .*Try: --thousands=,$"),
      ("true", {"a.csv": "x\n1\nTrue\n"}, {}, "line 3, column 'x': 'True' is not a number"),
      ("a digit separator", {"a.csv": "x\n1\n1_000\n"}, {}, "'1_000' is not a number"),
      ("missing", {"a.csv": "x,y\n1,2\n\n3,\n,1\n"}, {},
       "line 4, column 'y' is empty .also 'x'.; --missing=mean or .* fills .*Try: --missing=mean$"),
      ("nan", {"a.csv": "x,y\n1,2\nnan,4\n"}, {}, "line 3, column 'x' is empty"),
      ("infinity", {"a.csv": "x\n1\n-inf\n"}, {}, "line 3, column 'x': -inf is not a finite"),
      ("too large", {"a.csv": "x\n1\n1e101\n"}, {}, "line 3, .*1e.101 is not between -1e.100 and"),
      ("larger than any", {"a.csv": "x\n1\n1e400\n"}, {}, "line 3, .*inf is not a finite number"),
      ("a cell too few", {"a.csv": "x,y\n1,2\n3\n"}, {},
       "line 3 has 1 cell, line 1 has 2, with ',' between cells; --client"),
      ("another separator in a row", {"a.csv": "x,y\n1,2\n3;5\n", "b.csv": "x,y\n1,2\n"}, {},
       "line 3 has 1 cell, line 1 has 2, with ',' between cells.$"),
      ("a separator too many", {"a.csv": "x;y\n1;2;\n3;4;\n"}, {},
       "line 2 has 3 cells, line 1 has 2, with ';' between cells; the further ones are empty; "
       "--client_[^;]*$"),
      ("another number of cells in all rows", {"a.csv": "x,y\n1,2\n", "b.csv": "x,y\n3\n"}, {},
       "b.csv': line 2 has 1 cell, line 1 has 2, with ',' between cells; --separator names"),
      ("the rows' names without a name", {"a.csv": "x,y\nu,1,2\nv,3,4\n"}, {},
       "line 2 has 3 cells, line 1 has 2, with ',' between cells; line 1 lacks a name, as in files "
       "from R; --client"),
      ("decimal commas between commas", {"a.csv": "x,y\n1,5,2,5\n3,4,5\n"}, {},
       "line 2 has 4 cells, line 1 has 2, with ',' between cells; where numbers have decimal "
       "commas, cells must have another separator; --client"),
      ("carets", {"a.csv": "age^crp\n1.5^2\n3^\n", "b.csv": "age^crp\n1^2\n3^4\n"}, {},
       r"line 1, 'age\^crp', looks like several cells with '\^' between them; .*--separator names "
       r"it.*Try: --missing=mean --separator='\^'$"),
      ("single spaces", {"a.csv": "age crp\n1.5 2\n3 4\n"}, {}, r"Try: --separator=' '$"),
      ("several spaces", {"a.csv": "age   crp\n 1.5 2\n 3   4\n", "b.csv": "age   crp\n1  4\n"}, {},
       "a.csv': line 1, 'age   crp', looks like several cells with ' ' between them, which must be "
       "a single one everywhere; '[^']*b.csv': line 1, [^;]*everywhere.$"),
      ("a cell too many", {"a.csv": "x,y\n1,2\n3,4,5\n"}, {}, "line 3 has 3 cells, line 1 has 2"),
      ("names without a cell", {"a.csv": "x,y\n1,2,3\n"}, {}, "line 2 has 3 cells, line 1 has 2"),
      ("half a header", {"a.csv": "x,2\n3,4\n"}, {},
       "line 1, x,2, has numbers and text; .*--header="),
      ("names or a row", {"a.csv": "0,1,2\n3,4,5\n"}, {},
       "line 1, 0,1,2, may be a row .*--header="),
      ("names or the same row", {"a.csv": "1,5,7\n3,4,5\n", "b.csv": "1,5,7\n3,4,5\n"}, {},
       "line 1, 1,5,7, may be a row .*--header="),
      ("one file without names", {"a.csv": "x,y\n1,2\n", "b.csv": "1,2\n3,4\n"}, {},
       "b.csv': line 1 holds numbers, and that of .*a.csv' names; either all"),
      ("one file without names, with text",
       {"a.csv": "x,c\n1,u\n", "b.csv": "1,v\n3,u\n", "d.csv": "c,x\nu,4\n"}, {},
       "got '[^']*b.csv': line 1 holds numbers, and that of '[^']*a.csv' names; either all files "
       "have names or none.$"),
      ("one file without names that are numbers",
       {"a.csv": "4,5,6\n1,2,3\n", "b.csv": "2019,2020,2021\n1,2,3\n",
        "c.csv": "2019,2020,2021\n4,5,6\n"}, {},
       "got '[^']*b.csv': line 1, 2019,2020,2021, may be a row, or the columns' names, which "
       "'[^']*a.csv' lacks; --header=yes or --header=no says which.$"),
      ("names but for their accents", {"a.npz": {"e\u0301": np.ones(2), "\u00e9": np.ones(2)}}, {},
       "a.npz': two of its arrays have the same name but for how accents are written"),
      ("half a header below other lines", {"a.csv": "x\n\ny,2\n3,4\n"}, {"skip_lines": 1},
       "line 3, y,2, has numbers and text"),
      ("names or a row below other lines", {"a.csv": "x\n0,1,2\n3,4,5\n"}, {"skip_lines": 1},
       "line 2, 0,1,2, may be a row"),
      ("a name twice below other lines", {"a.csv": "\nx,x\n0,4\n"}, {},
       "line 2 names the column 'x' twice"),
      ("one file without names below other lines",
       {"a.csv": "\nx,y\n1,2\n", "b.csv": "\n1,2\n3,4\n"}, {}, "b.csv': line 2 holds numbers"),
      ("an array without names", {"a.csv": "x,y\n1,2\n", "b.npy": np.ones((2, 2))}, {},
       "b.npy': it has no column names, and .*a.csv' has"),
      ("the rows' numbers", {"a.csv": ",x\n0,4\n"}, {},
       "column 1, 'column_1', looks like the rows' ids; --id_column=column_1 .*"
       "Try: --exclude=column_1$"),
      ("ids", {"a.csv": "x,patient_id\n0,4\n"}, {}, "column 2, 'patient_id', looks like"),
      ("ids in one word", {"a.csv": "x,PatientId\n0,4\n", "b.csv": "x,PatientId\n0,4\n"}, {},
       "column 2, 'PatientId', looks like"),
      ("ids in one small word", {"a.csv": "rowid,x\n0,4\n"}, {}, "column 1, 'rowid', looks like"),
      ("ids in camel case", {"a.csv": "x,patientID\n0,4\n"}, {},
       "column 2, 'patientID', looks like"),
      ("numbers of records", {"a.csv": "MRN,x\n0,4\n"}, {}, "column 1, 'MRN', looks like"),
      ("ids with a space in their name", {"a.csv": "x,Patient ID\n0,4\n"}, {},
       "--id_column='Patient ID' names .*Try: --exclude='Patient ID'$"),
      ("the rows' names in a frame",
       {"a.parquet": pd.DataFrame({"x": [1, 2]}, index=[4, 2])}, {},
       "column 2, '__index_level_0__', looks like the rows' ids"),
      ("a name twice", {"a.csv": "x,x\n0,4\n"}, {}, "line 1 names the column 'x' twice"),
      ("a column too few", {"a.csv": "x,y\n1,2\n", "b.csv": "x\n1\n"}, {},
       "b.csv': it has no column 'y', and '.*a.csv' has; --exclude leaves .*Try: --exclude=y$"),
      ("a name in another spelling", {"a.csv": "Age y,z\n1,2\n", "b.csv": "z,age_y\n1,2\n"}, {},
       "b.csv': it has a column 'age_y', and '.*a.csv' has 'Age y'; all files must have the same "
       "names.$"),
      ("names in other spellings", {"a.csv": "Age y,z\n1,2\n", "b.csv": "Z,age_y\n1,2\n"}, {},
       "b.csv': it has a column 'age_y', and '.*a.csv' has 'Age y'; all files must have the same "
       "names; it has a column 'Z', and '.*a.csv' has 'z'.$"),
      ("a name with a unit", {"a.csv": "crp,z\n1,2\n", "b.csv": "crp (mg/dl),z\n1,2\n"}, {},
       "b.csv': it has a column 'crp .mg/dl.', and '.*a.csv' has 'crp'; all files must have the "
       "same names.$"),
      ("names with other units", {"a.csv": "z,crp [mg/l]\n1,2\n", "b.csv": "CRP (mg/dl),z\n1,2\n"},
       {}, "b.csv': it has a column 'CRP .mg/dl.', and '.*a.csv' has 'crp .mg/l.'; all files must "
       "have the same names.$"),
      ("a name that is all brackets", {"a.csv": "(a),z\n1,2\n", "b.csv": "(b),z\nu,2\nu,2\nv,3\n"},
       {}, "it has no column '.a.', .*Try: --exclude='.a.,.b.'$"),
      ("numbers that most have", {"a.csv": "x,y\n1,2\n", "b.csv": "x\n1\n", "c.csv": "x,y\n1,2\n"},
       {}, "b.csv': it has no column 'y', and '.*a.csv' has.$"),
      ("numbers that most have but the first",
       {"a.csv": "x\n1\n", "b.csv": "x,y\n1,2\n", "c.csv": "x,y\n1,2\n"},
       {}, "b.csv': it has a column 'y', and '.*a.csv' has none.$"),
      ("text that most have", {"a.csv": "x,y\n1,u\n", "b.csv": "x\n1\n", "c.csv": "x,y\n1,u\n"},
       {}, "b.csv': it has no column 'y', and '.*a.csv' has; --exclude .*Try: --exclude=y$"),
      ("ids that most have", {"a.csv": "x\n1\n", "b.csv": "x,id\n1,2\n", "c.csv": "x,id\n1,2\n"},
       {}, "b.csv': it has a column 'id', and '.*a.csv' has none; --exclude .*Try: --exclude=id$"),
      ("levels that most have",
       {"a.csv": "x,y\n1,2\n", "b.csv": "x\n1\n", "c.csv": "x,y\n1,2\n"}, {"categories": ("y",)},
       "b.csv': it has no column 'y', and '.*a.csv' has; .*Try: --exclude=y"),
      ("numbers by another name", {"a.csv": "x,crp\n1,2\n", "b.csv": "x,c_react_prot\n1,2\n"}, {},
       "b.csv': it has no column 'crp', and '.*a.csv' has; it has a column 'c_react_prot', and "
       "[^;]* has none.$"),
      ("amounts below zero", {"a.csv": "x,y\n(1.50),1\n$ 2.5-,2\n($1.25),2\n4,4\n"}, {},
       "line 2, column 'x': '.1.50.' is not a number; where most cells of a column are numbers, "
       "the others must be so too or be empty, --client_[^T]*$"),
      ("a label in another spelling", {"a.csv": "x,y\n1,2\n", "b.csv": "x,Y\n1,2\n"},
       {"label_column": "y"}, "b.csv': it has a column 'Y', and '.*a.csv' has 'y'; all files"),
      ("a chosen column too few", {"a.csv": "x,y\n1,2\n", "b.csv": "x\n1\n"},
       {"columns": ("x", "y")}, "it has no column 'y', and '.*a.csv' has; .*Try: --columns=x$"),
      ("a label too few", {"a.csv": "x,y\n1,2\n", "b.csv": "x\n1\n"}, {"label_column": "y"},
       "b.csv': it has no column 'y', and '.*a.csv' has.$"),
      ("a column too many", {"a.csv": "x\n1\n", "b.csv": "x,y\n1,2\n"}, {},
       "b.csv': it has a column 'y', and .*a.csv' has none; .*Try: --exclude=y$"),
      ("arrays of other widths", {"a.npy": np.ones((2, 2)), "b.npy": np.ones((2, 3))}, {},
       "b.npy': it has a column 'column_3'"),
      ("an unknown column", {"a.csv": "x,y\n1,2\n"}, {"exclude": ("z",)},
       "`exclude` must name columns of the tables, got 'z'; .*a.csv' has x, y"),
      ("an unknown role", {"a.csv": "x,y\n1,2\n"}, {"label_column": "z"},
       "`label_column` must name"),
      ("nothing left", {"a.csv": "x,y\n1,2\n"}, {"exclude": ("x", "y")}, "no column is left"),
      ("no label", {"a.csv": "x,y\n1,2\n1,\n"}, {"label_column": "y"},
       "line 3, column 'y' is empty, and every row must have one"),
      ("no id", {"a.csv": "x,y\n1,2\n1,\n"}, {"id_column": "y", "missing": "mean"},
       "every row must"),
      ("another split", {"a.csv": "x,y\n1,train\n2,dev\n"}, {"split_column": "y"},
       "a.csv': line 3, column 'y' must be train or test, got 'dev'"),
      ("a title in one file",
       {"a.csv": '"","x","y"\n"1",1,2\n"2",1,2\n', "b.csv": "Ward\nn;x;y\n1;1;2\n2;1;2\n"}, {},
       "b.csv': line 1, 'Ward', looks like a title above the table; '[^;]*a.csv': line 1, ',x,y', "
       "looks like part of the table; remove the lines above the table where not all files have as "
       "many.$"),
      ("what may be a split", {"a.csv": "x,y,p\n1,2,Train\n2,2,test\n"}, {"label_column": "y"},
       "'p': 'Train' is not a number; --split_column=p says .*Try: --split_column=p$"),
      ("a split beside text", {"a.csv": "x,y,p,q\n1,2,test,u\n2,2,test,v\n",
                               "b.csv": "x,y,p,q\n1,2,train,u\n2,2,train,v\n"},
       {"label_column": "y"}, "Try: --categories=q --split_column=p$"),
      ("a split where there is none", {"a.csv": "x,y,p\n1,2,train\n2,2,test\n"}, {},
       "Try: --exclude=p$"),
      ("no row for testing", {"a.csv": "x,y,p\n1,2,train\n2,2,train\n"}, {"label_column": "y"},
       "Try: --categories=p$"),
      ("no split in all files", {"a.csv": "x,y,p\n1,2,train\n2,2,test\n",
                                 "b.csv": "x,y,p\n1,2,train\n2,2,dev\n"},
       {"label_column": "y"}, "Try: --categories=p$"),
      ("a second split", {"a.csv": "x,y,p,q\n1,2,test,test\n2,2,test,train\n"},
       {"label_column": "y", "split_column": "p"}, "Try: --exclude=q$"),
      ("a split among chosen columns", {"a.csv": "x,y,p\n1,2,train\n2,2,test\n"},
       {"label_column": "y", "columns": ("x", "p")}, "Try: --columns=x$"),
      ("all missing", {"a.csv": "x,y\n1,\n2,NA\n"}, {"missing": "mean"},
       "a.csv': column 'y' is empty everywhere; .*Try: --exclude=y$"),
      ("no text", {"a.csv": b"x,y\n1,caf\x81\n"}, {},
       "a.csv': it is no text in UTF-8, nor in cp1252; --encoding names another one"),
      ("no text below", {"a.csv": b"x,y\n" + b"1,c\n" * 9999 + b"1,caf\x81\n"},
       {"categories": ("y",)}, "a.csv': it is no text in UTF-8, nor in cp1252"),
      ("another encoding", {"a.csv": b"x,y\n1,caf\xe9\n"}, {"encoding": "utf-8"},
       "a.csv': it is no text in utf-8, the encoding"),
      ("no gzip", {"a.csv.gz": b"x,y\n1,2\n"}, {}, "a.csv.gz': it can't be read as a table"),
      ("half a gzip", {"a.csv.gz": gzip.compress(b"x,y\n1,2\n" * 99)[:-9]}, {},
       "a.csv.gz': it can't be read"),
      ("no parquet", {"a.parquet": b"x"}, {}, "a.parquet': it can't be read as Parquet"),
      ("text in parquet",
       {"a.parquet": pd.DataFrame({"x": [1, 2], "y": ["u", "v"], "z": ["1", "w"]})}, {},
       "a.parquet': row 1, column 'y': 'u' is not a number .also 'z'.; .*Try: --categories=y,z$"),
      ("text after numbers in parquet", {"a.parquet": pd.DataFrame({"x": ["1", None, "u"]})}, {},
       "a.parquet': row 3, column 'x': 'u' is not a number"),
      ("durations in parquet", {"a.parquet": pd.DataFrame({"x": pd.to_timedelta([1, 2], "h")})}, {},
       "a.parquet': row 1, column 'x': '.*1:00:00' is not a number; --categories"),
      ("nan in parquet", {"a.parquet": pd.DataFrame({"x": [1, np.nan]})}, {},
       "a.parquet': row 2, column 'x' is empty"),
      ("no npy", {"a.npy": "text"[:0] + "x"}, {}, "a.npy': it can't be read as an array"),
      ("three axes", {"a.npy": np.ones((3, 2, 1))}, {}, "a.npy': it must hold one matrix"),
      ("vectors of other lengths", {"a.npz": {"x": np.ones(3), "y": np.ones(2)}}, {},
       "a.npz': its vectors, which are columns, must have the same length"),
      ("no rows in an array", {"a.npy": np.ones((0, 3))}, {}, "a.npy': it has no rows"),
      ("no columns in an array", {"a.npy": np.ones((3, 0))}, {}, "a.npy': it has no columns"),
      ("no rows of text", {"a.npz": {"x": np.array([], str)}}, {}, "a.npz': it has no rows"),
      ("text in an array", {"a.npy": np.array([["u"]])}, {}, "'u' is not a number"),
  )
  def test_refuses(self, files, options, message):
    files = {
        name: content.encode() if name.endswith(".npy") and isinstance(content, str) else content
        for name, content in files.items()
    }
    with self.assertRaisesRegex(ValueError, message) as caught:
      self.open(files, **options)
    self.assertNotIn("\n", str(caught.exception))

  @parameterized.parameters(({}, 1e5, 1.5e5), ({"client_column": "y"}, 1.5e5, 2.5e5))
  def test_more_than_memory(self, options, too_little, enough):
    files = {name: "x,y\n" + "1,2\n" * 12_500 for name in ("a.csv", "b.csv")}
    for available in (too_little, enough):
      memory = mock.Mock(available=available)
      with mock.patch.object(psutil, "virtual_memory", return_value=memory):
        if available == enough:
          self.open(files, **options)
          continue
        with self.assertRaisesRegex(
            ValueError, "`data_dir` must hold tables that fit into memory, of which 0.0 GB"
        ):
          self.open(files, **options)

  def test_no_folder(self):
    with self.assertRaisesRegex(ValueError, "`data_dir` must be a folder, got '/no/such/folder'"):
      client_tables.open_folder("/no/such/folder", table_options.TableOptions())


def _with_notes(notes, is_first=False, separator=","):
  """Returns a table with a column of notes, and the numbers of a row, which follow no other."""
  rows = [("note", ["x", "y"]), *((note, [i, 5 * i + 0.5]) for i, note in enumerate(notes))]
  table = [[note, *numbers] if is_first else [*numbers, note] for note, numbers in rows]
  return "".join(separator.join(map(str, row)) + "\n" for row in table)


class QuotesTest(folders.TablesTestCase):
  """Quotes that open a cell and seem to swallow rows, and cells of several lines."""

  FINE = ["fine"] * 3
  STRAY = {
      "no other quote": ([*FINE, '"wide', *FINE], "no quote closes it"),
      "an inch in a later row": ([*FINE, '"wide', *FINE, '3"', *FINE], "the lines up to 9 in it "),
      "an inch in the next row": ([*FINE, '"wide', '3"', *FINE], "the lines up to 6 in it look"),
      "lone quotes": ([*FINE, '"', *FINE, '"', *FINE], "the lines up to 9 in it look like rows"),
      "a quoted cell below":
          ([*FINE, '"wide', *FINE, '"a, b"', *FINE], "line 9 goes on after the quote that closes"),
      "two inches": ([*FINE, '"wide', *FINE, '"3" tube"', *FINE], "line 9 goes on after the quote"),
  }

  @parameterized.product(case=list(STRAY), is_first=(False, True), separator=(",", "\t"))
  def test_a_quote_that_swallows_rows(self, case, is_first, separator):
    notes, message = self.STRAY[case]
    files = {"a.csv": _with_notes(["fine"]), "b.csv": _with_notes(notes, is_first, separator)}
    for options in ({"exclude": ("note",)}, {"categories": ("note",)}):
      with self.assertRaisesRegex(
          ValueError, f"b.csv': line 5: a quote opens a cell, and {message}"
      ) as caught:
        self.open(files, **options)
      self.assertNotIn("Try:", str(caught.exception))

  @parameterized.named_parameters(
      ("far below", ["fine"] * 40, ["fine"] * 40), ("in a large file", ["fine"], ["fine"] * 40_000)
  )
  def test_the_line_of_a_quote(self, above, below):
    with self.assertRaisesRegex(ValueError, f"line {len(above) + 2}: a quote opens .*no quote clo"):
      self.open({"a.csv": _with_notes([*above, '"wide', *below])}, exclude=("note",))

  @parameterized.parameters("Main Street 4\n2333, Leiden", "first:\n5, aspirin\n10, ibuprofen")
  def test_text_with_as_many_commas_as_a_row(self, note):
    files = {"a.csv": f'age,note\n30,"{note}"\n40,x\n'}
    self.assert_features(self.open(files, exclude=("note",)), {"a": [[30], [40]]})

  def test_in_rows_of_text(self):
    rows = ["c,d,e", "u,v,w", 'u,"v,w', *["u,v,w"] * 3, 'u,v",w', "u,v,w"]
    with self.assertRaisesRegex(ValueError, "line 3: a quote opens a cell, and the lines up to 7"):
      self.open({"a.csv": folders.lines(*rows)}, categories=("c", "d", "e"))

  def test_in_the_line_of_names(self):
    with self.assertRaisesRegex(ValueError, "line 1: a quote opens a cell, and no quote closes it"):
      self.open({"a.csv": 'x,"y\n1,2\n3,4\n'})

  def test_in_files_that_a_model_is_used_on(self):
    format_ = self.open({"a.csv": "x,y\n1,2\n3,4\n"}).format
    for skips in (False, True):
      with self.assertRaisesRegex(ValueError, "line 3: a quote opens a cell, and no quote closes"):
        self.open_later(
            format_, {"b.csv": 'x,y,note\n1,2,\n1,2,"wide\n3,4,\n5,6,\n'}, skip_bad_rows=skips
        )

  @parameterized.product(
      note=(
          '"Main Street 5\nLeiden"', '"Main Street 5\n\nLeiden, NL, Europe\n"', '"1, 2\n3, 4"',
          '"5, 3\n6, 2, then 4\nfine"', '"he said ""no""\n, and ""yes"""', '""', '"3"" tube"',
          '3" tube', '"a, b\r\nc, d, e"', ' "fine"', 'wide"', '"\n"', '"7\n8,,"', '"a\nb" ',
          '"a\n""b"',
      ),
      is_first=(False, True), separator=(",", ";"),
  )
  def test_cells_that_are_read_as_they_stand(self, note, is_first, separator):
    notes = ["fine", note, "fine", note, note]
    tables = self.open({"a.csv": _with_notes(notes, is_first, separator)}, exclude=("note",))
    self.assert_features(tables, {"a": [[i, 5 * i + 0.5] for i in range(5)]})

  def test_cells_of_several_lines_that_are_all_quoted(self):
    text = '"x","y","note"\n' + '"1","2","a\n1,2,3\nb"\n"3","4","c, d"\n\n' * 3
    tables = self.open({"a.csv": text}, exclude=("note",))
    self.assert_features(tables, {"a": [[1, 2], [3, 4]] * 3})


class AllAtOnceTest(folders.TablesTestCase):
  """A message says all that is wrong, and the flags that it ends with work."""

  @parameterized.named_parameters(
      ("ids, text and missing cells",
       {"a.csv": "id;sex;age;sick\n1;f;30;no\n2;m;;yes\n", "b.csv": "id;sex;age;sick\n1;f;3;no\n"},
       {"label_column": "sick"},
       "a.csv': column 1, 'id', looks like the rows' ids; line 2, column 'sex': 'f' is not a "
       "number; line 3, column 'age' is empty; --id_column=id .*--exclude.*--categories.*"
       "--missing=",
       {"exclude": ("id",), "categories": ("sex",), "missing": "mean"}, ("sex=f", "sex=m", "age")),
      ("further flags go with those that are given",
       {"a.csv": "u,v,s,x\n1,a,b,1\n1,a,b,\n"}, {"exclude": ("u",), "categories": ("v",)},
       "", {"categories": ("v", "s"), "missing": "mean"}, ("v=a", "s=b", "x")),
      ("chosen columns", {"a.csv": "x,y,z\n1,,3\n2,,4\n"},
       {"columns": ("x", "y"), "missing": "mean"}, "", {"columns": ("x",)}, ("x",)),
      ("a column of levels that one file lacks", {"a.csv": "x,c\n1,u\n", "b.csv": "x\n2\n"},
       {"categories": ("c",)}, "", {"exclude": ("c",), "categories": ()}, ("x",)),
      ("names and dates are no levels",
       {"a.csv": folders.lines(
           "name,day,x", *(f"n{i},2021-01-{i % 28:02},{i}" for i in range(50)))}, {}, "",
       {"exclude": ("name", "day")}, ("x",)),
      ("something has to be left", {"a.csv": "id,name\n1,u\n2,v\n3,w\n"}, {}, "",
       {"exclude": ("id",), "categories": ("name",)}, ("name=u", "name=v", "name=w")),
      ("other columns in every file",
       {"a.csv": "x,y,z\n1,a,b\n", "b.csv": "x,y,u\n1,a,b\n", "c.csv": "x,z,v\n1,a,b\n"}, {},
       "b.csv': it has no column 'z', and '.*a.csv' has;",
       {"exclude": ("z", "y", "u", "v")}, ("x",)),
      ("text in other columns of other files",
       {"a.csv": "x,y\nt,2\nu,3\n", "b.csv": "x,y\n1,v\n2,w\n"}, {},
       "a.csv': line 2, column 'x': .*b.csv': line 2, column 'y':", {"categories": ("x", "y")},
       ("x=1", "x=2", "x=t", "x=u", "y=2", "y=3", "y=v", "y=w")),
      ("decimal commas after text",
       {"a.csv": "c;x;y\nu;1,5;\nu;2;3,5\n"}, {}, "column 'c': 'u' .*column 'y' is empty",
       {"categories": ("c",), "missing": "mean"}, ("c=u", "x", "y")),
      ("commas between thousands after text",
       {"a.csv": 'c,x,y\nu,"1,234.5",1\nu,"2",2\n'}, {}, "",
       {"thousands": ",", "categories": ("c",)}, ("c=u", "x", "y")),
      ("no levels where names are secret", {"a.csv": "c,x,y\nu,,1\nu,2,inf\n"},
       {"allow_any_number": True}, "", {"exclude": ("c",)}, ("x", "y")),
      ("nothing but empty cells",
       {"a.csv": "x,y,z\n1,,\n2,,\n", "b.csv": "x,y,z\n1,,\n"}, {},
       "line 2, column 'y' is empty .also 'z'.; column 'y' is empty everywhere",
       {"exclude": ("y", "z"), "missing": "mean"}, ("x",)),
      ("text in frames", {"a.parquet": pd.DataFrame({"id": [1, 2], "c": ["u", None], "x": 3})}, {},
       "", {"exclude": ("id",), "categories": ("c",), "missing": "mean"}, ("c=u", "x")),
      ("names that are partly numbers",
       {"a.csv": "name,2020\nu,1\n", "b.csv": "name,2020,2021\nv,1,2\n"}, {},
       "numbers and text.*'2021'.*column 'name'",
       {"header": "yes", "exclude": ("2021",), "categories": ("name",)},
       ("name=u", "name=v", "2020")),
      ("rows of numbers and text", {"a.csv": "u,1\nu,2\n", "b.csv": "u,3\nu,4\n"}, {}, "",
       {"header": "no", "categories": ("column_1",)}, ("column_1=u", "column_2")),
      ("several clients in a table", {"a.csv": "who,id,x\na,1,5\nb,2,\n"},
       {"client_column": "who"}, "", {"exclude": ("id",), "missing": "mean"}, ("x",)),
      ("clients and text in a table", {"a.csv": "Hospital,c,x\na,1,5\nb,u,\n"}, {},
       "column 1, 'Hospital', looks like the clients' names; ",
       {"client_column": "Hospital", "categories": ("c",), "missing": "mean"},
       ("c=1", "c=u", "x")),
      ("numbers of patients", {"a.csv": "patient_no,x\n4,5\n"}, {}, "",
       {"exclude": ("patient_no",)}, ("x",)),
  )
  def test_the_second_try_works(self, files, options, message, advised, features):
    with self.assertRaisesRegex(ValueError, message) as caught:
      self.open(files, **options)
    self.assertEqual(folders.advised(str(caught.exception)), advised)
    tables = self.open(files, **{**options, **advised})
    self.assertEqual(tables.feature_names, features)

  def test_what_no_flag_helps_with_is_said_too(self):
    with self.assertRaisesRegex(
        ValueError,
        "a.csv': line 2, column 'c': 'u' .*b.csv': it has no rows.*; .*c.csv': line 2, column 'y' "
        "is empty, and every row must have one; [^T]*$",
    ) as caught:
      self.open(
          {"a.csv": "c,y\nu,1\nu,2\n", "b.csv": "c,y\n", "c.csv": "c,y\nu,\n"},
          label_column="y",
      )
    self.assertLen(re.findall("it has no rows", str(caught.exception)), 1)

  def test_a_column_that_a_file_lacks_where_leaving_it_out_does_not_help(self):
    for files in (
        {"a.csv": "x\n1\n", "b.csv": "y\n2\n"},
        {"a.csv": "x,y\n1,2\n", "b.csv": "x\n2\n", "c.csv": "x,y\n"},
    ):
      with self.assertRaisesRegex(ValueError, "b.csv': it has no column '.', and") as caught:
        self.open(files)
      self.assertNotRegex(str(caught.exception), "Try:|--exclude")

  @parameterized.parameters(
      ("\nc,x\nu,1\nc, x\nv,2\n", {},
       "a.csv': line 4 repeats line 2, the columns' names; '.*b.csv': line 2, column 'c'"),
      ("c,x\nu,1\nc,x\nv,2\nc,x\n", {"categories": ("c",)},
       "lines 3, 5 repeat line 1, the columns' names.$"),
      ("c,x\nu,1\nc,x\nv,2\n", {"client_column": "c"}, "line 3 repeats line 1"),
  )
  def test_a_second_header(self, text, options, message):
    with self.assertRaisesRegex(ValueError, message):
      self.open({"a.csv": text, "b.csv": "x,c\n1,u\n"}, **options)

  def test_no_fault_is_said_twice(self):
    with self.assertRaisesRegex(
        ValueError, "line 2, column 'c': 'u' is not a number .also 'x'.; --categories [^;]*$"
    ) as caught:
      self.open({"a.csv": "c,x\nu,-\nv,2\nu,3\n"})
    self.assertNotIn("Try:", str(caught.exception))

  def test_all_unreadable_files(self):
    with self.assertRaisesRegex(ValueError, "a.csv': it is empty; '.*b.csv': it is no text"):
      self.open({"a.csv": "", "b.csv": b"caf\x81", "c.csv": "x\n1\n"})

  def test_files_of_other_kinds_hide_nothing(self):
    with self.assertRaisesRegex(
        ValueError, "got '.*a.docx': it is of no kind .*'.*b.md': it is .*'.*c.csv': column 1"
    ):
      self.open({"a.docx": "", "b.md": "", "c.csv": "id,x\n1,2\n"})

  def test_many_problems_are_counted(self):
    with self.assertRaises(ValueError) as caught:
      self.open({f"{i}.csv": "" for i in range(12)})
    self.assertLen(re.findall("it is empty", str(caught.exception)), 10)
    self.assertIn("; and 2 more problems.", str(caught.exception))

  @parameterized.parameters(({"a.csv": "id,x\n1,2\n"}, True),
                            ({"a.csv": "id,x\n1,2\n", "b.csv": "id,x\n1,2\n"}, False))
  def test_one_table_may_hold_several_clients(self, files, is_said):
    with self.assertRaisesRegex(ValueError, "looks like") as caught:
      self.open(files)
    self.assertEqual("--client_column says whose row it is" in str(caught.exception), is_said)

  @parameterized.parameters(
      {"exclude": ("site",)}, {"categories": ("site",)}, {"columns": ("x", "site")},
      {"label_column": "site"},
  )
  def test_one_client_with_a_column_like_clients(self, **options):
    self.assertEqual(self.open({"a.csv": "site,x\n1,2\n"}, **options).client_ids, ("a",))

  def test_a_cell_in_one_of_several_files_of_several_clients(self):
    rows = "who,x,part\nu,1,train\n"
    with self.assertRaisesRegex(
        ValueError, "b.csv': line 3, column 'part' must be train or test, got 'trial'"
    ):
      self.open(
          {"a.csv": rows, "b.csv": f"{rows}u,1,trial\n"}, client_column="who",
          split_column="part",
      )

  def test_no_rows_of_several_clients(self):
    with self.assertRaisesRegex(ValueError, "a.csv': it has no rows"):
      self.open({"a.csv": "x,who\n"}, client_column="who")


if __name__ == "__main__":
  absltest.main()
