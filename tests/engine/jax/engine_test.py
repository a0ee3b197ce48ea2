"""The numbers of the engine in JAX, beside plain NumPy."""

import dataclasses
import functools
import os
import threading
import types
from unittest import mock

from absl.testing import absltest
from absl.testing import parameterized
import jax
import numpy as np

from clustering_basics import core_count
from clustering_basics import randomness
from fl_clustering.engine import participation
from fl_clustering.engine import personalization
from fl_clustering.engine.jax import blocks as blocks_lib
from fl_clustering.engine.jax import client_pool
from fl_clustering.engine.jax import engine as jax_engine
from fl_clustering.engine.jax import evaluation
from fl_clustering.engine.jax import own_settings
from fl_clustering.tasks import examples as examples_lib
from fl_clustering.tasks import pooled_examples
from tests import letters
from tests import nightly
from tests import own_tasks
from tests import small_task
from tests.engine.tff import numpy_sgd
from tests.runtime import scripts

_RATE, _SEED = 0.1, 3
_ALL_EXAMPLES = small_task.ALL_EXAMPLES
_EVERYONE = np.arange(5)
# Overlapping; the third takes nobody who is in the round.
_CLUSTERS = letters.clusters("abd", "bce", "c")
_ROUND = participation.Round(2, letters.clients("abde"), 2)
# Of a model that several tests train: by night, one of more layers.
_MODEL = nightly.either("logistic", "mlp")

# Read when JAX counts its devices, once in a process.  An engine takes one CPU unless told.
os.environ["XLA_FLAGS"] = (
    f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count=2"
)


def _task(model="logistic"):
  return small_task.small_task(model)


def _of_jax(task, batch_size=_ALL_EXAMPLES, rate=_RATE, **more):
  return jax_engine.Engine(task, batch_size, rate, _SEED, **more)


def _vectors(task, num_models=3):
  return small_task.vectors(task, num_models)


def _repeated(vector, clients):
  return np.broadcast_to(vector, (len(clients), len(vector)))


