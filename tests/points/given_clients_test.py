import os
import warnings

from absl.testing import parameterized
import numpy as np
import pandas as pd
import pyarrow as pa
from scipy import sparse
import sklearn

from fl_clustering.points import given_clients

_ROWS = [[1.0, 2.0], [3.0, 4.0]]
_ARRAY = np.array(_ROWS)
_GOOD = np.ones((3, 2))
# Rows of which the second one lacks its first number.
_MASK = [[False, False], [True, False]]
_MASKED = (
    ("floats", np.ma.array([[1.0, 2.0], [3.0, 4.0]], mask=_MASK)),
    ("integers", np.ma.array([[1, 2], [3, 4]], mask=_MASK)),
    ("a list of rows", [np.array([1, 2]), np.ma.array([3, 4], mask=_MASK[1])]),
    ("a list of numbers", [[1.0, 2.0], [np.ma.masked, 4.0]]),
)


class ClientsOfTest(parameterized.TestCase):

  @parameterized.named_parameters(
      ("array", _ARRAY), ("vector", _ARRAY[0]), ("rows", _ROWS), ("arrays_as_rows", list(_ARRAY)),
      ("frame", pd.DataFrame(_ARRAY)), ("sparse", sparse.csr_matrix(_ARRAY)),
  )
  def test_one_table_is_one_client(self, table):
    clients = given_clients.clients_of(table)
    self.assertEqual(list(clients.by_id), [given_clients.ALONE])
    self.assertEqual(clients.label(given_clients.ALONE), "`clients`")
    self.assertEqual(clients.map(id), id(table))

  @parameterized.named_parameters(
      ("arrays", _ARRAY), ("rows", _ROWS), ("frames", pd.DataFrame(_ARRAY))
  )
  def test_a_list_has_many(self, table):
    clients = given_clients.clients_of([table] * 11, "X")
    self.assertEqual(list(clients.by_id), [str(index) for index in range(11)])
    self.assertEqual((clients.label("3"), clients.map(len)), ("`X`['3']", [2] * 11))

  def test_a_mapping_keeps_its_ids_and_their_order(self):
    clients = given_clients.clients_of({10: _ROWS, "b": _ROWS, 9: _ROWS[:1], np.int64(3): _ROWS})
    self.assertEqual(list(clients.by_id), [3, 9, 10, "b"])
    self.assertEqual(clients.map(len), {10: 2, "b": 2, 9: 1, 3: 2})
    self.assertEqual(list(clients.map(len)), [10, "b", 9, 3])
    self.assertEqual(clients.label(9), "`clients`[9]")

  @parameterized.parameters(
      ({}, ValueError), ([], ValueError), ({"7": _ROWS, 7: _ROWS}, ValueError),
      ({True: _ROWS}, TypeError), ({None: _ROWS}, TypeError), ({1.5: _ROWS}, TypeError),
      ("abc", TypeError), (3, TypeError),
  )
  def test_refuses(self, given, error):
    with self.assertRaisesRegex(error, "`X`"):
      given_clients.clients_of(given, "X")


def _checked(given, has_views=False, is_private=False):
  tables = given_clients.tables_of(given, has_views=has_views)
  points, widths = given_clients.points_of(tables, is_private)
  return points.by_id, widths


class AlignedTest(parameterized.TestCase):

  def test_the_first_client_by_id_gives_the_order(self):
    # This order is not its own inverse.
    frame = pd.DataFrame(np.arange(6).reshape(2, 3), columns=["a", "b", "c"])
    another = frame[["c", "a", "b"]]
    for other in (another, pa.table(another)):
      clients = given_clients.tables_of({2: other, 1: frame})
      arrays, names = given_clients.aligned(clients)
      self.assertEqual(names, [["a", "b", "c"]])
      for (array,) in arrays.by_id.values():
        np.testing.assert_array_equal(array, frame)

  def test_no_rows_need_no_names(self):
    clients = given_clients.tables_of([[], pd.DataFrame({"a": [1.0]}), np.zeros((0, 1))])
    _, names = given_clients.aligned(clients)
    self.assertEqual(names, [["a"]])

  def test_arrays_stay_and_tables_with_other_columns_or_none_are_refused(self):
    arrays, names = given_clients.aligned(given_clients.tables_of([_ARRAY, _ROWS]))
    self.assertEqual(names, [None])
    self.assertIs(arrays.by_id["0"][0], _ARRAY)
    frame = pd.DataFrame(_ARRAY, columns=["a", "b"])
    for other, missing in ((frame.rename(columns={"b": "c"}), "'b'"), (_ARRAY, "names")):
      with self.assertRaisesRegex(ValueError, rf"`clients`\[2\].*{missing}"):
        given_clients.aligned(given_clients.tables_of({1: frame, 2: other}))


