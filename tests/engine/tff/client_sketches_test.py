"""Tests of the sketches that clients send; `client_messages_test` has what a sketch is."""

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

_SIZE = 16

_TASK = small_task.small_task()

setUpModule = local_runtime.use


class ClientSketchesTest(absltest.TestCase):

  def test_are_those_of_each_clients_training_data(self):
    engine, clients = small_engine.engine(), letters.clients("eac")
    found = engine.sketches(clients, _SIZE)
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
    self.assertEqual(engine.cost, cost_lib.Cost(0, 0, 3 * 4 * _SIZE))
