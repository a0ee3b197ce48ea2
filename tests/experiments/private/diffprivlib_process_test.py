import os

from absl.testing import absltest
from absl.testing import parameterized
import numpy as np

from experiments.private import diffprivlib_process
from tests.experiments.private import fake_diffprivlib


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
    with self.assertRaisesRegex(diffprivlib_process.ProcessEnded, "code 1: .*thirteen clusters"):
      process.centers(self.points, 13, 1.0, 0)
    self.assertEqual(process.centers(self.points, 2, 1.0, 0).shape, (2, 4))

  def test_ends_the_process(self):
    with self._process() as process:
      number = process.pid
    with self.assertRaises(ProcessLookupError):
      os.kill(number, 0)

  @parameterized.parameters("/no/such/python", "/bin/false", "without the package")
  def test_what_is_no_python_with_the_package(self, path):
    if path == "without the package":
      path = fake_diffprivlib.write_python(self.folder, with_package=False)
    with self.assertRaises(diffprivlib_process.Unavailable):
      diffprivlib_process.DiffprivlibProcess(path)

  def test_the_real_one(self):
    python = diffprivlib_process.default_python()
    if python is None:
      self.skipTest("There is a Python with diffprivlib only under Bazel.")
    with diffprivlib_process.DiffprivlibProcess(python) as process:
      centers = process.centers(self.points, 3, 10.0, 0)
    self.assertEqual(centers.shape, (3, 4))
    self.assertLessEqual(np.abs(centers).max(), np.abs(self.points).max())


if __name__ == "__main__":
  absltest.main()