class CheckedClientsTest(parameterized.TestCase):

  def test_every_client_keeps_a_copy_of_its_points_as_float64(self):
    points = _GOOD.copy()
    checked, _ = _checked({"b": points, "a": [[1, 2]]})
    np.testing.assert_array_equal(checked["a"], [[1, 2]])
    self.assertEqual(checked["a"].dtype, np.float64)
    np.testing.assert_array_equal(checked["b"], _GOOD)
    checked["b"][0, 0] = 7
    np.testing.assert_array_equal(points, _GOOD)

  def test_ids_are_sorted_with_numbers_by_value(self):
    expected = ["", "7", "10", "a", "a01", "a1", "a2b", "a10", "a99", "a100", "b"]
    expected += ["b9999999999999999999", "b10000000000000000000"]
    for ids in (expected, reversed(expected)):
      checked, _ = _checked({client_id: _GOOD for client_id in ids})
      self.assertEqual(list(checked), expected)

  def test_an_id_that_no_file_can_hold(self):
    given_clients.sorted_by_id({"größer 中文": 0, 3: 1})
    with self.assertRaisesRegex(ValueError, "`client_id`"):
      given_clients.sorted_by_id({"a": 0, os.fsdecode(b"caf\xe9"): 1})

  @parameterized.parameters(
      ({},), (1,), (np.ones((2, 3, 2)),),
      # Clients of one column, or rows?
      ([[1, 2, 3], [4, 5]],),
  )
  def test_no_clients(self, clients):
    with self.assertRaisesRegex((TypeError, ValueError), "`clients`"):
      _checked(clients)

  @parameterized.named_parameters(
      ("no_rows", np.ones((0, 2))), ("no_columns", np.ones((3, 0))), ("a_vector", np.ones(3)),
      ("ragged", [[1, 2], [3]]), ("a_row", [1, 2]), ("other_columns", np.ones((3, 5))),
      ("nan", [[1, 2], [3, np.nan]]), ("nan_in_a_frame", pd.DataFrame({0: [1.0], 1: [pd.NA]})),
      ("infinity", [[-np.inf, 2]]), ("squares_that_overflow", [[1, 2], [-3e160, 2]]),
      ("integers_beyond_floats", [[10**309, 2]]), ("text", [["1", "2"]]),
      ("complex_numbers", [[1j, 1]]), ("sparse", sparse.csr_matrix(_ARRAY)),
  )
  def test_bad_points(self, points):
    for assume_finite in (False, True):
      with self.assertRaisesRegex((TypeError, ValueError), r"`clients`\['b'\]") as raised:
        with sklearn.config_context(assume_finite=assume_finite):
          _checked({"a": _GOOD, "b": points})
      self.assertNotIn("\n", str(raised.exception))

  @parameterized.named_parameters(*_MASKED)
  def test_masked_numbers_are_refused(self, points):
    with warnings.catch_warnings():
      warnings.simplefilter("error")
      with self.assertRaisesRegex(ValueError, r"`clients`\['b'\]"):
        _checked({"a": _GOOD, "b": points})

  def test_a_mask_of_nothing_changes_nothing(self):
    checked = _checked([np.ma.array(_GOOD, mask=False)])[0]["0"]
    self.assertIs(type(checked), np.ndarray)
    np.testing.assert_array_equal(checked, _GOOD)


class PrivateClientsTest(parameterized.TestCase):

  @parameterized.named_parameters(*_MASKED)
  def test_masked_numbers_count_as_nan(self, points):
    with warnings.catch_warnings():
      warnings.simplefilter("error")
      clients, _ = given_clients.aligned(given_clients.tables_of({"a": _GOOD, "b": points}))
      found = given_clients.points_of(clients, is_private=True)[0].by_id["b"]
    self.assertIs(type(found), np.ndarray)
    np.testing.assert_array_equal(found, [[1, 2], [np.nan, 4]])


def _views():
  rng = np.random.default_rng(0)
  return {
      "a": [rng.standard_normal((4, 3)), rng.standard_normal((4, 2))],
      "b": [rng.standard_normal((5, 3)), rng.standard_normal((5, 2))],
  }


# What makes clients' views not fit together, and what the error names.
_OTHER_SHAPES = {
    "fewer_views": (lambda c: c["b"].pop(), r"`clients`\['b'\]"),
    "a_missing_view": (lambda c: c["b"].__setitem__(1, None), r"clients`?\['b'\], view 1,"),
    "no_views": (lambda c: c["a"].clear(), r"`clients`\['a'\]"),
    "no_list_of_views": (lambda c: c.__setitem__("a", 1), r"`clients`\['a'\]"),
    "another_width": (lambda c: c["b"].__setitem__(1, np.zeros((5, 7))),
                      r"`clients`\['b'\], view 1,"),
    "other_rows": (lambda c: c["b"].__setitem__(1, np.zeros((4, 2))), r"`clients`\['b'\]"),
    "one_axis": (lambda c: c["b"].__setitem__(1, np.zeros(5)), r"clients`?\['b'\], view 1,"),
    "no_columns": (lambda c: [v.__setitem__(1, v[1][:, :0]) for v in c.values()], "view 1,"),
    "no_rows_at_all": (lambda c: [v.__setitem__(1, []) for v in c.values()], "view 1|`clients`"),
    "no_clients": (lambda c: c.clear(), "`clients`"),
}


