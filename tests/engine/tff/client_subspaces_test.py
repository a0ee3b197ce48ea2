import dataclasses
from unittest import mock

from absl.testing import absltest
from absl.testing import parameterized
import numpy as np
import tensorflow as tf

from fl_clustering.engine.tff import client_subspaces
from fl_clustering.tasks import examples as examples_lib
from fl_clustering.tasks import federated_task
from tests import local_runtime
from tests import small_task
from tests.engine.tff import small_engine
from tests.engine.tff import small_messages

# All clients.
_ALL = np.arange(7)


def _with_odd_clients(task):
  """Returns the task with a client of dependent images and one of blank paper."""
  images = task.clients[4].train.features[[0, 0, 1, 1, 1]]
  twins = examples_lib.Examples(images, np.array([7, 7, 7, 7, 2], np.uint8))
  blank = examples_lib.Examples(np.zeros_like(images), np.full(5, 3, np.uint8))
  test = task.clients[4].test
  return dataclasses.replace(
      task,
      clients=federated_task.PooledClients.of((
          *task.clients,
          federated_task.ClientData("twins", twins, test),
          federated_task.ClientData("blank", blank, test),
      )),
  )


_TASK = _with_odd_clients(small_task.small_task())

setUpModule = local_runtime.use


def _subspaces(clients, num_vectors):
  return client_subspaces.subspaces(_TASK.model, small_engine.files(_TASK), clients, num_vectors)


def _columns(examples, label):
  rows = examples.features[examples.labels == label].reshape(-1, 784)
  return rows.T.astype(np.float64) / 255


def _singular_vectors(matrix, num_vectors):
  """Returns NumPy's singular vectors; their largest components are positive."""
  vectors = np.linalg.svd(matrix, full_matrices=False)[0][:, :num_vectors]
  return vectors * np.sign(vectors[np.argmax(np.abs(vectors), 0), range(vectors.shape[1])])


class LeftSingularVectorsTest(parameterized.TestCase):

  @parameterized.named_parameters(
      ("few columns", (12, 5), 3), ("many columns", (5, 12), 3), ("square", (6, 6), 6)
  )
  def test_equals_numpy(self, shape, num_vectors):
    matrix = np.random.default_rng(0).normal(size=shape)
    vectors = tf.function(client_subspaces.left_singular_vectors)(tf.constant(matrix), num_vectors)
    np.testing.assert_allclose(vectors, _singular_vectors(matrix, num_vectors), atol=1e-9)

  def test_a_negative_largest_component_changes_its_sign(self):
    vectors = tf.function(client_subspaces.left_singular_vectors)(
        tf.constant([[0.6], [-0.8]], tf.float64), 1
    )
    np.testing.assert_allclose(vectors, [[-0.6], [0.8]], atol=1e-12)

  def test_missing_vectors_are_zero(self):
    column = np.array([[3.0], [4.0], [0.0]])
    for matrix in (column, np.hstack([column] * 2), np.hstack([column] * 4)):
      vectors = tf.function(client_subspaces.left_singular_vectors)(tf.constant(matrix), 3)
      np.testing.assert_allclose(vectors, [[0.6, 0, 0], [0.8, 0, 0], [0, 0, 0]], atol=1e-12)


class ClientSubspacesTest(parameterized.TestCase):

  @parameterized.parameters(1, 3)
  def test_equals_numpys_svd_of_the_training_images(self, num_vectors):
    subspaces = _subspaces(_ALL[:5], num_vectors)
    self.assertLen(subspaces, 5)
    for client, bases in zip(_TASK.clients, subspaces):
      self.assertCountEqual(bases, set(client.train.labels))
      for label, basis in bases.items():
        expected = _singular_vectors(_columns(client.train, label), num_vectors)
        self.assertEqual(basis.dtype, np.float32)
        np.testing.assert_allclose(basis, expected, atol=1e-5)

  def test_follows_the_clients(self):
    self.assertEqual(_subspaces((), 2), [])
    with self.assertRaisesRegex(ValueError, "`num_vectors`"):
      _subspaces(_ALL, 0)
    whole = _subspaces(_ALL, 2)
    some = _subspaces(_ALL[[4, 1]], 2)
    for bases, expected in zip(some, (whole[4], whole[1])):
      self.assertCountEqual(bases, expected)
      for label in bases:
        np.testing.assert_array_equal(bases[label], expected[label])

  def test_dependent_images_have_fewer_vectors(self):
    (bases,) = _subspaces(_ALL[[5]], 3)
    self.assertEqual({k: basis.shape for k, basis in bases.items()}, {2: (784, 1), 7: (784, 2)})
    np.testing.assert_allclose(bases[7].T @ bases[7], np.eye(2), atol=1e-6)
    twins = _columns(_TASK.clients[5].train, 7)
    np.testing.assert_allclose(bases[7] @ (bases[7].T @ twins), twins, atol=1e-5)

  def test_as_many_vectors_as_there_are_images(self):
    few, many = (_subspaces(_ALL[:1], num)[0] for num in (7, 10**9))
    self.assertCountEqual(many, few)
    for label, basis in many.items():
      self.assertEqual(basis.shape[1], np.sum(_TASK.clients[0].train.labels == label))
      np.testing.assert_array_equal(basis, few[label])

  def test_blank_images_have_no_vectors(self):
    (bases,) = _subspaces(_ALL[[6]], 3)
    self.assertEqual({k: basis.shape for k, basis in bases.items()}, {3: (784, 0)})

  def test_messages_of_any_size_give_the_same_in_any_order(self):
    whole = _subspaces(_ALL, 2)
    inner = client_subspaces.build_subspaces(_TASK.model)
    find_all = mock.Mock(side_effect=lambda *args: list(inner(*args))[::-1])
    with (
        small_messages.limit(3 * 4 * 784 * 10 * 2),
        mock.patch.object(client_subspaces, "build_subspaces", return_value=find_all),
    ):
      parts = _subspaces(_ALL, 2)
    self.assertEqual([len(call.args[1]) for call in find_all.call_args_list], [3, 3, 1])
    for bases, expected in zip(parts, whole):
      self.assertCountEqual(bases, expected)
      for label in bases:
        np.testing.assert_array_equal(bases[label], expected[label])


if __name__ == "__main__":
  absltest.main()
