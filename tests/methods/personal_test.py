"""The personal models, round after round, against a few lines of NumPy."""

import dataclasses
import functools

from absl.testing import absltest
import numpy as np

from fl_clustering.engine import participation
from fl_clustering.methods import client_weights
from fl_clustering.methods import method
from fl_clustering.methods import registry
from fl_clustering.tasks import models
from fl_clustering.three_phase import config as config_lib
from tests import letters
from tests import local_runtime
from tests import small_task
from tests.engine.tff import numpy_sgd
from tests.engine.tff import small_engine

_RATE, _BATCH, _SEED = 0.1, 20, 3
# Client "b" takes part in one of the rounds, "c" in none, and "e" is new.
_ROUNDS = (
    participation.Round(4, letters.clients("abd"), 2),
    participation.Round(5, letters.clients("ad"), 2),
)
_NEW, _NEW_ROUNDS = 4, (4, 5)

setUpModule = local_runtime.use


@functools.cache
def _task(model="logistic"):
  options = {"hidden_units": f"{numpy_sgd.HIDDEN_UNITS}"} if model == "mlp" else {}
  built = models.build(model, (28, 28, 1), 10, **options)
  whole = small_task.small_task()
  return dataclasses.replace(
      whole, model=built, clients=whole.clients[:4], new_clients=whole.clients[4:]
  )


class _Numpy:
  """Local training in NumPy.

  Attributes:
    sizes: Every client's number of training examples.
  """

  def __init__(self, task):
    self._clients = tuple(task.all_clients)
    self.sizes = [len(client.train) for client in self._clients]

  def batches(self, client, number, num_epochs=2):
    return numpy_sgd.batches(self._clients[client], number, num_epochs, _SEED, _BATCH)

  def sgd(self, w, client, number):
    """Returns a model of softmax regression after a client's plain SGD."""
    for _, *batch in self.batches(client, number):
      w = w - _RATE * numpy_sgd.gradient(w, *batch)
    return w

  def pulled_sgd(self, v, w, pull, client, number):
    """Returns an own model after a client's SGD in which a common one pulls it."""
    for _, *batch in self.batches(client, number):
      v = v - _RATE * (numpy_sgd.gradient(v, *batch) + pull * (v - w))
    return v

  def mean(self, models_by_client):
    """Returns the mean of models, weighted by the clients' examples."""
    weights = [self.sizes[client] for client in models_by_client]
    return np.average(list(models_by_client.values()), axis=0, weights=weights)


