"""Tests for who computes for the clients: `federated_clusterer.open_clients`."""

import importlib.util
import os
import subprocess
import sys
from unittest import mock

from absl.testing import absltest
from absl.testing import parameterized
import numpy as np
import psutil

from dp_clustering import noise
from fl_clustering import kmeans
from fl_clustering import multiview
from fl_clustering.points import point_files
from fl_clustering.points import secure_sums
from fl_clustering import runtime
from tests import nightly
from tests.multiview import sample_views

_VIEW_NORMS = (20.0, 1500.0, 0.2)
# Each asks other questions than the rest, or in another way.
_FITS = {
    "exact": kmeans.FederatedKMeans(4, keep_history=True),
    "standardized": kmeans.FederatedKMeans(4, standardize=True, random_state=1),
    "points": kmeans.FederatedKMeans(3, privacy=kmeans.PointPrivacy(1.0, 1e-3, 4.0)),
    "points_with_shares": kmeans.FederatedKMeans(
        3, privacy=kmeans.PointPrivacy(1.0, 1e-3, 4.0, trust="none", min_clients=2)
    ),
    "clients": kmeans.FederatedKMeans(3, privacy=kmeans.ClientPrivacy(8.0, 1e-3, 4.0, 9)),
    "clients_with_shares": kmeans.FederatedKMeans(
        3, privacy=kmeans.ClientPrivacy(8.0, 1e-3, 4.0, 50, trust="none")
    ),
    **{
        rule: multiview.FederatedMultiViewKMeans(
            3, view_weights=rule, n_init=2, num_rounds=4, standardize=standardize
        )
        for rule, standardize in (("equal", True), ("mvkm", False), ("regret", True))
    },
    **{
        f"views_trust_{trust}": multiview.FederatedMultiViewKMeans(
            3, standardize=False, privacy=multiview.ViewPrivacy(1.0, 1e-3, _VIEW_NORMS, trust)
        )
        for trust in ("server", "none")
    },
}

_BY_DAY = ("standardized", "clients_with_shares", "views_trust_none")


def _clients(model):
  if isinstance(model, multiview.FederatedMultiViewKMeans):
    return sample_views.sample_views()[0]
  rng = np.random.default_rng(0)
  return {f"site {i}": rng.normal(size=(700 + i, 2)) * [1.0, 3.0] for i in range(3)}


def _numbers(value):
  """Returns all numbers of a fit's result, as bytes and text."""
  if isinstance(value, np.ndarray):
    return value.tobytes()
  if isinstance(value, (tuple, list)):
    return [_numbers(one) for one in value]
  if hasattr(value, "__dict__"):
    return {name: _numbers(one) for name, one in vars(value).items()}
  return repr(value)


class InFilesTest(absltest.TestCase):

  def test_no_file_stays_open(self):
    clients = {f"client {i}": np.full((2, 3), float(i)) for i in range(300)}
    num_open = len(os.listdir("/proc/self/fd"))
    held = secure_sums.hold(clients, self.create_tempdir().full_path)
    self.assertEqual(held.num_clients, 300)
    for client_id, points in held.by_id.items():
      np.testing.assert_array_equal(points, clients[client_id])
    del points
    self.assertEqual(len(os.listdir("/proc/self/fd")), num_open)


class WholeFitTest(parameterized.TestCase):

  @classmethod
  def setUpClass(cls):
    super().setUpClass()
    cls.local = cls.enterClassContext(runtime.LocalRuntime())
    cls.context_of_nobody = mock.patch.object(runtime, "has_context_of_the_caller", lambda: False)

  def _fitted(self, model):
    """Returns what there is to know of a fit, with noise that repeats."""
    clients = _clients(model)
    with mock.patch.object(noise, "SecureNoise", lambda: noise.SeededNoise(7)):
      model.fit(clients)
    attributes = {name: value for name, value in vars(model).items() if name.endswith("_")}
    ledger = attributes.pop("privacy_ledger_")
    releases = None if ledger is None else ledger.releases
    fitted_model = model._result.model  # pylint: disable=protected-access
    return _numbers([*attributes.items(), releases, fitted_model])

  @parameterized.parameters(*_FITS)
  def test_the_same_bits_in_this_process_and_through_tff(self, name):
    # `secure_sums_test` has every kind of question both ways.
    nightly.skip_by_day(self, name not in _BY_DAY)
    with mock.patch.object(
        point_files.PointFiles, "total", autospec=True, side_effect=point_files.PointFiles.total
    ) as through_tff:
      expected = self._fitted(_FITS[name])
    self.assertGreater(through_tff.call_count, 3)
    with self.context_of_nobody, mock.patch.object(point_files.PointFiles, "total") as through_tff:
      found = self._fitted(_FITS[name])
    through_tff.assert_not_called()
    self.assertEqual(found, expected)


