"""Tests for fl_clustering.points.given_clients."""

from absl.testing import absltest
from absl.testing import parameterized
import numpy as np
import pandas as pd
from scipy import sparse

from fl_clustering.points import given_clients

_ROWS = [[1.0, 2.0], [3.0, 4.0]]
_ARRAY = np.array(_ROWS)


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


if __name__ == "__main__":
  absltest.main()
