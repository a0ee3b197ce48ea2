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

  def test_sends_points_and_settings_and_gets_centers(self):
    centers = self._process().centers(self.points, 3, 0.25, 7)

    bound = np.abs(self.points).max()
    expected = np.random.default_rng(7).normal(size=(3, 4)) / 100
    expected[0] = self.points.mean(axis=0)
    expected[1, :3] = 0.25, -bound, bound
    np.testing.assert_array_equal(centers, expected)

  def test_serves_one_call_after_another_and_other_points(self):
    process = self._process()
    others = self.points[::2] + 1  # Another number of points, not contiguous before.

    first = process.centers(self.points, 2, 1.0, 0)
    second = process.centers(others, 2, 1.0, 0)
    third = process.centers(others, 5, 1.0, 0)
    again = process.centers(self.points, 2, 1.0, 0)

    np.testing.assert_array_equal(first, again)
    np.testing.assert_array_equal(second[0], others.mean(axis=0))
    self.assertEqual(third.shape, (5, 4))

  def test_has_the_versions_of_the_other_python(self):
    versions = self._process().versions

    self.assertEqual(versions["diffprivlib"], "0.0-invented")
    self.assertEqual(versions["numpy"], np.__version__)

  def test_an_error_in_the_process_is_told(self):
    process = self._process()

    with self.assertRaisesRegex(
        diffprivlib_process.ProcessEnded, "code 1: ArithmeticError: thirteen clusters"):
      process.centers(self.points, 13, 1.0, 0)

    # A new one goes on.
    self.assertEqual(process.centers(self.points, 2, 1.0, 0).shape, (2, 4))

  def test_ends_the_process(self):
    with self._process() as process:
      number = process.pid

    with self.assertRaises(ProcessLookupError):
      os.kill(number, 0)

  def test_a_python_without_the_package(self):
    python = fake_diffprivlib.write_python(self.folder, with_package=False)

    with self.assertRaisesRegex(
        diffprivlib_process.Unavailable, "no diffprivlib that works .*No module named"):
      diffprivlib_process.DiffprivlibProcess(python)

  @parameterized.named_parameters(
      ("nothing_there", "/no/such/python", "can't be run .*No such file"),
      ("no_python", "/bin/false", r"no diffprivlib that works \(code 1\)"),
  )
  def test_what_is_no_python(self, path, message):
    with self.assertRaisesRegex(diffprivlib_process.Unavailable, message):
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
