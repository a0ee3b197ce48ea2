"""Tests for fl_clustering.points.given_clients."""

import warnings

from absl.testing import absltest
from absl.testing import parameterized
import numpy as np
import pandas as pd
from scipy import sparse

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
    self.assertEqual(clients.label("3"), "`X`['3']")
    self.assertEqual(clients.map(len), [2] * 11)

  def test_a_mapping_keeps_its_ids_and_their_order(self):
    clients = given_clients.clients_of({10: _ROWS, "b": _ROWS, 9: _ROWS[:1], np.int64(3): _ROWS})
    self.assertEqual(list(clients.by_id), [3, 9, 10, "b"])
    self.assertEqual(clients.map(len), {10: 2, "b": 2, 9: 1, 3: 2})
    self.assertEqual(list(clients.map(len)), [10, "b", 9, 3])
    self.assertEqual(clients.label(9), "`clients`[9]")

  @parameterized.named_parameters(
      ("no_clients", {}, ValueError, "at least one client, got none"),
      ("empty_list", [], ValueError, "at least one client, got none"),
      ("look_alike", {"7": _ROWS, 7: _ROWS}, ValueError, "look different, got '7' and 7"),
      ("truth", {True: _ROWS}, TypeError, "integers or text as ids, got True"),
      ("nothing", {None: _ROWS}, TypeError, "integers or text as ids, got None"),
      ("text", "abc", TypeError, "one client, a list of clients or a mapping .* got str"),
      ("a_number", 3, TypeError, "got int"),
  )
  def test_refuses(self, given, error, message):
    with self.assertRaisesRegex(error, f"`X` must .*{message}"):
      given_clients.clients_of(given, "X")


class AlignedTest(parameterized.TestCase):

  def test_the_first_client_by_id_gives_the_order(self):
    frame = pd.DataFrame(_ARRAY, columns=["a", "b"])
    clients = given_clients.clients_of({2: frame[["b", "a"]], 1: frame})
    arrays, names = given_clients.aligned(clients)
    self.assertEqual(names, ["a", "b"])
    for array in arrays.by_id.values():
      np.testing.assert_array_equal(array, _ARRAY)

  def test_arrays_stay(self):
    clients = given_clients.clients_of([_ARRAY, _ROWS])
    arrays, names = given_clients.aligned(clients)
    self.assertIsNone(names)
    self.assertIs(arrays.by_id["0"], _ARRAY)

  def test_no_rows_need_no_names(self):
    clients = given_clients.clients_of([[], pd.DataFrame({"a": [1.0]}), np.zeros((0, 1))])
    _, names = given_clients.aligned(clients)
    self.assertEqual(names, ["a"])

  def test_sparse_tables_are_refused(self):
    clients = given_clients.clients_of({"a": sparse.csr_matrix(_ARRAY)})
    with self.assertRaisesRegex(TypeError, r"`clients`\['a'\] must be dense, got a sparse csr"):
      given_clients.aligned(clients)


