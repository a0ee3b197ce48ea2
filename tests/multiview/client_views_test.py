"""Tests for fl_clustering.multiview.client_views."""

import warnings

from absl.testing import absltest
from absl.testing import parameterized
import numpy as np

from fl_clustering.multiview import client_views


def _clients():
  rng = np.random.default_rng(0)
  return {
      "a": [rng.standard_normal((4, 3)), rng.standard_normal((4, 2))],
      "b": [rng.standard_normal((5, 3)), rng.standard_normal((5, 2))],
  }


class ClientViewsTest(parameterized.TestCase):

  def test_views_are_side_by_side(self):
    clients = _clients()
    views = client_views.check_clients(clients, 2)
    self.assertEqual(views.widths, (3, 2))
    self.assertEqual(views.num_points, 9)
    self.assertEqual(list(views.points), ["a", "b"])
    np.testing.assert_array_equal(views.points["b"][:, :3], clients["b"][0])
    np.testing.assert_array_equal(views.points["b"][:, 3:], clients["b"][1])

  def test_the_users_arrays_are_not_changed_and_need_not_be_floats(self):
    clients = {"a": [np.arange(6).reshape(3, 2), np.eye(3, dtype=bool)]}
    views = client_views.check_clients(clients, 1)
    views.points["a"][:] = -1
    np.testing.assert_array_equal(clients["a"][0], np.arange(6).reshape(3, 2))

  @parameterized.named_parameters(
      ("fewer_views", lambda c: c["b"].pop(), r"`clients`\['b'\] must have 2 views .* got 1"),
      ("a_missing_view", lambda c: c["b"].__setitem__(1, None),
       r"`clients`\['b'\], view 1, must be there: every client needs every view"),
      ("no_views", lambda c: c["a"].clear(), r"`clients`\['a'\] must have at least one view"),
      ("another_width", lambda c: c["b"].__setitem__(1, np.zeros((5, 7))),
       r"`clients`\['b'\], view 1, must have 2 columns as the others, got 7"),
      ("other_rows", lambda c: c["b"].__setitem__(1, np.zeros((4, 2))),
       r"`clients`\['b'\], view 1, must have 5 rows as view 0 has, got 4"),
      ("one_axis", lambda c: c["b"].__setitem__(1, np.zeros(5)),
       r"`clients`\['b'\], view 1, must be a matrix of shape .* got shape \(5,\)"),
      ("no_columns", lambda c: c["a"].__setitem__(0, np.zeros((4, 0))),
       r"`clients`\['a'\], view 0, must be a matrix of shape"),
      ("nan", lambda c: c["b"][0].__setitem__((2, 1), np.nan),
       r"`clients`\['b'\], view 0, must hold finite numbers, got nan in row 2, column 1"),
      ("no_points", lambda c: c.__setitem__("b", [np.zeros((0, 3)), np.zeros((0, 2))]),
       r"`clients`\['b'\], view 0, must have at least one row"),
      ("overflowing_squares", lambda c: c["b"][0].__setitem__((2, 1), 1e101),
       "must hold numbers between"),
      ("infinity", lambda c: c["b"][0].__setitem__((2, 1), -np.inf), "got -inf in row 2"),
      ("no_clients", lambda c: c.clear(), "`clients` must have at least one client"),
  )
  def test_views_that_do_not_fit_are_refused(self, change, message):
    clients = _clients()
    change(clients)
    with self.assertRaisesRegex(ValueError, message):
      client_views.check_clients(clients, 2)

  @parameterized.named_parameters(
      ("no_clients", lambda c: 1, "`clients` must be one client, a list .* got int"),
      ("no_list_of_views", lambda c: {"a": 1},
       r"`clients`\['a'\] must be a list of arrays, one "
       "per view, got int"),
      ("ids_of_a_wrong_type", lambda c: {1.5: c["a"]},
       "must have integers or text as ids, got 1.5"),
      ("text", lambda c: {"a": [np.array([["x"]])]}, r"`clients`\['a'\], view 0, must hold real"),
      ("complex", lambda c: {"a": [np.array([[1j]])]}, "must hold real numbers"),
  )
  def test_other_types_are_refused(self, make, message):
    with self.assertRaisesRegex(TypeError, message):
      client_views.check_clients(make(_clients()), 1)

  def test_one_client_or_several(self):
    clients = _clients()
    a, b = clients.values()
    for given, ids in (
        (a, [None]), ([a, b], ["0", "1"]), ({2: b, 10: a}, [2, 10]), (clients, ["a", "b"]),
    ):
      views = client_views.check_clients(given, 1)
      self.assertEqual(list(views.points), ids)
      self.assertEqual(views.widths, (3, 2))
    for one_view in (a[0], a[0].tolist(), {"a": a[0]}, [[a[0]], [b[0]]]):
      self.assertEqual(client_views.check_clients(one_view, 1).widths, (3,))

  def test_fewer_points_than_clusters_are_refused(self):
    client_views.check_clients(_clients(), 9)
    with self.assertRaisesRegex(ValueError, "`n_clusters` must be at most the 9 points"):
      client_views.check_clients(_clients(), 10)


