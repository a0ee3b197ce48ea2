"""No client sends more than the sensitivity, whatever it holds; JAX alone."""

import math
from unittest import mock

from absl.testing import absltest
from absl.testing import parameterized
import jax
import numpy as np

from fl_clustering.engine import bounded_sums
from fl_clustering.engine import sketch
from fl_clustering.engine.jax import blocks as blocks_lib
from fl_clustering.engine.jax import bounded_sums as of_jax
from fl_clustering.engine.jax import client_pool
from fl_clustering.engine.jax import own_settings
from fl_clustering.tasks import models
from tests import hostile_clients
from tests import nightly

_LARGEST = float(np.finfo(np.float32).max)
# What the bit weighs, whether it is true or false.
_BIT = bounded_sums.BIT_WEIGHT / 2


def _updates(rng, *size):
  """Returns updates, float32: ordinary, huge, tiny, mixed, of one number, and not finite."""
  num_updates, num_parameters = size
  with np.errstate(over="ignore"):
    return np.select(
        list((rng.integers(8, size=(num_updates, 1)) == np.arange(7)[:, None, None])),
        [
            rng.normal(size=size),
            # A scale for each update, and then one for each number.
            rng.normal(size=size) * 10.0 ** rng.uniform(-46, 38, (num_updates, 1)),
            rng.normal(size=size) * 10.0 ** rng.uniform(-46, 38, size),
            (np.arange(num_parameters) == rng.integers(num_parameters, size=(num_updates, 1)))
            * 10.0 ** rng.uniform(-46, 38.5, (num_updates, 1)),
            np.full(size, _LARGEST) * rng.choice([-1, 1], size),
            np.where(
                rng.random(size) < 0.1, rng.choice([np.nan, np.inf, -np.inf], size),
                rng.normal(size=size),
            ),
            np.full(size, 10.0 ** rng.uniform(-46, -30)),
        ],
        0.0,
    ).astype(np.float32)


def _slots_of(updates, clip_norm):
  """Returns the messages of clients that are each in a slot of its own, and the bits' sum."""
  places = np.arange(len(updates), dtype=np.int32)
  with own_settings.own(), own_settings.wide():
    total = np.asarray(of_jax._slot_sums(  # pylint: disable=protected-access
        len(updates), updates, places, np.ones_like(places), np.float64(clip_norm)
    ))
  return total[:-1].reshape(len(updates), -1), int(total[-1])


class SlotSumsTest(parameterized.TestCase):

  # Of so many numbers that roundings may add up, and of few.  Each is in a slot of its own.
  @parameterized.parameters(
      (500, 15, nightly.either(3, 195)), (nightly.either(100, 500), 3000, nightly.either(1, 5)),
  )
  def test_no_update_is_longer_than_the_sensitivity(self, num_updates, num_parameters, num_batches):
    longest = 0
    bit = int(bounded_sums.in_steps(np.array(_BIT)))
    bound = math.floor(bounded_sums.ROUND.sensitivity**2 * bounded_sums.STEPS**2)
    for seed in range(num_batches):
      rng = np.random.default_rng(seed)
      updates = _updates(rng, num_updates, num_parameters)
      clip_norm = 10.0 ** rng.choice([rng.uniform(-3, 3), rng.uniform(-46, 41)])
      messages, bits = _slots_of(updates, clip_norm)
      # So that squares, which are exact, can be added up in 64 bits.
      self.assertLessEqual(np.abs(messages).max(), bounded_sums.STEPS)
      squares = (messages**2).sum(axis=1) + bit**2
      self.assertLessEqual(squares.max(), bound)
      longest = max(longest, squares.max())
      wide = updates.astype(np.float64)
      is_finite = np.isfinite(wide).all(axis=1)
      self.assertFalse(messages[~is_finite, :-1].any())
      norms = np.sqrt((np.where(is_finite[:, np.newaxis], wide, 0) ** 2).sum(axis=1))
      # A processor may take what is subnormal for zero.
      is_plain = ~((updates != 0) & (np.abs(updates) < np.finfo(np.float32).tiny)).any(axis=1)
      is_short = norms <= clip_norm
      self.assertAlmostEqual(
          bits, bit * (2 * np.count_nonzero(is_short) - len(is_short)),
          delta=2 * bit * np.count_nonzero(~is_plain),
      )
      # What is shorter than the clip norm is sent as it is; all else points where it did.
      is_plain &= is_finite
      expected = wide[is_plain] / np.maximum(norms, clip_norm)[is_plain, np.newaxis]
      np.testing.assert_allclose(
          messages[is_plain, :-1] / bounded_sums.STEPS, expected, atol=3 / bounded_sums.STEPS
      )
    self.assertGreater(longest, bound * (1 - 1e-4))

  def test_what_only_fills_a_block_up_sends_nothing(self):
    updates, counts = np.ones((3, 4), np.float32), np.array([2, 0, 0], np.int32)
    with own_settings.own(), own_settings.wide():
      total = np.asarray(of_jax._slot_sums(  # pylint: disable=protected-access
          2, updates, np.array([1, 1, 0], np.int32), counts, np.float64(4.0)
      ))
    expected = [0] * 5 + [0.25] * 4 + [bounded_sums.COUNT_WEIGHT, _BIT]
    np.testing.assert_array_equal(total, bounded_sums.in_steps(np.array(expected)))