class OwnNumbersTest(parameterized.TestCase):

  @parameterized.parameters(False, True)
  @own_settings.own()
  def test_clients_of_any_size_take_the_steps_of_plain_numpy(self, side_by_side):
    task, (vector,) = _task(), _vectors(_task(), 1)
    key = randomness.stateless_seed(_SEED, "local_training", 2).view(np.uint32)
    with mock.patch.object(blocks_lib.Blocks, "side_by_side", side_by_side):
      engine = _of_jax(task, 20, clients_per_block=3)
      found, losses = engine.train_each(
          np.broadcast_to(vector, (5, len(vector))), _EVERYONE, _ROUND
      )
    for client, trained in zip(_EVERYONE, found):
      examples, expected = task.clients[client].train, vector.astype(np.float64)
      features = examples.features.reshape(len(examples), -1) / 255
      own_key = jax.random.fold_in(key, client)
      for epoch in range(_ROUND.num_epochs):
        # 60 is the most that a client has.
        drawn = jax.random.uniform(jax.random.fold_in(own_key, epoch), (60,))[: len(examples)]
        order = np.argsort(drawn)
        for start in range(0, len(order), 20):
          batch = order[start : start + 20]
          gradient = numpy_sgd.gradient(expected, features[batch], examples.labels[batch])
          expected = expected - _RATE * gradient
      np.testing.assert_allclose(trained, expected, atol=1e-6)

  @parameterized.parameters(
      {"pull": 0.4}, {"head_epochs": 1},
      {"pull": 0.4, "is_mixture": True, "learns_share": True},
  )
  def test_own_models_side_by_side_wait_for_larger_clients_as_they_are(self, **how):
    # By day, `test_train_own` compares each kind of them.  Without examples only the pull goes on.
    nightly.skip_by_day(self, how != {"pull": 0.4})
    task = _task(_MODEL)
    (*_, common) = _vectors(task, 6)
    shares, found = np.linspace(0.2, 0.8, 5, dtype=np.float32), []
    for side_by_side in (False, True):
      with mock.patch.object(blocks_lib.Blocks, "side_by_side", side_by_side):
        # Of one client in a block, none waits.
        engine = _of_jax(task, 20, clients_per_block=4 if side_by_side else 1)
        found.append(engine.train_own(
            _vectors(task, 5), _EVERYONE, _ROUND, common, personalization.Personalization(**how),
            shares,
        ))
    for one, other in zip(found[0][:2], found[1][:2]):
      np.testing.assert_allclose(one, other, atol=1e-6)

  def test_a_pass_sees_every_example_once(self):
    engine = _of_jax(_task(), batch_size=8, rate=0.0)
    vectors = _vectors(_task(), 1)
    _, (losses,) = engine.train(vectors, [_EVERYONE], participation.Round(1, _EVERYONE, 3))
    np.testing.assert_allclose(losses.values, engine.losses(vectors, _EVERYONE)[0], atol=1e-6)

  # Many passes of one step, and one pass of many steps.
  @parameterized.parameters(("a", 0.95, _ALL_EXAMPLES, 50), ("e", 0.8, 1, 1))
  def test_every_step_draws_its_own_dropout(self, client, share, batch_size, num_epochs):
    task, vectors = own_tasks.table_task(), np.zeros((1, 21), np.float32)
    model = dataclasses.replace(
        task.model, uses_dropout=True, layers=(("dropout", share), *task.model.layers)
    )
    engine = _of_jax(dataclasses.replace(task, model=model), batch_size)
    found, _ = engine.train_each(
        vectors, letters.clients(client), participation.Round(1, _EVERYONE, num_epochs)
    )
    # Nothing is learnt of a column that is dropped from all rows in all draws: of the 12 of "a",
    # each is in .95^12 = 54% of them.
    kernel = found[0, :18].reshape(6, 3)
    self.assertTrue(kernel.any(axis=1).all())

  def test_outputs_of_any_number_of_rows(self):
    model, rng = own_tasks.table_task().model, np.random.default_rng(0)
    vector = rng.normal(size=21).astype(np.float32)
    rows = rng.normal(size=(600, 6)).astype(np.float32)
    expected = rows @ vector[:18].reshape(6, 3) + vector[18:]
    for size in (0, 1, 256, 257, 600):
      found = evaluation.logits(model, vector, rows[:size])
      np.testing.assert_allclose(found, expected[:size], atol=1e-5)

  def test_numbers_do_not_depend_on_company_or_blocks(self):
    task = _task(_MODEL)
    vectors = _vectors(task)
    found = {
        size: _of_jax(task, 20, clients_per_block=size).train(vectors, _CLUSTERS, _ROUND)[0]
        for size in nightly.either((3, 4), (1, 3, 4, 64))
    }
    again, _ = _of_jax(task, 20, clients_per_block=4).train(vectors, _CLUSTERS, _ROUND)
    np.testing.assert_array_equal(again, found[4])
    for other in found.values():
      np.testing.assert_allclose(other, found[4], atol=1e-7)
    alone, _ = _of_jax(task, 20).train_each(vectors[:1], letters.clients("b"), _ROUND)
    together, _ = _of_jax(task, 20).train_each(vectors[[1, 0, 2]], letters.clients("dba"), _ROUND)
    np.testing.assert_allclose(together[1], alone[0], atol=1e-7)

  def test_any_number_of_blocks_at_a_time_gives_the_same_bits(self):
    task = _task(_MODEL)
    vectors, found = _vectors(task), []
    for cores in (1, 3):
      with mock.patch.object(core_count, "usable", return_value=cores):
        engine = _of_jax(task, 20, clients_per_block=1)
      trained, _ = engine.train(vectors, _CLUSTERS, _ROUND)
      each, _ = engine.train_each(vectors[[0, 1, 2, 0, 1]], _EVERYONE, _ROUND)
      losses = engine.losses(vectors, _EVERYONE)
      found.append((trained, each, losses, engine.sketches(_EVERYONE, 8)))
    for one, other in zip(*found):
      np.testing.assert_array_equal(one, other)

  def test_blocks_are_computed_at_a_time_and_come_in_order(self):
    together = threading.Barrier(2, timeout=scripts.TIMEOUT_SECONDS)
    blocks = blocks_lib.Blocks(tuple(jax.devices()[:1]), 1, 1, cores=2)

    def work(number):
      together.wait()
      return number

    found = blocks.results(work, ((number,) for number in range(8)))
    self.assertEqual(list(found), list(range(8)))

  def test_side_by_side_or_not_models_say_the_same(self):
    task = _task()
    vectors, found = _vectors(task), []
    for side_by_side in (False, True):
      with mock.patch.object(blocks_lib.Blocks, "side_by_side", side_by_side):
        found.append(_of_jax(task).losses(vectors, _EVERYONE))
    np.testing.assert_allclose(*found, atol=1e-6)

  def test_rounds_and_seeds_draw_their_own_numbers(self):
    task = _task()
    vectors = _vectors(task, 1)
    found = [
        jax_engine.Engine(task, 20, _RATE, seed).train(
            vectors, [_EVERYONE], participation.Round(number, _EVERYONE, 1)
        )[0]
        for seed, number in ((3, 1), (3, 2), (4, 1))
    ]
    for i in range(3):
      self.assertGreater(np.abs(found[i] - found[i - 1]).max(), 1e-5)

  def test_many_pairs_are_cut_and_put_together_again(self):
    task = _task()
    engine, vectors = _of_jax(task), _vectors(task)
    expected = engine.losses(vectors, _EVERYONE)
    with mock.patch("fl_clustering.engine.jax.evaluation._EXAMPLES_AT_ONCE", 50):
      np.testing.assert_allclose(engine.losses(vectors, _EVERYONE), expected, atol=1e-6)
    with mock.patch("fl_clustering.engine.jax.evaluation._MODELS_AT_ONCE_BYTES", 1):
      np.testing.assert_allclose(engine.losses(vectors, _EVERYONE), expected, atol=1e-6)

  def test_more_rows_of_clients_than_fit_on_a_device_are_refused(self):
    pool = examples_lib.Examples(np.zeros((2, 4, 4, 1), np.uint8), np.zeros(2, np.uint8))
    four, five = (
        pooled_examples.PooledExamples.of_shares(pool, shares)
        for shares in ([np.arange(2)] * 2, [np.arange(2), np.zeros(3, int)])
    )
    with mock.patch.object(client_pool, "_MOST_ROWS", 4):
      list(client_pool.sent([four], None))
      with self.assertRaisesRegex(ValueError, "^`rows`.* 5"):
        list(client_pool.sent([four, five], None))


