"""Nothing that private rows hold shows in an error, a warning, a message's size or a round."""

from unittest import mock
import warnings

from absl.testing import parameterized
import numpy as np
import pandas as pd

from fl_clustering import kmeans
from fl_clustering import multiview
from fl_clustering.points import secure_sums

_ORDINARY = np.random.default_rng(0).standard_normal((20, 2))
_CONTENTS = {
    "nan": [[np.nan, 1.0]],
    "none": [[None, 1.0]],
    "missing in a frame": pd.DataFrame({0: [pd.NA, 1.0], 1: [2.0, None]}),
    "infinity": [[np.inf, -np.inf]],
    "large": [[1e300, 1e308]],
    "subnormal": [[-1e-320, 0.0]],
    "integers too large for float64": [[10**400, 1]],
    "small integers": np.full((20, 2), 7, np.int8),
    "equal rows": np.ones((20, 2)),
    "empty list": [],
    "no rows": np.zeros((0, 2)),
    "one row": [[1.0, 2.0]],
    "booleans": [[True, False]],
}


class ContentTest(parameterized.TestCase):

  def _seen(self, privacy, *tables):
    """Returns what an observer of the messages sees but their noise."""
    messages, totals = [], secure_sums.FederatedPoints.totals

    def record(points, query, draw_share=None, limits=None):
      found = totals(points, query, draw_share, limits)
      sent = {name: array.shape[1] for name, array in query.arrays.items()}
      messages.append((points.capacity, query.kind, query.shape[1], sent))
      self.assertTrue(all(np.isfinite(array).all() for array in query.arrays.values()))
      return found

    if isinstance(privacy, multiview.ViewPrivacy):
      model = multiview.FederatedMultiViewKMeans(
          3, view_weights="mvkm", n_init=1, standardize=False, privacy=privacy
      )
      arrays = [
          table if isinstance(table, np.ndarray) else np.array(table, object).reshape(-1, 2)
          for table in tables
      ]
      tables = [[array[:, :1], array[:, 1:]] for array in arrays]
    else:
      model = kmeans.FederatedKMeans(3, privacy=privacy)
    with mock.patch.object(secure_sums.FederatedPoints, "totals", record):
      model.fit(list(tables))
    self.assertTrue(np.isfinite(model.cluster_centers_).all())
    releases = [(one.name, one.std) for one in model.privacy_ledger_.releases]
    return messages, releases, model.n_iter_

  @parameterized.named_parameters(
      ("noise_of_the_server", kmeans.PointPrivacy(1.0, 1e-6, 12.0)),
      ("noise_of_the_clients", kmeans.PointPrivacy(1.0, 1e-6, 12.0, trust="none")),
      ("private_clients", kmeans.ClientPrivacy(1.0, 1e-6, 12.0, max_points=5)),
      ("private_clients_with_shares",
       kmeans.ClientPrivacy(1.0, 1e-6, 12.0, max_points=5, trust="none")),
      ("views", multiview.ViewPrivacy(1.0, 1e-6, (12.0, 1.0))),
      ("views_with_shares", multiview.ViewPrivacy(1.0, 1e-6, (12.0, 1.0), trust="none")),
  )
  def test_no_content_raises_or_warns_or_changes_a_message(self, privacy):
    expected = self._seen(privacy, _ORDINARY, _ORDINARY)
    self.assertNotEmpty(expected[0])
    for name, rows in _CONTENTS.items():
      with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", "the noise is")  # Of so few clients, which are public.
        warnings.filterwarnings("ignore", category=DeprecationWarning)
        warnings.filterwarnings("ignore", category=ResourceWarning)
        self.assertEqual(self._seen(privacy, _ORDINARY, rows), expected, name)
    nothing = np.zeros((0, 2))
    self.assertEqual(self._seen(privacy, nothing, nothing), expected)

  @parameterized.parameters(([["one", "two"]], TypeError), ([[1.0, 2.0, 3.0]], ValueError))
  def test_types_and_shapes_are_refused_before_anything_is_sent(self, rows, error):
    with mock.patch.object(secure_sums.FederatedPoints, "totals") as totals:
      with self.assertRaisesRegex(error, r"`clients.*'1'"):
        kmeans.FederatedKMeans(3, privacy=kmeans.PointPrivacy(1.0, 1e-6, 12.0)).fit(
            [_ORDINARY, rows]
        )
    totals.assert_not_called()
