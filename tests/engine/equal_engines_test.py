"""The engines give the same numbers for the same clients, whose order nobody draws."""

import dataclasses
from unittest import mock

from absl.testing import parameterized
import numpy as np
import tensorflow as tf

from fl_clustering.engine import participation
from fl_clustering.engine import personalization
from fl_clustering.engine.tff import client_sketches
from fl_clustering.methods import client_weights
from fl_clustering.methods import method as method_lib
from fl_clustering.methods import registry
from fl_clustering.three_phase import config as config_lib
from tests import letters
from tests import local_runtime
from tests import nightly
from tests import own_tasks
from tests import small_task
from tests.engine import both_engines
from tests.engine.tff import small_engine

_RATE, _SEED = 0.1, 3
_ALL_EXAMPLES = small_task.ALL_EXAMPLES
# Overlapping; the third takes nobody who is in the round.
_CLUSTERS = letters.clusters("abd", "bce", "c")
_ROUND = participation.Round(2, letters.clients("abde"), 2)
# Of methods and controls that ask the same of an engine, one.
_ROUNDS_BY_DAY = ("kmeans", "ifca", "cfl", "pacfl", "flux", "local", "fedrep")

setUpModule = local_runtime.use


def _of_tff(task):
  return small_engine.engine(task, _ALL_EXAMPLES, _RATE, _SEED)


def _of_jax(task, **more):
  return both_engines.of_jax(task, _ALL_EXAMPLES, _RATE, _SEED, **more)


def _vectors(task, num_models=3):
  return small_task.vectors(task, num_models)


