from absl.testing import absltest
from absl.testing import parameterized
import numpy as np

from fl_clustering.engine import subspaces
from fl_clustering.tasks import examples as examples_lib


def _singular_vectors(matrix, num_vectors):
  """Returns NumPy's singular vectors; their largest components are positive."""
  vectors = np.linalg.svd(matrix, full_matrices=False)[0][:, :num_vectors]
  return vectors * np.sign(vectors[np.argmax(np.abs(vectors), 0), range(vectors.shape[1])])


class LeftSingularVectorsTest(parameterized.TestCase):

  @parameterized.parameters(((5, 12), 3), ((12, 5), 3), ((6, 6), 6))
  def test_equals_numpys_svd(self, shape, num_vectors):
    rows = np.random.default_rng(0).normal(size=shape)
    before = rows.copy()
    vectors = subspaces.left_singular_vectors(rows, num_vectors)
    np.testing.assert_allclose(vectors, _singular_vectors(rows.T, num_vectors), atol=1e-9)
    np.testing.assert_array_equal(rows, before)

  def test_a_negative_largest_component_changes_its_sign(self):
    vectors = subspaces.left_singular_vectors(np.array([[0.6, -0.8]]), 1)
    np.testing.assert_allclose(vectors, [[-0.6], [0.8]], atol=1e-12)

  def test_only_what_is_below_the_rounding_counts_as_zero(self):
    for least, num_vectors in ((1e-4, 2), (1e-6, 1)):
      vectors = subspaces.left_singular_vectors(np.diag([1.0, least]), 2)
      self.assertEqual(vectors.shape, (2, num_vectors))

  def test_dependent_rows_have_fewer_vectors_and_zeros_none(self):
    row = np.array([[3.0, 4.0, 0.0]])
    for rows in (row, np.vstack([row] * 2), np.vstack([row] * 4)):
      vectors = subspaces.left_singular_vectors(rows, 3)
      np.testing.assert_allclose(vectors, [[0.6], [0.8], [0]], atol=1e-12)
    self.assertEqual(subspaces.left_singular_vectors(np.zeros((2, 3)), 3).shape, (3, 0))


class OfClientTest(absltest.TestCase):

  def test_bytes_count_in_0_to_1_and_labels_apart(self):
    features = np.array([[[51], [0]], [[0], [255]], [[0], [102]]], np.uint8)
    examples = examples_lib.Examples(features[..., None], np.array([7, 2, 2], np.uint8))
    found = subspaces.of_client(examples, 3)
    self.assertEqual(list(found), [2, 7])
    self.assertEqual(found[2].dtype, np.float32)
    np.testing.assert_array_equal(found[2], [[0], [1]])
    np.testing.assert_array_equal(found[7], [[1], [0]])