class PersonalTest(absltest.TestCase):

  def _train(self, name, task, **options):
    """Returns the method, the state after `_ROUNDS`, the models of phase 1, and the engine."""
    config = config_lib.ThreePhaseConfig(
        num_clients=5, num_new_clients=1, pretrain_rounds=2, cluster_rounds=2,
        client_epochs_per_round=2, personal=(name,), **options,
    )
    engine = small_engine.engine(task, _BATCH, _RATE, _SEED, config)
    start = engine.initial_vectors(1, np.random.default_rng(1))[0]
    weights = client_weights.ClientWeights(engine.clients, np.repeat(start[None], 4, axis=0), start)
    # Personal models go on from phase 1, and not from the model before it.
    pretrained = method.Pretrained(np.zeros_like(start), start, weights)
    one = registry.entry(name).build(config.method_settings(name), engine)
    state = one.initialize(pretrained, np.random.default_rng(0))
    np.testing.assert_array_equal(state.vectors, np.repeat(start[None], 4, axis=0))
    for round_ in _ROUNDS:
      state, losses = one.next(state, round_)
      self.assertEqual([found.clients.tolist() for found in losses],
                       [[c] if c in round_.clients else [] for c in engine.clients])
    (placed,) = one.place(pretrained, state, engine.new_clients).vectors
    return state, placed, start.astype(float), engine

  def _assert_close(self, found, expected):
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=5e-6)

  def _assert_cost(self, engine, steps, num_shared):
    # Clients take part five times.
    self.assertEqual(engine.cost.values(), (steps, 4 * 5 * num_shared, 4 * 5 * num_shared))

  def test_ditto(self):
    task = _task()
    numpy, pull = _Numpy(task), 0.4
    state, placed, start, engine = self._train("ditto", task, ditto_lambda=pull)
    common, own = start, dict.fromkeys(range(4), start)
    for round_ in _ROUNDS:
      own.update({
          c: numpy.pulled_sgd(own[c], common, pull, c, round_.number) for c in round_.clients
      })
      common = numpy.mean({c: numpy.sgd(common, c, round_.number) for c in round_.clients})
    self._assert_close(state.vectors, list(own.values()))
    self._assert_close(state.memory["common"], common)
    new = common
    for number in _NEW_ROUNDS:
      new = numpy.pulled_sgd(new, common, pull, _NEW, number)
    self._assert_close(placed, new)
    # Two models, of a, d (1 and 3 batches) in both rounds and of b (1) in one, and e's own.
    self._assert_cost(engine, 2 * 2 * (4 + 1 + 4) + 2 * 2 * 3, task.num_parameters)

  def test_mr_mtl(self):
    task = _task()
    numpy, pull = _Numpy(task), 0.4
    state, placed, start, engine = self._train("mr_mtl", task, mr_mtl_lambda=pull)
    own = dict.fromkeys(range(4), start)
    for round_ in _ROUNDS:
      mean = np.mean(list(own.values()), axis=0)
      own.update({
          c: numpy.pulled_sgd(own[c], mean, pull, c, round_.number) for c in round_.clients
      })
    self._assert_close(state.vectors, list(own.values()))
    mean = new = np.mean(list(own.values()), axis=0)
    for number in _NEW_ROUNDS:
      new = numpy.pulled_sgd(new, mean, pull, _NEW, number)
    self._assert_close(placed, new)
    self._assert_cost(engine, 2 * (4 + 1 + 4) + 2 * 2 * 3, task.num_parameters)

  def _check_apfl(self, alpha, **options):
    task = _task()
    numpy = _Numpy(task)
    state, placed, start, engine = self._train("apfl", task, **options)

    def own_round(v, w, s, client, number):
      for _, *batch in numpy.batches(client, number):
        of_mixture = numpy_sgd.gradient(s * v + (1 - s) * w, *batch)
        slope = 0 if options else (v - w) @ of_mixture
        v, w, s = (
            v - _RATE * s * of_mixture, w - _RATE * numpy_sgd.gradient(w, *batch),
            np.clip(s - _RATE * slope, 0, 1),
        )
      return v, s

    common, own = start, {c: (start, alpha) for c in range(4)}
    for round_ in _ROUNDS:
      own.update({
          c: own_round(own[c][0], common, own[c][1], c, round_.number) for c in round_.clients
      })
      common = numpy.mean({c: numpy.sgd(common, c, round_.number) for c in round_.clients})
    self._assert_close(state.memory["common"], common)
    self._assert_close(state.memory["own"], [v for v, _ in own.values()])
    self._assert_close(state.memory["alpha"], [s for _, s in own.values()])
    self._assert_close(state.vectors, [s * v + (1 - s) * common for v, s in own.values()])
    v, s = common, alpha
    for number in _NEW_ROUNDS:
      v, s = own_round(v, common, s, _NEW, number)
    self._assert_close(placed, s * v + (1 - s) * common)
    self._assert_cost(engine, 2 * 2 * (4 + 1 + 4) + 2 * 2 * 3, task.num_parameters)
    return state.memory["alpha"]

  def test_apfl(self):
    self._check_apfl(0.3, apfl_alpha=0.3)

  def test_apfl_whose_clients_learn_their_alpha(self):
    alpha = self._check_apfl(0.5)
    self.assertEqual(alpha[2], 0.5)
    self.assertTrue(np.all(np.abs(alpha[[0, 1, 3]] - 0.5) > 1e-4))

  def test_fedrep(self):
    task = _task("mlp")
    numpy, num_head_epochs = _Numpy(task), 3
    in_head = numpy_sgd.in_mlp_head(task.num_parameters)
    state, placed, start, engine = self._train("fedrep", task, fedrep_head_epochs=num_head_epochs)

    def own_round(v, client, number, num_epochs=num_head_epochs + 2):
      for epoch, *batch in numpy.batches(client, number, num_epochs):
        trained = in_head if epoch < num_head_epochs else ~in_head
        v = v - _RATE * trained * numpy_sgd.mlp_gradient(v, *batch)
      return v

    own = dict.fromkeys(range(4), start)
    for round_ in _ROUNDS:
      trained = {c: own_round(own[c], c, round_.number) for c in round_.clients}
      representation = numpy.mean(trained)
      own.update(trained)
      own = {c: np.where(in_head, v, representation) for c, v in own.items()}
    self._assert_close(state.vectors, list(own.values()))
    new = np.where(in_head, start, representation)
    for number in _NEW_ROUNDS:
      new = own_round(new, _NEW, number, num_head_epochs)
    self._assert_close(placed, new)
    self._assert_cost(engine, 5 * (4 + 1 + 4) + 3 * 2 * 3, int((~in_head).sum()))

  def test_fedrep_needs_a_layer_before_a_last_one_that_is_known(self):
    task = _task("mlp")
    unknown = dataclasses.replace(task, model=dataclasses.replace(task.model, head=()))
    for bad in (_task(), unknown):
      with self.assertRaisesRegex(ValueError, "^`model`"):
        self._train("fedrep", bad)

  def test_who_trains_alone_is_a_cluster_of_its_own_to_the_last_bit(self):
    config = config_lib.ThreePhaseConfig(num_clients=5, num_new_clients=1)
    engine = small_engine.engine(_task(), _BATCH, _RATE, _SEED, config)
    start = engine.initial_vectors(1, np.random.default_rng(1))[0]
    control = registry.CONTROLS["local"].build(config, engine)
    state = control.initialize(method.Pretrained(start, start, None), np.random.default_rng(0))
    expected = state.vectors
    for round_ in _ROUNDS:
      state, losses = control.next(state, round_)
      expected, expected_losses = engine.train(expected, engine.clients[:, None], round_)
      np.testing.assert_array_equal(state.vectors, expected)
      for one, other in zip(losses, expected_losses, strict=True):
        np.testing.assert_array_equal(one.values, other.values)

  def test_without_a_pull_clients_fine_tune_alone(self):
    task = _task()
    state, _, start, engine = self._train("ditto", task, ditto_lambda=0.0)
    vectors = np.repeat(start[None].astype(np.float32), 4, axis=0)
    for round_ in _ROUNDS:
      vectors, _, _ = engine.train_own(vectors, engine.clients, round_)
    np.testing.assert_allclose(state.vectors, vectors, rtol=1e-5, atol=1e-6)
