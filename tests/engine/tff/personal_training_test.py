"""Clients' own models against a few lines of NumPy, which share nothing but the batches."""

import dataclasses
import tempfile
import unittest

from absl.testing import absltest
import numpy as np

from fl_clustering import runtime
from fl_clustering.engine import divergence
from fl_clustering.engine import participation
from fl_clustering.engine import personalization
from fl_clustering.engine.tff import client_update
from fl_clustering.engine.tff import engine
from fl_clustering.tasks import models
from tests import letters
from tests import small_task
from tests.engine.tff import numpy_sgd
from tests.engine.tff import small_messages

_RATE, _BATCH, _SEED = 0.1, 20, 3
# Client "c" does not take part.
_ALL, _ROUND = np.arange(5), participation.Round(4, letters.clients("abde"), 2)

_folder = None


def setUpModule():
  global _folder
  folder = tempfile.TemporaryDirectory()
  _folder = folder.name
  local = runtime.LocalRuntime()
  unittest.addModuleCleanup(local.close)
  unittest.addModuleCleanup(folder.cleanup)


def _task(model="logistic"):
  options = {"hidden_units": f"{numpy_sgd.HIDDEN_UNITS}"} if model == "mlp" else {}
  built = models.build(model, (28, 28, 1), 10, **options)
  return dataclasses.replace(small_task.small_task(), model=built)


def _engine(task, learning_rate=_RATE):
  return engine.Engine(
      task, _folder, client_update.LocalTraining(_BATCH, learning_rate), seed=_SEED
  )


def _own_models(task):
  """Returns the clients' models and a common one."""
  rng = np.random.default_rng(0)
  vectors = rng.normal(0, 0.1, (len(task.clients) + 1, task.num_parameters))
  vectors = vectors.astype(np.float32)
  return vectors[:-1], vectors[-1]


def _read_only(array):
  array = array.copy()
  array.flags.writeable = False
  return array