class EqualEnginesTest(parameterized.TestCase):

  def assert_same_losses(self, found, expected):
    for one, other in zip(found, expected, strict=True):
      one, other = (dict(zip(part.clients.tolist(), part.values)) for part in (one, other))
      self.assertEqual(set(one), set(other))
      for client, loss in one.items():
        self.assertAlmostEqual(loss, other[client], places=5)

  @parameterized.product(model=["logistic", "cnn_small"], num_models=[1, 3])
  def test_train(self, model, num_models):
    # By day, `networks_test` compares its gradients.
    nightly.skip_by_day(self, model == "cnn_small")
    task = small_task.small_task(model)
    vectors, members = _vectors(task, num_models), _CLUSTERS[:num_models]
    ours, theirs = _of_jax(task, clients_per_block=4), _of_tff(task)
    found, losses = ours.train(vectors, members, _ROUND)
    expected, expected_losses = theirs.train(vectors, members, _ROUND)
    self.assertGreater(np.abs(expected - vectors).max(), 1e-3)
    np.testing.assert_allclose(found, expected, atol=1e-6)
    np.testing.assert_array_equal(found[2:], vectors[2:])
    self.assert_same_losses(losses, expected_losses)
    ours.train(vectors, members, _ROUND, already_sent=True)
    theirs.train(vectors, members, _ROUND, already_sent=True)
    self.assertEqual(ours.cost, theirs.cost)

  def test_train_members(self):
    task = own_tasks.table_task("mlp", hidden_units="7,5")
    vectors = _vectors(task)
    ours, theirs = _of_jax(task, clients_per_block=4), _of_tff(task)
    found, own, losses = ours.train_members(vectors, _CLUSTERS, _ROUND)
    expected, expected_own, expected_losses = theirs.train_members(vectors, _CLUSTERS, _ROUND)
    np.testing.assert_allclose(found, expected, atol=1e-6)
    for one, other, mine, yours in zip(own, expected_own, losses, expected_losses, strict=True):
      np.testing.assert_allclose(
          one[np.argsort(mine.clients)], other[np.argsort(yours.clients)], atol=1e-6
      )
    self.assert_same_losses(losses, expected_losses)
    self.assertEqual(ours.cost, theirs.cost)

  def test_train_each(self):
    task = own_tasks.table_task("mlp", hidden_units="7,5")
    clients, vectors = letters.clients("ecb"), _vectors(task)
    ours, theirs = _of_jax(task, clients_per_block=2), _of_tff(task)
    found, losses = ours.train_each(vectors, clients, _ROUND)
    expected, expected_losses = theirs.train_each(vectors, clients, _ROUND)
    np.testing.assert_allclose(found, expected, atol=1e-6)
    self.assert_same_losses([losses], [expected_losses])
    self.assertEqual(ours.cost, theirs.cost)

  @parameterized.parameters(
      {"pull": 0.4}, {"head_epochs": 1}, {"is_mixture": True},
      {"pull": 0.4, "is_mixture": True, "learns_share": True},
  )
  def test_train_own(self, **how):
    # By day, the simplest and all at once; a round of `fedrep` has a head.
    nightly.skip_by_day(self, "pull" not in how)
    task = own_tasks.table_task("mlp", hidden_units="7,5")
    (*_, common), clients = _vectors(task, 6), letters.clients("ecba")
    shares = np.linspace(0.2, 0.8, 4, dtype=np.float32)
    how = personalization.Personalization(**how)
    ours, theirs = _of_jax(task, clients_per_block=2), _of_tff(task)
    (found, found_shares, losses), (expected, expected_shares, expected_losses) = (
        engine.train_own(_vectors(task, 4), clients, _ROUND, common, how, shares, num_shared=7)
        for engine in (ours, theirs)
    )
    self.assertGreater(np.abs(expected - _vectors(task, 4)).max(), 1e-3)
    np.testing.assert_allclose(found, expected, atol=1e-6)
    np.testing.assert_allclose(found_shares, expected_shares, atol=1e-6)
    self.assertEqual((expected_shares != shares).any(), how.learns_share)
    self.assert_same_losses([losses], [expected_losses])
    self.assertEqual(ours.cost, theirs.cost)

  @parameterized.parameters(False, True)
  def test_moments(self, by_label):
    task = own_tasks.table_task("mlp", hidden_units="7,5")
    (vector,), clients = _vectors(task, 1), letters.clients("ecb")
    ours, theirs = _of_jax(task), _of_tff(task)
    found, expected = (one.moments(vector, clients, by_label) for one in (ours, theirs))
    np.testing.assert_allclose(found, expected, atol=1e-5)
    self.assertEqual(ours.cost, theirs.cost)

  def test_losses_and_confusions(self):
    task = small_task.small_task()
    vectors, clients = _vectors(task), letters.clients("eba")
    ours, theirs = _of_jax(task), _of_tff(task)
    np.testing.assert_allclose(
        ours.losses(vectors, clients), theirs.losses(vectors, clients), atol=1e-5
    )
    self.assertEqual(ours.cost, theirs.cost)
    for found, expected in zip(
        ours.confusions(vectors, _CLUSTERS), theirs.confusions(vectors, _CLUSTERS), strict=True
    ):
      np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(
        ours.global_confusions(vectors), theirs.global_confusions(vectors)
    )

  @parameterized.parameters(False, True)
  def test_validation_and_new_clients(self, new_have_some):
    task = own_tasks.table_task()
    new = task.clients[-1:]
    self.assertIsNotNone(new.validation)
    new = new if new_have_some else dataclasses.replace(new, validation=None)
    task = dataclasses.replace(task, clients=task.clients[:-1], new_clients=new)
    ours, theirs = _of_jax(task), _of_tff(task)
    for name in ("clients", "new_clients", "num_examples", "validated"):
      np.testing.assert_array_equal(getattr(ours, name), getattr(theirs, name))
    self.assertEqual(ours.client_ids, theirs.client_ids)
    self.assertEqual(ours.new_client_ids, theirs.new_client_ids)
    self.assertLess(0, len(ours.validated))
    self.assertContainsSubset(ours.validated, ours.clients)
    np.testing.assert_array_equal(
        ours.confusions(_vectors(task, 1), [ours.validated], "validation"),
        theirs.confusions(_vectors(task, 1), [theirs.validated], "validation"),
    )

  @parameterized.parameters(*registry.METHODS, *registry.CONTROLS, *registry.PERSONAL)
  def test_a_round_of_every_method_and_control(self, name):
    # By day, `MethodRunsTest` runs the others with JAX, but for what is personal, and the tests
    # above compare what all ask of an engine.
    nightly.skip_by_day(self, name not in _ROUNDS_BY_DAY)
    whole = own_tasks.table_task("mlp", hidden_units="7,5")
    task = dataclasses.replace(whole, clients=whole.clients[:-1], new_clients=whole.clients[-1:])
    chosen = {"personal" if name in registry.PERSONAL else "methods": (name,)}
    chosen = {} if name in registry.CONTROLS else chosen
    config = config_lib.ThreePhaseConfig.for_task(
        task, batch_size=_ALL_EXAMPLES, pretrain_rounds=1, cluster_rounds=1,
        **{"methods": (), **chosen},
    )
    vector, found = _vectors(task, 1)[0], []
    round_ = participation.Round(2, letters.clients("abd"), 2)
    for engine in (_of_jax(task), _of_tff(task)):
      engine.schedule = config
      weights = [
          client_weights.ClientWeights(
              clients, engine.train_each(
                  np.broadcast_to(vector, (len(clients), len(vector))), clients, round_
              )[0], vector
          )
          for clients in (engine.clients, engine.new_clients)
      ]
      pretrained = method_lib.Pretrained(vector, vector, *weights, engine.cost, engine.cost)
      if name in registry.CONTROLS:
        method = registry.CONTROLS[name].build(config, engine)
      else:
        method = registry.entry(name).build(config.method_settings(name), engine)
      state = method.initialize(pretrained, np.random.default_rng(0))
      state, losses = method.next(state, round_)
      placed = method.place(pretrained, state, engine.new_clients)
      found.append((state, losses, placed, engine.cost))
    (ours, our_losses, our_new, cost), (theirs, their_losses, their_new, their_cost) = found
    self.assertEqual(letters.names(ours.members), letters.names(theirs.members))
    np.testing.assert_allclose(ours.vectors, theirs.vectors, atol=1e-6)
    self.assert_same_losses(our_losses, their_losses)
    self.assertEqual(our_new.clusters, their_new.clusters)
    np.testing.assert_allclose(our_new.vectors, their_new.vectors, atol=1e-6)
    self.assertEqual(cost, their_cost)

  def test_sketches_are_the_same_but_for_the_projection(self):
    task = small_task.small_task()
    found = _of_jax(task, clients_per_block=4).sketches(letters.clients("bea"), 16)
    projection = np.random.default_rng((20, 23)).standard_normal((7850, 16), np.float32)
    with mock.patch.object(tf.random, "stateless_normal", return_value=projection):
      for sketch, client in zip(found, "bea"):
        train = task.clients["abcde".index(client)].train
        examples = (
            tf.constant(train.features.astype(np.float32) / 255),
            tf.constant(train.labels.astype(np.int32)),
        )
        np.testing.assert_allclose(
            sketch, client_sketches.sketch(task.model, examples, 16), atol=2e-6
        )

  def test_a_model_that_only_the_other_engine_computes_is_refused(self):
    with self.assertRaisesRegex(ValueError, "^`engine` must be tff"):
      _of_jax(own_tasks.keras_table_task())
    task = own_tasks.table_task()
    of_jax = dataclasses.replace(task.model, logits=None)
    with self.assertRaisesRegex(ValueError, "^`engine` must be jax"):
      _of_tff(dataclasses.replace(task, model=of_jax))
