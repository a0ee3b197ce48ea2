import dataclasses

from absl.testing import parameterized
import numpy as np
import sklearn.metrics
import tensorflow as tf

from fl_clustering.engine import cost
from fl_clustering.engine.jax import engine
from fl_clustering.engine.tff import client_update
from fl_clustering.methods import method
from fl_clustering.tasks import federated_task
from fl_clustering.tasks import held_out
from fl_clustering.three_phase import result
from fl_clustering.three_phase import scoring
from tests import letters
from tests import small_task

_task = None
_engine = None
_vectors = None


def setUpModule():
  global _task, _engine, _vectors
  _task = small_task.small_task()
  _engine = _make_engine(_task)
  _vectors = small_task.vectors(_task, 3)


def _make_engine(task):
  return engine.Engine(task, 20, 0.1, 0)


def _confusion(vector, examples):
  """Returns the confusion matrix by TensorFlow in one piece and scikit-learn."""
  logits = _task.model.logits(
      client_update.unflatten(_task.model, vector),
      tf.constant(examples.features.astype(np.float32) / 255),
      None,
  )
  return sklearn.metrics.confusion_matrix(
      examples.labels, np.argmax(logits, axis=1), labels=range(10)
  )


def _client_test(name):
  return _task.clients[letters.clients(name)[0]].test


class ScoringTest(parameterized.TestCase):

  def test_on_other_data_of_some_of_the_clients(self):
    members_of = letters.clusters("ac", "bce", "d")
    validation = {client.client_id: client.train for client in _task.clients}
    task = dataclasses.replace(_task, clients=federated_task.PooledClients.of([
        dataclasses.replace(one, validation=one.train) if one.client_id in "bcd" else one
        for one in _task.clients
    ]))
    engine_ = _make_engine(task)
    self.assertEqual(letters.name(engine_.validated), "bcd")
    clients, clusters = scoring.on_clients_and_clusters(
        engine_, _vectors, members_of, engine_.validated, "validation"
    )
    models = {"b": _vectors[1], "c": _vectors[:2].mean(axis=0), "d": _vectors[2]}
    self.assertLen(clients, 3)
    for name, confusion in zip("bcd", clients):
      np.testing.assert_array_equal(confusion, _confusion(models[name], validation[name]))
    np.testing.assert_array_equal(clusters[0], _confusion(_vectors[0], validation["c"]))
    np.testing.assert_array_equal(
        clusters[1],
        _confusion(_vectors[1], validation["b"]) + _confusion(_vectors[1], validation["c"]),
    )

  def test_on_some_of_the_clients(self):
    members_of = letters.clusters("ac", "bcde", "")
    every, _ = scoring.on_clients_and_clusters(_engine, _vectors, members_of, _engine.clients)
    some = letters.clients("ce")
    clients, clusters = scoring.on_clients_and_clusters(_engine, _vectors, members_of, some)
    np.testing.assert_array_equal(clients, every[some])
    np.testing.assert_array_equal(clusters[0], _confusion(_vectors[0], _client_test("c")))
    np.testing.assert_array_equal(clusters[2], np.zeros((10, 10)))

  @parameterized.parameters((("ac", "be", "d"),), (("ace", "bc", "cd"),), (("abcde", "", "b"),))
  def test_a_client_is_judged_by_the_mean_of_its_clusters_models(self, members_of):
    clients, clusters = scoring.on_clients_and_clusters(
        _engine, _vectors, letters.clusters(*members_of), _engine.clients
    )
    for name, confusion in zip("abcde", clients):
      own = [k for k, members in enumerate(members_of) if name in members]
      mean = _vectors[own].mean(axis=0, dtype=np.float64).astype(np.float32)
      np.testing.assert_array_equal(confusion, _confusion(mean, _client_test(name)))
    for k, members in enumerate(members_of):
      expected = sum(_confusion(_vectors[k], _client_test(c)) for c in members)
      np.testing.assert_array_equal(clusters[k], expected + np.zeros((10, 10)))

  def test_every_client_must_be_in_a_cluster(self):
    with self.assertRaisesRegex(ValueError, "^`clusters`.* 3"):
      scoring.on_clients_and_clusters(
          _engine, _vectors[:2], letters.clusters("ab", "ce"), _engine.clients
      )

  def test_what_is_of_a_cluster_stays_with_it_where_others_are_left_out(self):
    with_new_client = _make_engine(held_out.HeldOut(num_new_clients=1).of_task(_task, 0))
    self.assertEqual(letters.name(with_new_client.clients), "abcd")
    outcome = result.Outcome(
        # The first cluster is empty.
        method.ClusterState(_vectors, letters.clusters("", "a", "bcd")),
        np.array([0.9, 0.2, 0.6]),
        cost.Cost(),
    )
    placement = method.Placement(((2,),), _vectors[[2]])
    found = scoring.evaluate(with_new_client, outcome, placement, with_new_client.clients)
    self.assertEqual(letters.names(found.assignment.clusters), ("a", "bcd"))
    np.testing.assert_array_equal(found.vectors, _vectors[1:])
    np.testing.assert_array_equal(found.best_accuracy, [0.2, 0.6])
    self.assertEqual(found.new_client_clusters, ((1,),))
    for confusion, weights in ((found.global_mean, (1, 1)), (found.global_weighted, (0.2, 0.6))):
      mean = np.average(_vectors[1:], axis=0, weights=weights).astype(np.float32)
      np.testing.assert_array_equal(confusion, _confusion(mean, _task.global_test))
    self.assertFalse(np.array_equal(found.global_mean, found.global_weighted))