class CheckedClientsTest(parameterized.TestCase):

  def test_every_client_keeps_its_points_as_float64(self):
    checked = given_clients.checked_clients({"b": _GOOD, "a": [[1, 2]]})
    np.testing.assert_array_equal(checked["b"], _GOOD)
    np.testing.assert_array_equal(checked["a"], [[1, 2]])
    self.assertEqual(checked["a"].dtype, np.float64)

  def test_ids_are_sorted_with_numbers_by_value(self):
    expected = ["", "7", "10", "a", "a01", "a1", "a2b", "a10", "b"]
    for ids in (expected, reversed(expected)):
      checked = given_clients.checked_clients({client_id: _GOOD for client_id in ids})
      self.assertEqual(list(checked), expected)

  def test_a_list_gets_numbers_as_ids(self):
    checked = given_clients.checked_clients([np.full((1, 2), index) for index in range(12)])
    self.assertEqual(list(checked), [str(index) for index in range(12)])
    self.assertEqual([points[0, 0] for points in checked.values()], list(range(12)))

  def test_the_users_arrays_are_copied(self):
    points = _GOOD.copy()
    given_clients.checked_clients([points])["0"][0, 0] = 7
    self.assertEqual(points[0, 0], 1)

  @parameterized.named_parameters(
      ("no client", {}, "`clients` must have at least one client"),
      ("no rows", {"a": _GOOD, "b": np.ones((0, 2))}, r"`clients`\['b'\] must have at least one"),
      ("no columns", {"a": np.ones((3, 0))}, r"`clients`\['a'\] must be a matrix"),
      ("an array", np.ones((2, 3, 2)), "`clients` must be a matrix"),
      ("a vector", {"a": np.ones(3)}, r"`clients`\['a'\] must be a matrix"),
      ("ragged", {"a": [[1, 2], [3]]}, r"`clients`\['a'\] must be a matrix"),
      ("clients of one column, or rows", [[1, 2, 3], [4, 5]], "got rows of several lengths; one "
       "client is a table or a list of rows, and several clients are a list or a dict of tables.$"),
      ("a table beside a row", [_GOOD, [1, 2]],
       r"`clients`\['1'\] must be a matrix .*got 1 dimension; one client is a table or a list of"),
      ("a list of numbers", [1, 2], r"`clients`\['0'\] must be .*got 0 dimensions; one client is"),
      ("other columns", {"a": _GOOD, "b": np.ones((3, 5))},
       r"`clients`\['b'\] must have 2 columns as the others, got 5"),
      ("nan", {"a": [[1, 2], [3, np.nan]]}, r"`clients`\['a'\].*got nan in row 1, column 1"),
      ("infinity", {"a": [[-np.inf, 2]]}, r"`clients`\['a'\].*got -inf in row 0, column 0"),
      ("squares that overflow", {"a": [[1, 2], [-3e160, 2]]},
       r"`clients`\['a'\] must hold numbers between -1e\+100 and 1e\+100, got -3e\+160 in row 1"),
  )
  def test_bad_points(self, clients, message):
    with self.assertRaisesRegex(ValueError, message):
      given_clients.checked_clients(clients)

  @parameterized.named_parameters(
      ("no clients", 1, "`clients` must be one client, a list of clients or a mapping"),
      ("text", {"a": [["1", "x"]]}, r"`clients`\['a'\] must hold real numbers"),
      ("complex numbers", {"a": [[1j]]}, r"`clients`\['a'\] must hold real numbers"),
  )
  def test_wrong_types(self, clients, message):
    with self.assertRaisesRegex(TypeError, message):
      given_clients.checked_clients(clients)

  @parameterized.named_parameters(*_MASKED)
  def test_masked_numbers_are_refused(self, points):
    with warnings.catch_warnings():
      warnings.simplefilter("error")
      with self.assertRaisesRegex(
          ValueError, r"`clients`\['b'\] must hold finite numbers, got nan in row 1, column 0"
      ):
        given_clients.checked_clients({"a": _GOOD, "b": points})

  def test_a_mask_of_nothing_changes_nothing(self):
    checked = given_clients.checked_clients([np.ma.array(_GOOD, mask=False)])["0"]
    self.assertIs(type(checked), np.ndarray)
    np.testing.assert_array_equal(checked, _GOOD)


class PrivateClientsTest(parameterized.TestCase):

  @parameterized.named_parameters(*_MASKED)
  def test_masked_numbers_count_as_nan(self, points):
    with warnings.catch_warnings():
      warnings.simplefilter("error")
      clients, _ = given_clients.aligned(given_clients.clients_of({"a": _GOOD, "b": points}))
      found = given_clients.private_clients(clients)["b"]
    self.assertIs(type(found), np.ndarray)
    np.testing.assert_array_equal(found, [[1, 2], [np.nan, 4]])


if __name__ == "__main__":
  absltest.main()
