import csv
import dataclasses
import gzip
import hashlib
import os
from unittest import mock

from absl.testing import parameterized
import numpy as np
import pandas as pd

from fl_clustering.tables import bad_table
from fl_clustering.tables import folder as folder_lib
from fl_clustering.tables import read
from fl_clustering.tables import saved
from fl_clustering.tables import schema as schema_lib
from fl_clustering.tables import views

_NUMBERS = schema_lib.strict(("x", "y"))
_BOUNDED = schema_lib.Field("x", minimum=0, maximum=4)


class _TestCase(parameterized.TestCase):

  def setUp(self):
    super().setUp()
    self.folder = self.create_tempdir().full_path

  def _write(self, name, text):
    path = os.path.join(self.folder, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
      file.write(text.encode() if isinstance(text, str) else text)


class TablesTest(_TestCase):

  def _open(self, schema=_NUMBERS, **options):
    return folder_lib.open_folder(self.folder, {schema_lib.NO_VIEW: schema}, **options)

  def test_a_file_per_client(self):
    self._write("south.csv", "y,x\n1,2\n")
    self._write("north.csv.gz", gzip.compress(b"x,y\n3,4\n5,6\n"))
    pd.DataFrame({"x": [7.0], "y": [8.0]}).to_parquet(os.path.join(self.folder, "a.b.parquet"))
    self._write(".hidden", "")
    folder = self._open()
    self.assertEqual(list(folder), ["a.b", "north", "south"])
    self.assertLen(folder, 3)
    np.testing.assert_array_equal(folder["south"].features, [[2, 1]])
    np.testing.assert_array_equal(folder["north"].features, [[3, 4], [5, 6]])
    self.assertNotIn("west", folder)

  def test_missing_cells_are_counted_by_their_columns(self):
    schema = schema_lib.Schema((
        schema_lib.Field("c", "string", enum=("u", "v", "w")), schema_lib.Field("x"),
        schema_lib.Field("n"),
    ), missing="mean")
    self._write("a.csv", "c,x,n\nu,,1\nv,,2\n,3,4\n")
    self.assertEqual(self._open(schema).missing, {"c": 1, "x": 2})

  @parameterized.parameters("a.csv", "a.csv.gz", "a.parquet", "a.npz")
  def test_a_digest_is_of_the_whole_file(self, name):
    path = os.path.join(self.folder, name)
    if name == "a.parquet":
      pd.DataFrame({"x0": [7.0]}).to_parquet(path)
    elif name == "a.npz":
      np.savez(path, x=[[7.0]])
    else:
      text = b"x0\n" + b"7\n" * 2**20
      self._write(name, text if name == "a.csv" else gzip.compress(text) + gzip.compress(text[3:]))
    with open(path, "rb") as file:
      expected = hashlib.sha256(file.read()).hexdigest()
    folder = self._open(schema_lib.Schema((schema_lib.Field("x0", minimum=0, maximum=9),)))
    self.assertEqual(folder.digests, {"a": expected})

  @parameterized.parameters((None,), ("who",))
  def test_a_file_is_read_once(self, client):
    columns = {"x": [1.0, 2.0, 4.0], "y": ["u", "v", "u"], "who": ["east", "west", "east"]}
    frame = pd.DataFrame(columns)
    frame.to_csv(os.path.join(self.folder, "a.csv"), index=False)
    frame.to_csv(os.path.join(self.folder, "b.csv.gz"), index=False)
    schema = schema_lib.strict(tuple(columns), label="y", client="who")
    schema = schema if client else schema.without("client")
    with mock.patch.object(read, "_opened", wraps=read._opened) as opened:
      folder = self._open(schema)
      kept = saved.SavedTables.exact(folder.schemas, folder.means)
      self.assertEqual((folder.classes(), folder.missing), (("u", "v"), {}))
      self.assertLen(folder.digests, 2)
      folder.scale(kept.features)
      rows = {client_id: rows.features.tolist() for client_id, rows in folder.items()}
    self.assertEqual(rows, {"east": [[1], [4]] * 2, "west": [[2]] * 2} if client else
                     {"a": [[1], [2], [4]], "b": [[1], [2], [4]]})
    self.assertEqual(
        [os.path.basename(call.args[0]) for call in opened.call_args_list], ["a.csv", "b.csv.gz"]
    )

  @parameterized.parameters((None,), ("who",))
  def test_scaling_is_of_all_features_where_they_are(self, client):
    schema = schema_lib.Schema(
        (schema_lib.Field("x"), schema_lib.Field("c", "string", enum=("u", "v")),
         *([schema_lib.Field("who", "string")] if client else [])), client=client, missing="mean",
    )
    self._write("a.csv", "x,c,who\n1,u,east\n,v,west\n5,,east\n")
    self._write("b.csv", "x,c,who\n6,v,west\n")
    folder = self._open(schema)
    self.assertEqual(folder.missing, {"x": 1, "c": 1})
    means = np.array([4, 1 / 3, 2 / 3])
    np.testing.assert_allclose(folder.means, means)
    expected = {"east": [[1, 1, 0], [5, *means[1:]]], "west": [[4, 0, 1], [6, 0, 1]]}
    if not client:
      expected = {"a": [[1, 1, 0], [4, 0, 1], [5, *means[1:]]], "b": [[6, 0, 1]]}
    with mock.patch.object(folder_lib, "_BLOCK_CELLS", 4):
      folder.scale(saved.SavedTables.exact(folder.schemas, folder.means).features)
      folder.scale(lambda features: 2 * features)
    for client_id, features in expected.items():
      np.testing.assert_allclose(folder[client_id].features, 2 * np.array(features))

  def test_clients_are_in_the_order_of_their_numbers(self):
    for name in ("site_10", "site_2"):
      self._write(f"{name}.csv", "x,y\n1,site_10\n2,site_2\n")
    for schema in (schema_lib.strict(("x",)), schema_lib.strict(("x", "y"), client="y")):
      self.assertEqual(list(self._open(schema)), ["site_2", "site_10"])

  def test_a_column_for_the_client(self):
    schema = schema_lib.strict(("x", "who"), client="who")
    self._write("a.csv", "x,who\n1,west\n2,east\n3,west\n")
    self._write("b.csv", "who,x\neast,4\n")
    folder = self._open(schema)
    self.assertEqual({c: rows.features[:, 0].tolist() for c, rows in folder.items()},
                     {"east": [2, 4], "west": [1, 3]})
    # Places in both files together.
    np.testing.assert_array_equal(folder["east"].places, [1, 3])
    self.assertTrue(np.shares_memory(folder["east"].features, folder["east"].features))
    self.assertEqual(folder.row_names("west"), {"row": [1, 3]})
    self.assertEqual(folder.num_rows, {"east": 2, "west": 2})

  @parameterized.parameters(
      ("south", "south "), ("Z\u00fcrich", "Zu\u0308rich"), ("1", "1.0"), ("X", "X\u200b"),
      ("00e1", "00e7"), ("1_12", "11_2"), ("yes", "Yes"),
  )
  def test_texts_are_taken_as_they_are(self, *names):
    for name in names:
      self._write(f"{name}.csv", f"x,y\n1,{name}\n")
    by_file = self._open(schema_lib.strict(("x", "y"), label="y"))
    self.assertCountEqual(by_file, names)
    self.assertCountEqual(by_file.classes(), names)
    self.assertCountEqual(self._open(schema_lib.strict(("x", "y"), client="y")), names)

  @parameterized.parameters("more", "b.csv")
  def test_refuses_a_folder_beside_files(self, name):
    self._write("a.csv", "x,y\n1,2\n")
    os.mkdir(os.path.join(self.folder, ".hidden"))
    self._open()
    os.mkdir(os.path.join(self.folder, name))
    with self.assertRaisesRegex(ValueError, name):
      self._open()

  def test_classes(self):
    self._write("a.csv", "x,y\n1,10\n2,9\n")
    self._write("b.csv", "x,y\n1,ill\n2,1_1\n")
    folder = self._open(schema_lib.strict(("x", "y"), label="y"))
    self.assertEqual(folder.classes(), ("9", "10", "1_1", "ill"))

  def test_later_rows_of_a_private_model_are_moved_into_the_bounds(self):
    self._write("a.csv", "x\n1\n")
    schema = schema_lib.Schema((_BOUNDED,))
    kept = saved.SavedTables.private(self._open(schema, private=True).schemas)
    found = kept.features_of_frames(pd.DataFrame({"x": [9.0, 4.0, -1.0, 0.0, np.nan, 2.0]}))
    np.testing.assert_array_equal(found[::2], found[1::2])

  def test_labels_of_later_rows_are_found_by_the_delimiter(self):
    schema = dataclasses.replace(schema_lib.strict(("x", "y"), label="y"), delimiter=";")
    self._write("a.csv", "x;y\n1;u\n")
    kept = saved.SavedTables.exact(self._open(schema).schemas, np.zeros(1))
    self.assertEqual(kept.open_folder(self.folder)["a"].labels.tolist(), ["u"])
    self._write("a.csv", "x\n1\n")
    self.assertIsNone(kept.open_folder(self.folder)["a"].labels)

  def test_private_rows_of_no_client_are_left_out(self):
    schema = schema_lib.Schema((_BOUNDED, schema_lib.Field("who", "string")), client="who")
    self._write("a.csv", "x,who\n9,west\n2,\n3\n")
    folder = self._open(schema, private=True)
    self.assertEqual((list(folder), folder.digests), (["west"], {}))
    folder.scale(saved.SavedTables.private(folder.schemas).features)
    np.testing.assert_array_equal(folder["west"].features, [[1]])

  @parameterized.parameters(
      ("a.txt", "x,y\n1,2\n"), ("a.csv.gz", gzip.compress(b"x,y\n1,2\n")), ("b.csv", "x,y\n"),
      ("b.csv", "x,y\n1,?\n"),
  )
  def test_refuses(self, name, text):
    self._write("a.csv", "x,y\n1,2\n")
    self._open()
    self._write(name, text)
    with self.assertRaisesRegex(ValueError, name[0]):
      self._open()

  def test_refuses_folders(self):
    for folder in (self.folder, os.path.join(self.folder, "none")):
      for view in (schema_lib.NO_VIEW, "lab"):
        with self.assertRaisesRegex(ValueError, "`data_dir`.*" + folder):
          folder_lib.open_folder(folder, {view: _NUMBERS})

  def test_a_private_file_that_cant_be_read_has_no_rows(self):
    schema = schema_lib.Schema((_BOUNDED,))
    self._write("b.csv", "x\n3\n")
    damaged = gzip.compress(b"x\n" + b"1\n" * 10**6, 1)[:-9]
    for name, contents in (
        ("a.csv", ("x\n", "y\n1\n", "", b"\xff")), ("a.npz", ("", b"\xff")),
        ("a.csv.gz", ("", damaged)),
    ):
      for content in contents:
        self._write(name, content)
        folder = self._open(schema, private=True)
        self.assertEqual(folder.num_rows, {"a": 0, "b": 1})
        self.assertEqual(folder["a"].features.shape, (0, 1))
        np.testing.assert_array_equal(folder["b"].features, [[3]])
      os.remove(os.path.join(self.folder, name))

  def test_private_tables_that_clients_share_must_be_readable(self):
    schema = schema_lib.Schema((_BOUNDED, schema_lib.Field("who", "string")), client="who")
    self._write("a.csv", "x\n1\n")
    with self.assertRaises(bad_table.BadTable):
      self._open(schema, private=True)


class ViewsTest(_TestCase):

  def _write_view(self, client, view, header, rows):
    self._write(f"{client}/{view}.csv", "\n".join([header, *map(str, rows), ""]))

  def _write_clients(self, labels=None):
    for client, size in (("a", 3), ("b", 2)):
      self._write_view(client, "x", "u,v", [f"{size},{size}"] * size)
      self._write_view(client, "y", "w", [-size] * size)
      if labels is not None:
        self._write_view(client, "labels", "kind", labels[:size])

  def _open(self, **options):
    return folder_lib.open_folder(self.folder, views.strict(self.folder, True, **options))

  def _refused(self, where):
    return self.assertRaisesRegex(ValueError, where)

  def test_views_are_side_by_side(self):
    self._write_clients(["u", "w", "v"])
    folder = self._open()
    np.testing.assert_array_equal(folder["b"].features, [[2, 2, -2]] * 2)
    self.assertEqual((folder["b"].labels.tolist(), folder.classes()), (["u", "w"], ("u", "v", "w")))
    self.assertEqual(folder.num_rows, {"a": 3, "b": 2})
    self.assertCountEqual(
        folder.digests, [f"{client}/{view}" for client in "ab" for view in ("x", "y", "labels")]
    )

  def test_clients_are_in_the_order_of_their_numbers(self):
    for client in ("site_10", "site_2"):
      self._write_view(client, "x", "u", [1])
    self.assertEqual(list(self._open()), ["site_2", "site_10"])

  def test_rows_are_joined_by_their_key(self):
    labels = "key,kind", ["k2,two", "k3,three", "k1,one"]
    self._write_view("a", "x", "key,u", ["k1,1", "k2,2", "k3,3"])
    self._write_view("a", "y", "w,key", ["30,k3", "10,k1", "20,k2"])
    self._write_view("a", "labels", *labels)
    folder = self._open(key="key")
    np.testing.assert_array_equal(folder["a"].features, [[1, 10], [2, 20], [3, 30]])
    self.assertEqual(folder["a"].labels.tolist(), ["one", "two", "three"])
    self.assertEqual(folder.row_names("a"), {"row": [1, 2, 3], "id": ["k1", "k2", "k3"]})
    self._write_view("a", "labels", "kind", ["one", "two", "three"])
    with self._refused("labels.csv, line 1, column 'key'"):
      self._open(key="key")
    self._write_view("a", "labels", *labels)
    for rows in (["30,k3", "10,k1", "20,k4"], ["30,k3", "10,k1"], ["30,k3", "10,k1", "20,k1"]):
      self._write_view("a", "y", "w,key", rows)
      with self.assertRaises(bad_table.BadTable) as caught:
        self._open(key="key")
      self.assertIn("y.csv", caught.exception.path)

  @parameterized.parameters(
      ("b", "y", "w", [1, 2, 3], "b.*y.csv"), ("b", "z", "w", [1, 2], "'b'"),
      ("b", "y", "w", [1, "?"], "b.*y.csv, line 3, column 'w'"),
      ("b", "y", "u", [1, 2], "b.*y.csv, line 1, column 'u'"),
      ("b", "labels", "kind", [1, 2], "'b'"), ("b", "x", "u,v", [], "'b'|b.*csv"),
  )
  def test_refuses_clients_that_are_not_alike(self, client, view, header, rows, where):
    self._write_clients()
    self._open()
    self._write_view(client, view, header, rows)
    with self._refused(where):
      self._open()

  @parameterized.parameters(
      ("kind", ["u"], ""), ("kind,other", ["u,1"] * 3, ""), ("kind", ["u"] * 4, ""),
      ("kind", ["u", '""', "w"], ", line 3"),
  )
  def test_refuses_labels_but_of_later_rows(self, header, rows, where):
    self._write_clients(["u", "w", "v"])
    folder = self._open()
    kept = saved.SavedTables.exact(folder.schemas, folder.means)
    self._write_view("a", "labels", header, rows)
    with self._refused(f"a.*labels.csv{where}"):
      self._open()
    self.assertIsNone(kept.open_folder(self.folder)["a"].labels)

  def test_schemas(self):
    self._write_clients()
    schemas = views.strict(self.folder, True, exclude=["v"])
    self.assertEqual({view: one.feature_names for view, one in schemas.items()},
                     {"x": ("u",), "y": ("w",)})
    self.assertEqual(views.from_json(views.to_json(schemas)), schemas)
    backwards = {"resources": views.to_json(schemas)["resources"][::-1]}
    self.assertEqual(list(views.from_json(backwards)), ["x", "y"])
    fields = [{"name": "a", "type": "number"}, {"name": "b", "type": "string"}]
    for document in (
        {}, {"resources": []}, {"resources": [{"name": "x"}]}, {"resources": [], "title": "t"},
        {"resources": views.to_json(schemas)["resources"] * 2},
        {"resources": [{"name": "x", "schema": {"fields": fields, "label": "b"}}]},
        {"resources": [
            {"name": "x", "schema": {"fields": fields[:1]}},
            {"name": "y", "schema": {"fields": fields, "primaryKey": "b"}},
        ]},
    ):
      with self.assertRaises(ValueError):
        views.from_json(document)
    for options, name in (({"exclude": ["t"]}, "exclude"), ({"key": "t"}, "row_key")):
      with self._refused(name):
        views.strict(self.folder, True, **options)

  @parameterized.parameters(".csv", ".npz")
  def test_missing_cells_of_any_file_become_means_over_all_clients(self, kind):
    self._write_clients()
    self._write_view("a", "y", "x0", [-3] * 3)
    self._write_view("b", "y", "x0", ['""', -8])
    schemas = {
        view: dataclasses.replace(one, missing="mean")
        for view, one in views.strict(self.folder, True).items()
    }
    if kind == ".npz":
      os.remove(os.path.join(self.folder, "b", "y.csv"))
      np.savez(os.path.join(self.folder, "b", "y.npz"), x=np.array([[np.nan], [-8]]))
    folder = folder_lib.open_folder(self.folder, schemas)
    self.assertEqual(folder.missing, {"y: x0": 1})
    folder.scale(saved.SavedTables.exact(folder.schemas, folder.means).features)
    np.testing.assert_allclose(folder["b"].features[:, 2], [-17 / 4, -8])

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
      return folder_lib.open_folder(self.folder, schemas, private=True)["site"].features.tolist()

    for place in range(4):
      others = [*records[:place], *records[place + 1 :]]
      self.assertEqual(rows_of(others), [list(record[:2]) for record in others])
