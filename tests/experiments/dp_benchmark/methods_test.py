import contextlib
import os
from unittest import mock
import warnings

from absl.testing import absltest
from absl.testing import parameterized
import numpy as np

from dp_clustering import metrics
from experiments.dp_benchmark import data
from experiments.dp_benchmark import diffprivlib_process
from experiments.dp_benchmark import methods
from tests.experiments.dp_benchmark import fake_diffprivlib

_IN_PROCESS = ("sklearn", "lsh", "refine")


def _clusters(num_points=6000, **known):
  """Returns a data set of three small clusters in the unit ball."""
  rng = np.random.default_rng(0)
  centers = np.array([[0.7, 0.0, 0.0], [-0.5, 0.5, 0.0], [0.0, -0.6, 0.5]])
  points = centers[np.arange(num_points) % 3] + rng.normal(0, 0.02, (num_points, 3))
  return data.BenchmarkDataset("synthetic", points, "three clusters", **known)


class MethodsTest(parameterized.TestCase):

  def _loss(self, method, known=(), **changes):
    dataset = _clusters(**dict(known))
    arguments = {"k": 3, "epsilon": 1.0, "delta": 1e-6, "seed": 0, **changes}
    loaded = methods.load((method,), None, self.enter_context(contextlib.ExitStack()))
    centers = loaded.by_name[method](dataset, *arguments.values()).centers
    self.assertEqual(centers.shape, (arguments["k"], 3))
    return metrics.nonprivate_labels_and_loss(dataset.points, centers, 1.0)[1] / 6000

  @parameterized.parameters(*_IN_PROCESS, *methods.FEDERATED)
  def test_finds_clear_clusters_as_the_seed_and_the_budget_decide(self, method):
    # The clusters' own loss is 3 * 0.02**2; one center for all would have about 0.5.
    loss = self._loss(method, epsilon=8.0)
    self.assertBetween(loss, 0.001, 0.01)
    self.assertEqual(self._loss(method, epsilon=8.0), loss)
    if method == "sklearn":  # It is not private.
      self.assertEqual(self._loss(method, epsilon=0.01), loss)
      return
    self.assertNotEqual(self._loss(method, epsilon=8.0, seed=1), loss)
    self.assertGreater(self._loss(method, epsilon=0.05), loss)

  def test_privacy_of_clients_costs_more(self):
    clients = {"client_sizes": (300,) * 20}
    self.assertGreater(
        self._loss("refine_server", {**clients, "unit_points": 300}, epsilon=0.5),
        self._loss("refine_server", clients, epsilon=0.5),
    )

  @parameterized.parameters("lsh", "refine")
  def test_privacy_of_many_points_costs_as_many_times_the_mu(self, method):
    together, one = (
        methods._private_centers(method, dataset, 3, 1.0, 1e-6, 0).ledger
        for dataset in (_clusters(unit_points=20), _clusters())
    )
    self.assertAlmostEqual(together.mu_spent, one.mu_spent / 20, places=6)
    self.assertEqual((one.epsilon, one.delta), (1.0, 1e-6))
    self.assertFalse(one.is_private)  # The noise is seeded.

  def test_many_points_of_diffprivlib_share_the_epsilon(self):
    process = mock.Mock()
    methods._diffprivlib_centers(process, _clusters(30, unit_points=20), 3, 1.0, 1e-6, 0)
    self.assertEqual(process.centers.call_args.args[1:], (3, 1 / 20, 0))

  def test_diffprivlib_ends_with_the_stack(self):
    python = fake_diffprivlib.write_python(self.create_tempdir().full_path)
    with contextlib.ExitStack() as stack:
      loaded = methods.load(("diffprivlib",), python, stack)
      number = loaded.by_name["diffprivlib"].args[0]._process.pid
      os.kill(number, 0)
    with self.assertRaises(ProcessLookupError):
      os.kill(number, 0)


class DiffprivlibProcessTest(parameterized.TestCase):

  def setUp(self):
    super().setUp()
    self.folder = self.create_tempdir().full_path
    self.points = np.random.default_rng(0).normal(size=(500, 4))

  def _process(self):
    python = fake_diffprivlib.write_python(self.folder)
    return self.enter_context(diffprivlib_process.DiffprivlibProcess(python))

  def test_sends_points_and_settings_and_gets_centers_call_after_call(self):
    process = self._process()
    others = self.points[::2] + 1  # Another number of points, not contiguous before.
    for points, k, epsilon, seed in (
        (self.points, 3, 0.25, 7), (others, 2, 1.0, 0), (others, 5, 1.0, 0),
        (self.points, 2, 1.0, 0),
    ):
      expected = np.random.default_rng(seed).normal(size=(k, 4)) / 100
      expected[0] = points.mean(axis=0)
      bound = np.abs(points).max()
      expected[1, :3] = epsilon, -bound, bound
      np.testing.assert_array_equal(process.centers(points, k, epsilon, seed), expected)
    self.assertEqual(process.versions["diffprivlib"], "0.0-invented")
    self.assertEqual(process.versions["numpy"], np.__version__)

  def test_an_error_in_the_process_is_told_and_a_new_one_goes_on(self):
    process = self._process()
    first = process._process
    with self.assertRaisesRegex(diffprivlib_process.ProcessEnded, "code 1: .*thirteen clusters"):
      process.centers(self.points, 13, 1.0, 0)
    self.assertEqual(process.centers(self.points, 2, 1.0, 0).shape, (2, 4))
    self.assertTrue(first.stdin.closed and first.stdout.closed)

  def test_one_that_can_not_be_started_anew_has_ended(self):
    process = self._process()
    with self.assertRaises(diffprivlib_process.ProcessEnded):
      process.centers(self.points, 13, 1.0, 0)
    os.remove(os.path.join(self.folder, "python"))
    with self.assertRaises(diffprivlib_process.ProcessEnded):
      process.centers(self.points, 2, 1.0, 0)

  @parameterized.parameters("/no/such/python", "/bin/false", "/bin/echo", "without the package")
  def test_what_is_no_python_with_the_package(self, path):
    if path == "without the package":
      path = fake_diffprivlib.write_python(self.folder, with_package=False)
    with warnings.catch_warnings(record=True) as left_open:
      warnings.simplefilter("always", ResourceWarning)
      with self.assertRaises(diffprivlib_process.Unavailable):
        diffprivlib_process.DiffprivlibProcess(path)
    self.assertEmpty(left_open)


if __name__ == "__main__":
  absltest.main()