class ViewsTest(parameterized.TestCase):

  def test_views_are_side_by_side_in_a_copy(self):
    clients = {**_views(), "c": [np.arange(6).reshape(2, 3), np.eye(2, dtype=bool)]}
    points, widths = _checked(clients, has_views=True)
    self.assertEqual((widths, list(points)), ((3, 2), ["a", "b", "c"]))
    np.testing.assert_array_equal(points["b"], np.hstack(clients["b"]))
    points["c"][:] = -1
    np.testing.assert_array_equal(clients["c"][0], np.arange(6).reshape(2, 3))

  @parameterized.product(change=list(_OTHER_SHAPES), is_private=[False, True])
  def test_views_of_other_shapes_are_refused(self, change, is_private):
    clients, (make, where) = _views(), _OTHER_SHAPES[change]
    make(clients)
    with self.assertRaisesRegex((TypeError, ValueError), where):
      _checked(clients, has_views=True, is_private=is_private)

  @parameterized.named_parameters(
      ("nan", lambda c: c["b"][0].__setitem__((2, 1), np.nan), r"`clients`\['b'\], view 0,"),
      ("no_points", lambda c: c.__setitem__("b", [np.zeros((0, 3)), np.zeros((0, 2))]),
       r"`clients`\['b'\], view 0,"),
      ("overflowing_squares", lambda c: c["b"][0].__setitem__((2, 1), 1e101), r"\['b'\], view 0,"),
      ("text", lambda c: c["a"].__setitem__(1, [["x", "y"]] * 4), r"`clients`\['a'\], view 1,"),
  )
  def test_what_no_view_may_hold_is_refused(self, change, where):
    clients = _views()
    change(clients)
    with self.assertRaisesRegex((TypeError, ValueError), where):
      _checked(clients, has_views=True)

  def test_one_client_or_several(self):
    clients = _views()
    a, b = clients.values()
    for given, ids in (
        (a, [None]), ([a, b], ["0", "1"]), ({2: b, 10: a}, [2, 10]), (clients, ["a", "b"]),
    ):
      points, widths = _checked(given, has_views=True)
      self.assertEqual(list(points), ids)
      self.assertEqual(widths, (3, 2))
    for one_view in (a[0], a[0].tolist(), {"a": a[0]}, [[a[0]], [b[0]]]):
      self.assertEqual(_checked(one_view, has_views=True)[1], (3,))


class PrivateViewsTest(parameterized.TestCase):

  def test_whatever_rows_hold_is_no_error(self):
    clients = _views()
    clients["a"][0] = np.array([[1, None, 2.5], [10**400, True, -(10**400)]] * 2, object)
    clients["a"][1][1] = [np.nan, -np.inf]
    clients["b"] = [np.zeros((0, 3)), np.zeros((0, 2))]
    points, widths = _checked(clients, has_views=True, is_private=True)
    self.assertEqual(widths, (3, 2))
    np.testing.assert_array_equal(points["a"][0][:3], [1, np.nan, 2.5])
    np.testing.assert_array_equal(points["a"][1], [np.inf, 1, -np.inf, np.nan, -np.inf])
    self.assertEqual(points["b"].shape, (0, 5))
    self.assertEqual(points["b"].dtype, np.float64)

  @parameterized.named_parameters(
      ("text", np.array([["x", "1"]] * 4)), ("text_objects", np.array([["x", 1]] * 4, object)),
      ("complex", np.full((4, 2), 1j)), ("ragged", [[1.0, 2.0], [3.0]]),
  )
  def test_other_types_are_refused(self, view):
    clients = _views()
    clients["a"][1] = view
    with self.assertRaisesRegex((TypeError, ValueError), r"`clients\['a'\], view 1,`"):
      _checked(clients, has_views=True, is_private=True)

  @parameterized.parameters("a", "b")
  def test_clients_without_rows_as_empty_lists(self, client_id):
    clients = _views()
    clients[client_id] = [[], []]
    for given in (clients, list(clients.values())):
      tables, _ = given_clients.aligned(given_clients.tables_of(given, has_views=True))
      found, widths = given_clients.points_of(tables, is_private=True)
      self.assertEqual(sorted(map(len, found.by_id.values())), [0, 5 if client_id == "a" else 4])
      self.assertEqual(widths, (3, 2))

  def test_a_signaling_nan_warns_of_nothing(self):
    clients = _views()
    clients["a"][1] = np.full((4, 2), 0x7FA00000, np.uint32).view(np.float32)
    with warnings.catch_warnings():
      warnings.simplefilter("error")
      points, widths = _checked(clients, has_views=True, is_private=True)
    np.testing.assert_array_equal(np.isnan(points["a"]).sum(axis=0), [0, 0, 0, 4, 4])