class PrivateClientViewsTest(parameterized.TestCase):

  def test_whatever_rows_hold_is_no_error(self):
    clients = _clients()
    clients["a"][0] = np.array([[1, None, 2.5], [10**400, True, -(10**400)]] * 2, object)
    clients["a"][1][1] = [np.nan, -np.inf]
    clients["b"] = [np.zeros((0, 3)), np.zeros((0, 2))]
    views = client_views.check_private_clients(clients)
    self.assertEqual(views.widths, (3, 2))
    np.testing.assert_array_equal(views.points["a"][0][:3], [1, np.nan, 2.5])
    np.testing.assert_array_equal(views.points["a"][1], [np.inf, 1, -np.inf, np.nan, -np.inf])
    self.assertEqual(views.points["b"].shape, (0, 5))
    self.assertEqual(views.points["b"].dtype, np.float64)

  def test_masked_numbers_count_as_nan(self):
    clients = {"a": [[[1.0, np.ma.masked]], np.ma.array([[3, 4]], mask=[[True, False]])]}
    with warnings.catch_warnings():
      warnings.simplefilter("error")
      views = client_views.check_private_clients(clients)
    np.testing.assert_array_equal(views.points["a"], [[1, np.nan, np.nan, 4]])

  @parameterized.named_parameters(
      ("fewer_views", lambda c: c["b"].pop(), r"`clients`\['b'\] must have 2 views .* got 1"),
      ("no_views", lambda c: c["a"].clear(), r"`clients`\['a'\] must have at least one view"),
      ("another_width", lambda c: c["b"].__setitem__(1, np.zeros((5, 7))),
       r"`clients\['b'\]\[1\]` must have the same number of columns .* got 7 and 2"),
      ("no_columns", lambda c: [v.__setitem__(1, v[1][:, :0]) for v in c.values()],
       "at least one, got 0"),
      ("other_rows", lambda c: c["b"].__setitem__(1, np.zeros((4, 2))),
       r"`clients`\['b'\] must have the same number of rows in every view\.$"),
      ("no_clients", lambda c: c.clear(), "`clients` must have at least one client"),
  )
  def test_views_that_do_not_fit_are_refused(self, change, message):
    clients = _clients()
    change(clients)
    with self.assertRaisesRegex(ValueError, message):
      client_views.check_private_clients(clients)

  @parameterized.named_parameters(
      ("text", np.array([["x", "1"]] * 4)), ("text_objects", np.array([["x", 1]] * 4, object)),
      ("complex", np.full((4, 2), 1j)),
  )
  def test_other_types_are_refused(self, view):
    clients = _clients()
    clients["a"][1] = view
    with self.assertRaisesRegex(TypeError, r"`clients\['a'\]\[1\]` must hold real numbers"):
      client_views.check_private_clients(clients)

  @parameterized.parameters("a", "b")
  def test_clients_without_rows_as_empty_lists(self, client_id):
    clients = _clients()
    clients[client_id] = [[], []]
    for given in (clients, list(clients.values())):
      tables, _ = client_views.aligned(client_views.clients_of(given))
      views = client_views.check_private_clients(tables)
      self.assertEqual(sorted(map(len, views.points.values())), [0, 5 if client_id == "a" else 4])
      self.assertEqual(views.widths, (3, 2))

  def test_ragged_rows_are_refused_by_name(self):
    clients = _clients()
    clients["a"][1] = [[1.0, 2.0], [3.0]]
    with self.assertRaisesRegex(ValueError, r"^`clients\['a'\]\[1\]` must have rows of one"):
      client_views.check_private_clients(clients)

  def test_a_signaling_nan_warns_of_nothing(self):
    clients = _clients()
    clients["a"][1] = np.full((4, 2), 0x7FA00000, np.uint32).view(np.float32)
    with warnings.catch_warnings():
      warnings.simplefilter("error")
      views = client_views.check_private_clients(clients)
    np.testing.assert_array_equal(np.isnan(views.points["a"]).sum(axis=0), [0, 0, 0, 4, 4])

  @parameterized.parameters("a", "b")
  def test_a_missing_view_is_refused(self, client_id):
    clients = _clients()
    clients[client_id][1] = None
    with self.assertRaisesRegex(ValueError, r"\[1\]` must be there: every client needs every"):
      client_views.check_private_clients(clients)


if __name__ == "__main__":
  absltest.main()
