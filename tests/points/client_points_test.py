"""Tests for fl_clustering.points.client_points."""

import warnings

from absl.testing import absltest
from absl.testing import parameterized
import numpy as np

from fl_clustering.points import client_points
from fl_clustering.points import given_clients

_GOOD = np.ones((3, 2))
# Rows of which the second one lacks its first number.
_MASK = [[False, False], [True, False]]
_MASKED = (
    ("floats", np.ma.array([[1.0, 2.0], [3.0, 4.0]], mask=_MASK)),
    ("integers", np.ma.array([[1, 2], [3, 4]], mask=_MASK)),
    ("a list of rows", [np.array([1, 2]), np.ma.array([3, 4], mask=_MASK[1])]),
    ("a list of numbers", [[1.0, 2.0], [np.ma.masked, 4.0]]),
)


class CheckedClientsTest(parameterized.TestCase):

  def test_every_client_keeps_its_points_as_float64(self):
    checked = client_points.checked_clients({"b": _GOOD, "a": [[1, 2]]})
    np.testing.assert_array_equal(checked["b"], _GOOD)
    np.testing.assert_array_equal(checked["a"], [[1, 2]])
    self.assertEqual(checked["a"].dtype, np.float64)

  def test_ids_are_sorted_with_numbers_by_value(self):
    expected = ["", "7", "10", "a", "a01", "a1", "a2b", "a10", "b"]
    for ids in (expected, reversed(expected)):
      checked = client_points.checked_clients({client_id: _GOOD for client_id in ids})
      self.assertEqual(list(checked), expected)

  def test_a_list_gets_numbers_as_ids(self):
    checked = client_points.checked_clients([np.full((1, 2), index) for index in range(12)])
    self.assertEqual(list(checked), [str(index) for index in range(12)])
    self.assertEqual([points[0, 0] for points in checked.values()], list(range(12)))

  def test_the_users_arrays_are_copied(self):
    points = _GOOD.copy()
    client_points.checked_clients([points])["0"][0, 0] = 7
    self.assertEqual(points[0, 0], 1)

  @parameterized.named_parameters(
      ("no client", {}, "`clients` must have at least one client"),
      ("no rows", {"a": _GOOD, "b": np.ones((0, 2))}, r"`clients`\['b'\] must have at least one"),
      ("no columns", {"a": np.ones((3, 0))}, r"`clients`\['a'\] must be a matrix"),
      ("an array", np.ones((2, 3, 2)), "`clients` must be a matrix"),
      ("a vector", {"a": np.ones(3)}, r"`clients`\['a'\] must be a matrix"),
      ("ragged", {"a": [[1, 2], [3]]}, r"`clients`\['a'\] must be a matrix"),
      ("other columns", {"a": _GOOD, "b": np.ones((3, 5))},
       r"`clients`\['b'\] must have 2 columns as the others, got 5"),
      ("nan", {"a": [[1, 2], [3, np.nan]]}, r"`clients`\['a'\].*got nan in row 1, column 1"),
      ("infinity", {"a": [[-np.inf, 2]]}, r"`clients`\['a'\].*got -inf in row 0, column 0"),
      ("squares that overflow", {"a": [[1, 2], [-3e160, 2]]},
       r"`clients`\['a'\] must hold numbers between -1e\+100 and 1e\+100, got -3e\+160 in row 1"),
  )
  def test_bad_points(self, clients, message):
    with self.assertRaisesRegex(ValueError, message):
      client_points.checked_clients(clients)

  @parameterized.named_parameters(
      ("no clients", 1, "`clients` must be one client, a list of clients or a mapping"),
      ("text", {"a": [["1", "x"]]}, r"`clients`\['a'\] must hold real numbers"),
      ("complex numbers", {"a": [[1j]]}, r"`clients`\['a'\] must hold real numbers"),
  )
  def test_wrong_types(self, clients, message):
    with self.assertRaisesRegex(TypeError, message):
      client_points.checked_clients(clients)

  @parameterized.named_parameters(*_MASKED)
  def test_masked_numbers_are_refused(self, points):
    with warnings.catch_warnings():
      warnings.simplefilter("error")
      with self.assertRaisesRegex(
          ValueError, r"`clients`\['b'\] must hold finite numbers, got nan in row 1, column 0"
      ):
        client_points.checked_clients({"a": _GOOD, "b": points})

  def test_a_mask_of_nothing_changes_nothing(self):
    checked = client_points.checked_clients([np.ma.array(_GOOD, mask=False)])["0"]
    self.assertIs(type(checked), np.ndarray)
    np.testing.assert_array_equal(checked, _GOOD)


class PrivateClientsTest(parameterized.TestCase):

  @parameterized.named_parameters(*_MASKED)
  def test_masked_numbers_count_as_nan(self, points):
    with warnings.catch_warnings():
      warnings.simplefilter("error")
      clients, _ = given_clients.aligned(given_clients.clients_of({"a": _GOOD, "b": points}))
      found = client_points.private_clients(clients)["b"]
    self.assertIs(type(found), np.ndarray)
    np.testing.assert_array_equal(found, [[1, 2], [np.nan, 4]])


if __name__ == "__main__":
  absltest.main()
