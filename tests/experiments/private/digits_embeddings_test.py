import dataclasses
from unittest import mock

from absl.testing import absltest
import numpy as np

from experiments.private import digits_embeddings
from fl_clustering.tasks import digits


def _embeddings(data, seed):
  with mock.patch.object(digits, "load", return_value=data):
    return digits_embeddings.embeddings(seed, epochs=1)


class DigitsEmbeddingsTest(absltest.TestCase):

  @classmethod
  def setUpClass(cls):
    super().setUpClass()
    cls.data = digits.load()
    cls.points, cls.accuracy, cls.source = _embeddings(cls.data, seed=0)

  def test_every_digit_has_an_embedding(self):
    self.assertEqual(self.points.shape, (5000, digits_embeddings.DIM))
    self.assertTrue(np.isfinite(self.points).all())
    self.assertGreaterEqual(self.points.min(), 0)
    self.assertIn("5,000 MNIST digits", self.source)

  def test_the_network_learns(self):
    # A guess is right for a tenth of them; one pass gives about nine tenths.
    self.assertGreater(self.accuracy, 0.7)

  def test_embeddings_differ_from_digit_to_digit(self):
    self.assertGreater(np.unique(self.points, axis=0).shape[0], 4900)

  def test_only_the_seed_changes_them(self):
    few = dataclasses.replace(
        self.data,
        pool=self.data.pool.take(np.arange(400)),
        global_test=self.data.global_test.take(np.arange(100)),
    )
    first, accuracy, _ = _embeddings(few, seed=0)
    again, accuracy_again, _ = _embeddings(few, seed=0)
    other, _, _ = _embeddings(few, seed=1)

    np.testing.assert_array_equal(again, first)
    self.assertEqual(accuracy_again, accuracy)
    self.assertFalse(np.array_equal(other, first))


if __name__ == "__main__":
  absltest.main()
