"""Tests of the sketches that clients send; `client_messages_test` has what a sketch is."""

import functools
from unittest import mock

from absl.testing import absltest
import numpy as np
import tensorflow as tf

from fl_clustering.engine import cost as cost_lib
from fl_clustering.engine.tff import client_sketches
from fl_clustering.engine.tff import client_update
from tests import letters
from tests import local_runtime
from tests import small_task
from tests.engine.tff import small_engine
from tests.engine.tff import small_messages

_SIZE = 16

_TASK = small_task.small_task()

setUpModule = local_runtime.use


@functools.cache
def _engine():
  return small_engine.engine()


def _sketches(clients):
  return _engine().sketches(clients, _SIZE)


class ClientSketchesTest(absltest.TestCase):

  def test_are_those_of_each_clients_training_data(self):
    before = _engine().cost
    clients = letters.clients("eac")
    found = _sketches(clients)
    self.assertEqual((found.shape, found.dtype), ((3, _SIZE), np.float32))
    for sketch, client in zip(found, clients):
      train = _TASK.clients[client].train
      examples = (
          client_update.model_inputs(tf.constant(train.features)),
          tf.constant(train.labels.astype(np.int32)),
      )
      expected = client_sketches.sketch(_TASK.model, examples, _SIZE)
      np.testing.assert_allclose(sketch, expected, atol=1e-6)
      self.assertAlmostEqual(np.linalg.norm(sketch), 1, places=6)
    self.assertEqual(_engine().cost - before, cost_lib.Cost(0, 0, 3 * 4 * _SIZE))

  def test_messages_of_any_size_give_the_same_in_any_order(self):
    whole = _sketches(_engine().clients)
    inner = client_sketches.build_sketches(_TASK.model, _SIZE)
    find_all = mock.Mock(side_effect=lambda *args: list(inner(*args))[::-1])
    with (
        small_messages.limit(2 * 4 * _SIZE),
        mock.patch.object(client_sketches, "build_sketches", return_value=find_all),
    ):
      parts = _sketches(_engine().clients)
    self.assertEqual([len(call.args[1]) for call in find_all.call_args_list], [2, 2, 1])
    np.testing.assert_array_equal(parts, whole)


if __name__ == "__main__":
  absltest.main()
