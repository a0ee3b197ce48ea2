from unittest import mock

from absl.testing import absltest
import numpy as np
import tensorflow as tf

from fl_clustering.engine.tff import client_moments
from fl_clustering.engine.tff import client_update
from fl_clustering.engine.tff import evaluation
from tests import local_runtime
from tests import small_task
from tests.engine.tff import small_engine
from tests.engine.tff import small_messages

# All clients.
_ALL = np.arange(5)
_TASK = small_task.small_task()
_VECTOR = np.random.default_rng(0).normal(size=_TASK.num_parameters).astype(np.float32) / 20

setUpModule = local_runtime.use


def _moments(clients, by_label=True):
  return client_moments.moments(_TASK.model, small_engine.files(_TASK), _VECTOR, clients, by_label)


def _outputs(client):
  """Returns the model's outputs on a client's training data, float64 of shape (n, 10)."""
  inputs = client_update.model_inputs(tf.constant(client.train.features))
  parameters = client_update.unflatten(_TASK.model, tf.constant(_VECTOR))
  return _TASK.model.logits(parameters, inputs, None).numpy().astype(np.float64)


class SegmentMomentsTest(absltest.TestCase):

  def test_of_each_segment(self):
    rows = tf.constant([[1, 5], [7, 7], [3, 5]], tf.float32)
    found = tf.function(client_moments.segment_moments)(rows, tf.constant([2, 0, 2]), 3)
    nothing = [[np.nan] * 2] * 2
    np.testing.assert_array_equal(found, [[[7, 7], [0, 0]], nothing, [[2, 5], [1, 0]]])


class ClientMomentsTest(absltest.TestCase):

  def test_equal_numpys(self):
    for client, found in zip(_TASK.clients, _moments(_ALL)):
      outputs = _outputs(client)
      self.assertEqual((found.shape, found.dtype), ((11, 2, 10), np.float32))
      for moments, rows in (
          (found[0], outputs),
          *((found[1 + k], outputs[client.train.labels == k]) for k in range(10)),
      ):
        if len(rows):
          np.testing.assert_allclose(moments, [rows.mean(axis=0), rows.std(axis=0)], atol=1e-5)
        else:
          self.assertTrue(np.all(np.isnan(moments)))

  def test_without_labels_are_those_over_all(self):
    found = _moments(_ALL, by_label=False)
    self.assertEqual(found.shape, (len(_TASK.clients), 1, 2, 10))
    np.testing.assert_allclose(found, _moments(_ALL)[:, :1], rtol=1e-6)
    self.assertEqual(_moments(_ALL[:0]).shape, (0, 11, 2, 10))

  def test_in_batches(self):
    whole = _moments(_ALL)
    with mock.patch.object(evaluation, "BATCH_EXAMPLES", 3):
      client_moments.build_moments.cache_clear()
      parts = _moments(_ALL)
    client_moments.build_moments.cache_clear()
    np.testing.assert_allclose(parts, whole, atol=1e-5)

  def test_messages_of_any_size_give_the_same_in_any_order(self):
    whole = _moments(_ALL)
    inner = client_moments.build_moments(_TASK.model, True)
    find_all = mock.Mock(side_effect=lambda *args: list(inner(*args))[::-1])
    with (
        small_messages.limit(2 * 4 * 11 * 2 * 10),
        mock.patch.object(client_moments, "build_moments", return_value=find_all),
    ):
      parts = _moments(_ALL)
    self.assertEqual([len(call.args[1]) for call in find_all.call_args_list], [2, 2, 1])
    np.testing.assert_array_equal(parts, whole)


if __name__ == "__main__":
  absltest.main()
