from unittest import mock

from absl.testing import absltest
import numpy as np
import tensorflow as tf

from fl_clustering.engine.tff import client_moments
from fl_clustering.engine.tff import evaluation
from tests import local_runtime
from tests import small_task
from tests.engine.tff import small_engine

# All clients.
_ALL = np.arange(5)
_TASK = small_task.small_task()
_VECTOR = np.random.default_rng(0).normal(size=_TASK.num_parameters).astype(np.float32) / 20

setUpModule = local_runtime.use


def _moments():
  return small_engine.engine(_TASK).moments(_VECTOR, _ALL, by_label=True)


class SegmentMomentsTest(absltest.TestCase):

  def test_of_each_segment(self):
    rows = tf.constant([[1, 5], [7, 7], [3, 5]], tf.float32)
    found = tf.function(client_moments.segment_moments)(rows, tf.constant([2, 0, 2]), 3)
    nothing = [[np.nan] * 2] * 2
    np.testing.assert_array_equal(found, [[[7, 7], [0, 0]], nothing, [[2, 5], [1, 0]]])


class ClientMomentsTest(absltest.TestCase):

  def test_in_batches(self):
    whole = _moments()
    with mock.patch.object(evaluation, "BATCH_EXAMPLES", 3):
      client_moments.build_moments.cache_clear()
      parts = _moments()
    client_moments.build_moments.cache_clear()
    np.testing.assert_allclose(parts, whole, atol=1e-5)