class HostileClientsTest(absltest.TestCase):

  def test_no_message_is_longer_than_the_sensitivity(self):
    num_clients, longest = nightly.either(40, 3000), dict.fromkeys(hostile_clients.QUESTIONS, 0)
    rng = np.random.default_rng(0)
    clients = hostile_clients.clients(rng, num_clients)
    model = models.build(
        "logistic", (hostile_clients.NUM_FEATURES,), hostile_clients.NUM_CLASSES, "float32"
    )
    sums = of_jax.BoundedSums(model, 2, 3, 0.05, clients.train, clients.test)
    centers = sums.centered_sketches(np.full(256, 0.01)).by_id[:2].astype(np.float64)
    is_empty = (clients.train.counts == 0) | (clients.test.counts == 0)
    for client in range(num_clients):
      public = hostile_clients.public(rng, model.num_parameters, centers)
      for question in hostile_clients.QUESTIONS:
        message = sums.total(question, public, np.array([client]))
        self.assertEqual((message.shape, message.dtype), ((sums.size(question),), np.int64))
        square = sum(int(number) ** 2 for number in message)
        self.assertLessEqual(
            square, question.sensitivity**2 * bounded_sums.STEPS**2, (client, question.name)
        )
        longest[question] = max(longest[question], square)
      if is_empty[client]:  # The last question was the report.
        self.assertFalse(message.any())
    for question, square in longest.items():
      self.assertGreater(math.sqrt(square), 0.999 * question.sensitivity * bounded_sums.STEPS)


class OthersTest(absltest.TestCase):

  def test_a_client_of_many_examples_changes_how_no_other_is_rounded(self):
    # On an accelerator, clients of a block are computed side by side, of large ones fewer.
    self.enter_context(mock.patch.object(blocks_lib.Blocks, "side_by_side", True))
    self.enter_context(mock.patch.object(
        blocks_lib, "plan", lambda model, most, **unused: blocks_lib.Blocks(
            tuple(jax.devices()[:1]), 512 // most, 1024
        )
    ))
    self.addCleanup(of_jax._planned.cache_clear)  # pylint: disable=protected-access
    of_jax._planned.cache_clear()  # pylint: disable=protected-access
    model = models.build("logistic", (196,), 10, "float32")
    vectors = np.random.default_rng(1).normal(size=(1, model.num_parameters)).astype(np.float32)
    public = bounded_sums.Public(vectors, False, np.zeros((1, sketch.SIZE)), 0.1)

    def totals(num_examples):
      rng, parts = np.random.default_rng(0), []
      for number in [8] * 64 + [num_examples]:
        features = rng.normal(size=(number, 196)).astype(np.float32)
        parts.append([(features, rng.integers(10, size=number))] * 2)
      clients = hostile_clients.pooled(parts)
      sums = of_jax.BoundedSums(model, 1, 3, 0.5, clients.train, clients.test)
      return [
          sums.total(one, public, np.arange(64))
          for one in (bounded_sums.SKETCH, bounded_sums.ROUND)
      ]

    for few, many in zip(totals(8), totals(128)):
      np.testing.assert_array_equal(few, many)


class BoundTest(absltest.TestCase):

  def test_is_at_most_a_quarter_above(self):
    bounds = [client_pool.bound(count) for count in range(1, 5000)]
    self.assertEqual(bounds, sorted(bounds))
    for count, bound in enumerate(bounds, 1):
      self.assertBetween(bound, count, max(8, 1.25 * count))
    self.assertLen({bound for bound in bounds if 1024 < bound <= 2048}, 4)