class TrainOwnTest(absltest.TestCase):

  def _check(self, task, how, step, shares=None, num_epochs=2):
    """Compares every client's model and share after a round with those of NumPy.

    Args:
      step: A function of (own model, common one, share, pass, batch) that returns the first three
        after a batch.
    """
    own, common = _own_models(task)
    shares = np.ones(len(own), np.float32) if shares is None else shares
    found, found_shares, losses = _engine(task).train_own(
        _read_only(own), _ALL, _ROUND, common, how, shares
    )
    np.testing.assert_array_equal(losses.clients, _ROUND.clients)
    for i, client in enumerate(task.clients):
      v, w, s = own[i].astype(float), common.astype(float), float(shares[i])
      if i in _ROUND.clients:
        for epoch, *batch in numpy_sgd.batches(
              client, _ROUND.number, num_epochs, _SEED, _BATCH
          ):
          v, w, s = step(v, w, s, epoch, batch)
        self.assertGreater(np.abs(found[i] - own[i]).max(), 1e-3)
      np.testing.assert_allclose(found[i], v, rtol=1e-4, atol=2e-6)
      self.assertAlmostEqual(found_shares[i], s, places=5)
    np.testing.assert_array_equal(found[2], own[2])
    return found_shares

  def test_is_pulled_to_the_common_model_in_every_step(self):
    def step(v, w, s, epoch, batch):
      del epoch
      return v - _RATE * (numpy_sgd.gradient(v, *batch) + 0.7 * (v - w)), w, s

    self._check(_task(), personalization.Personalization(pull=0.7), step)

  def test_a_mixture_with_a_share_that_is_given(self):
    def step(v, w, s, epoch, batch):
      del epoch
      mixture = s * v + (1 - s) * w
      return (
          v - _RATE * s * numpy_sgd.gradient(mixture, *batch),
          w - _RATE * numpy_sgd.gradient(w, *batch), s,
      )

    shares = np.array([0.1, 0.25, 0.5, 0.75, 1], np.float32)
    how = personalization.Personalization(is_mixture=True)
    np.testing.assert_array_equal(self._check(_task(), how, step, shares), shares)

  def test_a_mixture_whose_share_is_learned(self):
    def step(v, w, s, epoch, batch):
      del epoch
      of_mixture = numpy_sgd.gradient(s * v + (1 - s) * w, *batch)
      return (
          v - _RATE * s * of_mixture, w - _RATE * numpy_sgd.gradient(w, *batch),
          np.clip(s - _RATE * (v - w) @ of_mixture, 0, 1),
      )

    how = personalization.Personalization(is_mixture=True, learns_share=True)
    shares = self._check(_task(), how, step, np.full(5, 0.5, np.float32))
    self.assertEqual(shares[2], 0.5)
    self.assertTrue(np.all(np.delete(shares, 2) != 0.5))

  def test_the_last_layer_first_and_then_the_others(self):
    task = _task("mlp")
    in_head = numpy_sgd.in_mlp_head(task.num_parameters)

    def step(v, w, s, epoch, batch):
      trained = in_head if epoch < 3 else ~in_head
      return v - _RATE * trained * numpy_sgd.mlp_gradient(v, *batch), w, s

    # Those of the round come after.
    self._check(task, personalization.Personalization(head_epochs=3), step, num_epochs=5)

  def test_without_anything_is_training_alone(self):
    task = _task()
    own, common = _own_models(task)
    how = personalization.Personalization()
    found, _, losses = _engine(task).train_own(own.copy(), _ALL, _ROUND, common, how)
    expected, made = _engine(task).train_alone(own.copy(), [_ROUND])
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-7)
    np.testing.assert_array_equal(losses.values, made[0].losses[losses.clients])

  def test_new_models_take_the_place_of_those_before_unless_they_are_read_only(self):
    task = _task()
    own, common = _own_models(task)
    how = personalization.Personalization(pull=0.1)
    arguments = _ALL, _ROUND, common, how
    before = own.copy()
    copied, _, _ = _engine(task).train_own(_read_only(own), *arguments)
    in_place, _, _ = _engine(task).train_own(own, *arguments)
    np.testing.assert_array_equal(copied, in_place)
    self.assertIs(in_place, own)
    self.assertGreater(np.abs(own - before).max(), 0)

  def test_small_messages_give_the_same(self):
    task = _task()
    own, common = _own_models(task)
    how = personalization.Personalization(pull=0.1)
    whole = _engine(task).train_own(_read_only(own), _ALL, _ROUND, common, how)
    with small_messages.limit(4 * 2 * task.num_parameters):
      cut = _engine(task).train_own(_read_only(own), _ALL, _ROUND, common, how)
    np.testing.assert_array_equal(cut[0], whole[0])
    np.testing.assert_array_equal(cut[2].values, whole[2].values)

  def test_counts_steps_and_what_is_shared(self):
    task = _task("mlp")
    own, common = _own_models(task)
    for how, num_epochs in (
        (personalization.Personalization(pull=0.1), 2),
        (personalization.Personalization(head_epochs=3), 5),
    ):
      engine_ = _engine(task)
      engine_.train_own(own.copy(), _ALL, _ROUND, common, how, num_shared=7)
      # Steps of 20 examples: of a, b, d and e.
      self.assertEqual(
          engine_.cost.values(), (num_epochs * (1 + 1 + 3 + 3), 4 * 4 * 7, 4 * 4 * 7)
      )

  def test_says_whose_training_diverged(self):
    task = _task()
    own, common = _own_models(task)
    how = personalization.Personalization(pull=1e30)
    with self.assertRaisesRegex(divergence.TrainingDiverged, "round 4.*'[abde]'"):
      _engine(task, 1e25).train_own(own, _ALL, _ROUND, common, how)


if __name__ == "__main__":
  absltest.main()
