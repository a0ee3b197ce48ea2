from absl.testing import absltest
import numpy as np

from experiments.private import digits_embeddings


class DigitsEmbeddingsTest(absltest.TestCase):

  @classmethod
  def setUpClass(cls):
    super().setUpClass()
    cls.points, cls.accuracy, cls.source = digits_embeddings.embeddings(seed=0, epochs=1)

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
    again, accuracy, _ = digits_embeddings.embeddings(seed=0, epochs=1)
    other, _, _ = digits_embeddings.embeddings(seed=1, epochs=1)

    np.testing.assert_array_equal(again, self.points)
    self.assertEqual(accuracy, self.accuracy)
    self.assertFalse(np.array_equal(other, self.points))


if __name__ == "__main__":
  absltest.main()