class PlanTest(parameterized.TestCase):

  @parameterized.parameters((20, 1), (20, 2), (200, 1))
  def test_a_block_fills_its_part_of_each_accelerator(self, batch_size, num_devices):
    devices = [types.SimpleNamespace(platform="gpu")] * num_devices
    planned = blocks_lib.plan(_task("cnn").model, batch_size, devices)
    # Four times 1.2 million parameters and, of each example of a batch, 231,390 numbers.
    of_client = 4 * (4 * 1_199_882 + batch_size * 231_390)
    self.assertBetween(planned.clients // num_devices * of_client, 2**31, 2**32)

  def test_devices_share_a_block_evenly(self):
    devices = [types.SimpleNamespace(platform="gpu")] * 2
    for asked, expected in ((1, 2), (2, 2), (3, 4)):
      planned = blocks_lib.plan(_task().model, 20, devices, asked)
      self.assertEqual(planned.clients, expected)


class SeveralDevicesTest(absltest.TestCase):

  def test_two_devices_give_the_models_of_one(self):
    devices = jax.devices("cpu")
    if len(devices) < 2:
      self.skipTest("JAX has counted its devices before this file was imported.")
    task = nightly.either(own_tasks.table_task(), _task("cnn_small"))
    vectors, found = _vectors(task, 2), []
    for some in (devices[:1], devices[:2]):
      engine = _of_jax(task, 20, clients_per_block=2, devices=some)
      trained, _ = engine.train(vectors, _CLUSTERS[:2], _ROUND)
      others = nightly.either(tuple, functools.partial(self._others, engine, vectors))
      found.append((trained, engine.losses(vectors, _EVERYONE), *others()))
    for one, other in zip(*found, strict=True):
      np.testing.assert_allclose(one, other, atol=1e-6)

  def _others(self, engine, vectors):
    """Returns what else an engine computes, by night."""
    each, _ = engine.train_each(vectors, letters.clients("ea"), _ROUND)
    own, _, _ = engine.train_own(
        _repeated(vectors[0], _EVERYONE).copy(), _EVERYONE, _ROUND, vectors[1],
        personalization.Personalization(pull=0.4),
    )
    return (
        each, own, engine.sketches(_EVERYONE, 16),
        engine.moments(vectors[0], _EVERYONE, by_label=False),
    )