# Fits without a runtime, and prints which of TensorFlow's modules are there after each step.
_WITHOUT_TENSORFLOW = """
import sys

def tell(step):
  print(step, *{name.partition(".")[0] for name in sys.modules if name.startswith("tensor")})

from dp_clustering import private_kmeans
from fl_clustering import kmeans
from fl_clustering import multiview
kmeans.FederatedKMeans, multiview.FederatedMultiViewKMeans
tell("imported")
import numpy as np
points = np.random.default_rng(0).normal(size=(60, 2))
model = kmeans.FederatedKMeans(3).fit(np.split(points, 3))
model.predict(points), model.transform(points), model.score(points)
tell("exact")
for settings in ({}, {"trust": "none"}):
  privacy = kmeans.PointPrivacy(1.0, 1e-3, 4.0, **settings)
  kmeans.FederatedKMeans(3, privacy=privacy).fit(np.split(points, 3))
  privacy = kmeans.ClientPrivacy(1.0, 1e-3, 4.0, 50, **settings)
  kmeans.FederatedKMeans(3, privacy=privacy).fit(np.split(points, 3))
  privacy = multiview.ViewPrivacy(1.0, 1e-3, (4.0,), **settings)
  multiview.FederatedMultiViewKMeans(3, standardize=False, privacy=privacy).fit(points)
tell("private")
multiview.FederatedMultiViewKMeans(3, n_init=1).fit(points).predict(points)
tell("views")
private_kmeans.PrivateKMeans(3, epsilon=1.0, delta=1e-3, radius=4.0).fit(points)
tell("dp_clustering")
"""

class FreshProcessTest(absltest.TestCase):

  def test_fits_by_sums_import_no_tensorflow(self):
    printed = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", _WITHOUT_TENSORFLOW], check=True,
        stdout=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    ).stdout
    self.assertEqual(
        printed.splitlines(), ["imported", "exact", "private", "views", "dp_clustering"]
    )


class OfTheCallerTest(absltest.TestCase):

  def test_without_tff_only_other_algorithms_are_refused(self):
    with mock.patch.object(importlib.util, "find_spec", lambda name: None):
      kmeans.FederatedKMeans(2).fit(np.eye(4))
      with self.assertRaisesRegex(ModuleNotFoundError, "^TensorFlow Federated must be installed"):
        kmeans.FederatedKMeans(2, "lloyd").fit(np.eye(4))

  def test_only_other_algorithms_start_a_worker_and_end_it(self):
    pids, start = [], subprocess.Popen.__init__

    def record(process, args, **kwargs):
      start(process, args, **kwargs)
      if any(part.endswith("worker_binary") for part in args):
        pids.append(process.pid)

    with runtime.LocalRuntime():  # A fit after it finds no context of the caller.
      pass
    with mock.patch.object(subprocess.Popen, "__init__", record):
      for algorithm, num_started in (("sums", 0), ("lloyd", 1), ("sums", 1)):
        model = kmeans.FederatedKMeans(1, algorithm).fit(np.array([[0.0], [2.0]]))
        self.assertAlmostEqual(model.inertia_, 2, places=4)
        self.assertLen(pids, num_started)
        self.assertFalse(any(map(psutil.pid_exists, pids)))


if __name__ == "__main__":
  absltest.main()
