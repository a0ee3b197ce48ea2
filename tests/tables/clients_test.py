"""Tests for fl_clustering.tables.clients and views."""

import csv
import gzip
import hashlib
import os

from absl.testing import absltest
from absl.testing import parameterized
import numpy as np
import pandas as pd

from fl_clustering.tables import bad_table
from fl_clustering.tables import clients as clients_lib
from fl_clustering.tables import encode
from fl_clustering.tables import schema as schema_lib
from fl_clustering.tables import views as views_lib

_NUMBERS = schema_lib.strict(("x", "y"))


class ClientsTest(parameterized.TestCase):

  def setUp(self):
    super().setUp()
    self.folder = self.create_tempdir().full_path

  def _write(self, name, text):
    with open(os.path.join(self.folder, name), "wb") as file:
      file.write(text.encode() if isinstance(text, str) else text)

  def test_a_file_per_client(self):
    self._write("south.csv", "y,x\n1,2\n")
    self._write("north.csv.gz", gzip.compress(b"x,y\n3,4\n5,6\n"))
    pd.DataFrame({"x": [7.0], "y": [8.0]}).to_parquet(os.path.join(self.folder, "a.b.parquet"))
    self._write(".hidden", "")
    clients = clients_lib.open_folder(self.folder, _NUMBERS)
    self.assertEqual(list(clients), ["a.b", "north", "south"])
    self.assertLen(clients, 3)
    np.testing.assert_array_equal(clients["south"], [[2, 1]])
    np.testing.assert_array_equal(clients["north"], [[3, 4], [5, 6]])
    self.assertNotIn("west", clients)
    before = clients.digests()
    self.assertEqual(clients_lib.open_folder(self.folder, _NUMBERS).digests(), before)
    self._write("south.csv", "x,y\n2,1\n")
    changed = [name for name, digest in clients.digests().items() if digest != before[name]]
    self.assertEqual(changed, ["south"])

  def test_a_digest_is_of_the_whole_file(self):
    content = bytes(2**21) + b"x"
    self._write("large", content)
    found = clients_lib.digests({"one": os.path.join(self.folder, "large")})
    self.assertEqual(found, {"one": hashlib.sha256(content).hexdigest()})

  def test_a_column_for_the_client(self):
    schema = schema_lib.strict(("x", "who"), client="who")
    self._write("a.csv", "x,who\n1,west\n2,east\n3,west\n")
    self._write("b.csv", "who,x\neast,4\n")
    clients = clients_lib.open_folder(self.folder, schema)
    self.assertEqual({c: list(table["x"]) for c, table in clients.items()},
                     {"east": [2, 4], "west": [1, 3]})
    # Places in both files together.
    np.testing.assert_array_equal(clients["east"].index, [1, 3])
    np.testing.assert_array_equal(clients["west"].index, [0, 2])
    self.assertEqual(clients.num_rows, {"east": 2, "west": 2})

  @parameterized.parameters(
      ("south", "south "), ("Z\u00fcrich", "Zu\u0308rich"), ("1", "1.0"), ("X", "X\u200b"),
      ("00e1", "00e7"), ("1_12", "11_2"), ("yes", "Yes"),
  )
  def test_texts_are_taken_as_they_are(self, *names):
    for name in names:
      self._write(f"{name}.csv", f"x,y\n1,{name}\n")
    by_file = clients_lib.open_folder(self.folder, schema_lib.strict(("x", "y"), label="y"))
    self.assertCountEqual(by_file, names)
    self.assertCountEqual(by_file.classes(), names)
    schema = schema_lib.strict(("x", "y"), client="y")
    self.assertCountEqual(clients_lib.open_folder(self.folder, schema), names)

  @parameterized.parameters("more", "b.csv")
  def test_refuses_a_folder_beside_files(self, name):
    self._write("a.csv", "x,y\n1,2\n")
    os.mkdir(os.path.join(self.folder, ".hidden"))
    clients_lib.open_folder(self.folder, _NUMBERS)
    os.mkdir(os.path.join(self.folder, name))
    with self.assertRaisesRegex(ValueError, name):
      clients_lib.open_folder(self.folder, _NUMBERS)

  def test_classes(self):
    self._write("a.csv", "x,y\n1,10\n2,9\n")
    self._write("b.csv", "x,y\n1,ill\n2,1_1\n")
    clients = clients_lib.open_folder(self.folder, schema_lib.strict(("x", "y"), label="y"))
    self.assertEqual(clients.classes(), ("9", "10", "1_1", "ill"))

  def test_private_rows_of_no_client_are_left_out(self):
    schema = schema_lib.Schema(
        (schema_lib.Field("x", minimum=0, maximum=4), schema_lib.Field("who", "string")),
        client="who",
    )
    self._write("a.csv", "x,who\n9,west\n2,\n3\n")
    clients = clients_lib.open_folder(self.folder, schema, private=True)
    self.assertEqual(list(clients), ["west"])
    np.testing.assert_array_equal(encode.private_features(clients["west"], schema), [[1]])

  @parameterized.parameters(
      ("a.txt", "x,y\n1,2\n"), ("a.csv.gz", gzip.compress(b"x,y\n1,2\n")), ("b.csv", "x,y\n"),
      ("b.csv", "x,y\n1,?\n"),
  )
  def test_refuses(self, name, text):
    self._write("a.csv", "x,y\n1,2\n")
    clients_lib.open_folder(self.folder, _NUMBERS)
    self._write(name, text)
    with self.assertRaisesRegex(ValueError, name[0]):
      clients_lib.open_folder(self.folder, _NUMBERS)

  def test_refuses_folders(self):
    for folder in (self.folder, os.path.join(self.folder, "none")):
      with self.assertRaisesRegex(ValueError, "`data_dir`.*" + folder):
        clients_lib.open_folder(folder, _NUMBERS)

  def test_private_folders_are_not_read_when_they_are_opened(self):
    schema = schema_lib.Schema((schema_lib.Field("x", minimum=0, maximum=4),))
    self._write("a.csv", "x\n")
    self.assertEmpty(clients_lib.open_folder(self.folder, schema, private=True)["a"])
    with self.assertRaisesRegex(ValueError, "x"):
      clients_lib.open_folder(self.folder, schema_lib.strict(("x",)), private=True)
    for name in ("a.csv", "a.npz"):
      for unreadable in ("y\n1\n", "", b"\xff"):
        self._write(name, unreadable)
        self.assertEmpty(clients_lib.open_folder(self.folder, schema, private=True)["a"])
      os.remove(os.path.join(self.folder, name))

  def test_private_tables_that_clients_share_must_be_readable(self):
    schema = schema_lib.Schema(
        (schema_lib.Field("x", minimum=0, maximum=4), schema_lib.Field("who", "string")),
        client="who",
    )
    self._write("a.csv", "x\n1\n")
    with self.assertRaises(bad_table.BadTable):
      list(clients_lib.open_folder(self.folder, schema, private=True))

  def test_a_private_record_of_several_lines_joins_no_view_otherwise(self):
    schemas = {
        view: schema_lib.Schema((schema_lib.Field(column, minimum=0, maximum=9),))
        for view, column in (("lab", "x"), ("ward", "y"))
    }
    records = [(1, 2, "ok"), (3, 4, 'a\nb,\r\n"c'), (5, 6, "\n"), (7, 8, "ok")]

    def rows_of(records):
      for view, header, cells in (("lab", "x,id", (0,)), ("ward", "y,note", (1, 2))):
        os.makedirs(os.path.join(self.folder, "site"), exist_ok=True)
        with open(
            os.path.join(self.folder, "site", f"{view}.csv"), "w", newline="", encoding="utf-8"
        ) as file:
          file.write(f"{header}\n")
          csv.writer(file).writerows([*(record[i] for i in cells), *[""] * (2 - len(cells))]
                                     for record in records)
      tables = views_lib.open_folder(self.folder, schemas, private=True)["site"]
      return np.concatenate([tables[view] for view in schemas], axis=1).tolist()

    for place in range(4):
      others = [*records[:place], *records[place + 1 :]]
      self.assertEqual(rows_of(others), [list(record[:2]) for record in others])


if __name__ == "__main__":
  absltest.main()
