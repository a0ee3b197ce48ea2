"""Tests that no private fit depends on what NumPy does on floating-point errors.

`np.seterr(all="raise")` would make an error of a row's number: who sees it learns of the row.
"""

import decimal
from unittest import mock

from absl.testing import parameterized
import numpy as np
import pandas as pd

from dp_clustering import clustering
from dp_clustering import clustering_params
from dp_clustering import noise
from fl_clustering import kmeans
from fl_clustering import multiview

_POINTS = np.random.default_rng(0).normal(0, 0.4, (40, 2))
# Values of a row, and how they are held.
_CONTENTS = {
    "no_row": np.zeros((0, 2)),
    "numbers": np.array([
        [np.nan, 0.5], [np.inf, -np.inf], [1e300, -1e300], [5e-324, 0], [-1e-310, 2e-308],
        [1e-160, -1e-200],
    ]),
    "wider": np.array([["1e4000", "1e-4000"], ["1e-320", "1"]]).astype(np.longdouble),
    "narrower": np.array([[1e-45, 3e38], [np.nan, 1e-38]], np.float32),
    "objects": np.array([[10**400, None], [decimal.Decimal("1e-400"), 5e-324]], object),
    "frame": pd.DataFrame({0: pd.array([1, None], "Int64"), 1: [np.nan, 5e-324]}),
}


def _with(rows):
  """Returns the ordinary points and rows in one array that holds both."""
  return np.concatenate([_POINTS.astype(getattr(rows, "dtype", object)), rows])


def _ends(model, points):
  """Returns what a fit leaves, and what is predicted."""
  labels = model.fit_predict(points)
  predicted = [*model.predict(points), *model.transform(points), model.score(points)]
  return [*model.cluster_centers_, *labels, *predicted]


def _private_kmeans(rows, method):
  model = clustering.PrivateKMeans(3, 1.0, 1e-6, 1.0, method=method, random_state=1)
  return _ends(model, _with(rows))


def _as_function(rows, method):
  param = clustering_params.DifferentialPrivacyParam(1.0, 1e-6)
  function = {"refine": clustering.private_clustering, "lsh": clustering.private_lsh_clustering}
  data = clustering_params.Data(_with(rows), 1.0)
  result = function[method](3, data, param, random_state=1)
  return [result.centers, result.labels, result.loss]


def _federated(privacy):
  """Returns the ends of a fit of clients of all contents."""
  model = kmeans.FederatedKMeans(3, privacy=privacy, compute_labels=True)
  return _ends(model, [_POINTS, *_CONTENTS.values()])


def _views(rows):
  if isinstance(rows, pd.DataFrame):
    return [rows[[column]].set_axis([0], axis=1) for column in rows]  # Without names.
  return [rows[:, :1], rows[:, 1:]]


def _multi_view():
  privacy = multiview.ViewPrivacy(1.0, 1e-6, (1.0, 0.7))
  model = multiview.FederatedMultiViewKMeans(
      3, standardize=False, privacy=privacy, compute_labels=True
  )
  return _ends(model, list(map(_views, [_POINTS, *_CONTENTS.values()])))


# Of all contents, one after the other.
_POOLED_FITS = {
    "refine": lambda rows: _private_kmeans(rows, "refine"),
    "lsh": lambda rows: _private_kmeans(rows, "lsh"),
    "refine_as_function": lambda rows: _as_function(rows, "refine"),
    "lsh_as_function": lambda rows: _as_function(rows, "lsh"),
}
# Of clients that hold one each.
_FEDERATED_FITS = {
    "points": lambda: _federated(kmeans.PointPrivacy(1.0, 1e-6, 1.0)),
    "points_with_shares": lambda: _federated(kmeans.PointPrivacy(1.0, 1e-6, 1.0, trust="none")),
    "clients": lambda: _federated(kmeans.ClientPrivacy(1.0, 1e-6, 1.0, max_points=5)),
    "views": _multi_view,
}


class FloatingPointErrorsTest(parameterized.TestCase):

  def _check(self, fit):
    found = []
    for setting in ("ignore", "raise"):
      # Noise that repeats.
      with mock.patch.object(noise, "SecureNoise", lambda: noise.SeededNoise(5)):
        with np.errstate(all=setting):
          found.append(fit())
          self.assertEqual(set(np.geterr().values()), {setting})
    for usual, raising in zip(*found, strict=True):
      np.testing.assert_array_equal(usual, raising)

  @parameterized.product(fit=list(_POOLED_FITS), content=list(_CONTENTS))
  def test_a_private_fit_ends_alike(self, fit, content):
    self._check(lambda: _POOLED_FITS[fit](_CONTENTS[content]))

  @parameterized.parameters(*_FEDERATED_FITS)
  def test_a_private_fit_of_clients_ends_alike(self, fit):
    self._check(_FEDERATED_FITS[fit])
