"""Tests of what a client sends: bounded, whatever it holds."""

import math
import os

from absl.testing import absltest
from absl.testing import parameterized
import numpy as np
import tensorflow as tf

from fl_clustering.engine import bounded_sums
from fl_clustering.engine import sketch
from fl_clustering.engine.tff import client_messages
from fl_clustering.engine.tff import client_sketches
from fl_clustering.tasks import networks
from tests import hostile_clients
from tests import nightly

_MODEL = networks.Logistic()((4,), 3, "float32")
_RNG = np.random.default_rng(1)
_UPDATES = {
    "ordinary": _RNG.normal(size=15),
    "short": _RNG.normal(size=15) * 1e-6,
    "zero": np.zeros(15),
    "one_number": np.eye(15)[3] * 1e3,
    "huge": np.full(15, 3e38),
    "tiny": np.full(15, 1e-300),
}


def _norm(steps):
  """Returns the norm of integers, as exact as float64 is."""
  return math.sqrt(sum(int(step) ** 2 for step in steps))


class RoundMessageTest(parameterized.TestCase):

  @parameterized.product(update=list(_UPDATES), clip_norm=(1e-9, 0.3, 1e9), slot=(0, 2))
  def test_is_never_longer_than_the_sensitivity(self, update, clip_norm, slot):
    message = client_messages.round_message(
        tf.constant(_UPDATES[update]), tf.constant(slot), 3, tf.constant(clip_norm, tf.float64)
    )
    steps = client_messages.in_steps(message).numpy()
    self.assertEqual(steps.shape, (3 * 16 + 1,))
    bound = bounded_sums.ROUND.sensitivity * bounded_sums.STEPS
    self.assertLessEqual(_norm(steps), bound)
    self.assertGreater(_norm(steps[:-1].reshape(3, 16)[slot]), 0.19 * bounded_sums.STEPS)
    self.assertFalse(np.delete(steps[:-1].reshape(3, 16), slot, axis=0).any())
    if update == "ordinary" and clip_norm < 1:  # A long update nearly reaches it.
      self.assertGreater(_norm(steps), bound * (1 - 1e-4))

  @parameterized.parameters((0.999, 0.999, 0.05), (1.0, 1.0, 0.05), (1.001, 1.0, -0.05))
  def test_is_the_clipped_update_a_count_and_whether_it_was_short(self, length, clipped, bit):
    update = tf.constant(length * np.eye(15)[3] * 1e-3)
    message = client_messages.round_message(update, tf.constant(1), 2, 1e-3).numpy()
    np.testing.assert_allclose(message, [*np.zeros(16), *clipped * np.eye(15)[3], 0.2, bit])

  @parameterized.parameters(0.0, 1e-12, 0.125, 0.7, 3.0, 500.0, 1e300)
  def test_the_histogram_has_a_place_for_every_norm(self, norm):
    message = client_messages.norm_message(tf.constant([norm, 0.0], tf.float64)).numpy()
    place = np.digitize(norm, bounded_sums.NORM_BINS)
    self.assertEqual(message.tolist(), np.eye(35)[place].tolist())


class UpdateTest(parameterized.TestCase):

  @parameterized.parameters((True, [1 / 2, 1 / 2, 0]), (False, [1 / 3, 1 / 3, 1 / 3]))
  def test_is_a_step_along_the_mean_gradient(self, own_labels, predicted):
    features, labels = _RNG.normal(size=(5, 4)), np.array([0, 1, 1, 0, 1])
    errors = (predicted - np.eye(3)[labels]) / 5  # The model of zeros knows nothing.
    expected = -0.5 * np.concatenate([(features.T @ errors).ravel(), errors.sum(axis=0)])
    for scale in (1.0, np.inf):
      examples = tf.constant(scale * features, tf.float32), tf.constant(labels)
      found = client_messages.update_of(
          _MODEL, tf.zeros([15]), examples, local_steps=1, learning_rate=0.5, own_labels=own_labels
      )
      np.testing.assert_allclose(found, expected if scale == 1 else np.zeros(15), atol=1e-6)


class ReportMessageTest(absltest.TestCase):

  def test_counts_what_is_right_also_in_a_graph(self):
    features, labels = np.eye(4, dtype=np.float32), np.array([0, 1, 2, 2], np.int32)
    vectors = np.zeros((2, 15), np.float32)
    vectors[1, :12] = np.eye(4, 3).ravel()  # It predicts 0, 1, 2 and 0.
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:  # As TFF does.
      message = session.run(client_messages.report_message(
          _MODEL, tf.constant(vectors), tf.constant(1), (tf.constant(features), tf.constant(labels))
      ))
    np.testing.assert_allclose(message, [0, 0, 0.25, 0.5])

  def test_outputs_that_are_not_finite_name_no_class(self):
    features = np.diag([1e30, 1e8, 1, 1]).astype(np.float32)
    vector = np.zeros(15, np.float32)
    vector[[0, 3, 6]] = 1e30  # The first row has an infinite output, and the last one none.
    test = tf.constant(features), tf.constant([0, 0, 0, 1])
    self.assertEqual(float(client_messages.accuracy(_MODEL, tf.constant(vector), test)), 0.5)


class SketchTest(parameterized.TestCase):

  def _sketch(self, features, labels):
    examples = tf.constant(features, tf.float32), tf.constant(labels, tf.int32)
    return client_sketches.sketch(_MODEL, examples).numpy()

  @parameterized.parameters(1.0, 1e30, math.nan, math.inf)
  def test_has_norm_one_or_is_zero(self, scale):
    features = _RNG.normal(size=(20, 4)) * scale
    norm = np.linalg.norm(self._sketch(features, _RNG.integers(3, size=20)))
    self.assertAlmostEqual(norm, 1.0 if scale == 1 else min(1.0, round(norm)), places=12)

  def test_ignores_how_often_a_label_occurs_and_the_scale_of_features(self):
    features, labels = _RNG.normal(size=(6, 4)), np.array([0, 0, 0, 1, 1, 1])
    more = np.concatenate([features, features[:3], features[:3]])
    expected = self._sketch(features, labels)
    for rows, names in (
        (more, [*labels, 0, 0, 0, 0, 0, 0]), (1e-6 * features, labels), (1e6 * features, labels)
    ):
      np.testing.assert_allclose(self._sketch(rows, names), expected, atol=1e-5)

  def test_of_one_label_is_zero(self):
    # Its loss is zero, whatever the model: there is nothing to learn from.
    self.assertFalse(self._sketch(_RNG.normal(size=(5, 4)), [1] * 5).any())

  @parameterized.parameters(0.0, 1e9)
  def test_about_a_mean_has_norm_one_whatever_the_mean(self, mean):
    own = tf.constant(self._sketch(_RNG.normal(size=(9, 4)), [0, 1, 2] * 3))
    about = tf.fill([sketch.SIZE], tf.constant(mean, tf.float64))
    self.assertAlmostEqual(np.linalg.norm(client_sketches.unit(own - about)), 1.0)


class SlotTest(absltest.TestCase):

  def test_is_that_of_the_sketch_and_then_that_of_least_loss(self):
    path = os.path.join(self.create_tempdir().full_path, "sketch")
    # By squares the second one is nearest; by differences with their signs, it isn't.
    centers = np.array([[2.0], [1.0]]) * np.eye(2, sketch.SIZE)
    (0.1 * centers[0] + 0.8 * centers[1]).tofile(path)
    examples = tf.constant(_RNG.normal(size=(9, 4)), tf.float32), tf.constant([0, 1, 2] * 3)
    update = client_messages.update_of(
        _MODEL, tf.zeros([15]), examples, local_steps=20, learning_rate=0.5, own_labels=True
    )
    vectors = tf.stack([tf.cast(update, tf.float32), tf.zeros([15])])  # The first has learned.

    def slot(vectors, is_locked):
      public = {"vectors": vectors, "is_locked": is_locked, "centers": centers}
      return int(client_messages.slot_of(_MODEL, public, path, examples))

    self.assertEqual([slot(vectors, True), slot(vectors[::-1], True)], [1, 1])
    self.assertEqual([slot(vectors, False), slot(vectors[::-1], False)], [0, 1])
    self.assertEqual(slot(vectors[:1], True), 0)


@tf.function(reduce_retracing=True)
def _messages(train, test, vectors, clip_norm):
  """Returns a client's messages, in steps: sketch, norm, round and report."""
  train, test = ((rows[:, :-1], tf.cast(rows[:, -1], tf.int32)) for rows in (train, test))
  slot = client_messages.least_loss(_MODEL, vectors, train)
  update = client_messages.update_of(
      _MODEL, vectors[slot], train, local_steps=3, learning_rate=0.05, own_labels=True
  )
  return (
      client_messages.or_zeros(
          lambda: client_sketches.sketch(_MODEL, train), sketch.SIZE, train
      ),
      client_messages.or_zeros(lambda: client_messages.norm_message(update), 35, train),
      client_messages.or_zeros(
          lambda: client_messages.round_message(update, slot, 2, clip_norm), 33, train
      ),
      client_messages.or_zeros(
          lambda: client_messages.report_message(_MODEL, vectors, slot, test), 4, train, test
      ),
  )


class AnyClientTest(absltest.TestCase):

  def test_sends_zeros_without_examples(self):
    for sizes, expected in (((1,), 1), ((1, 1), 1), ((0,), 0), ((1, 0), 0), ((0, 1), 0)):
      examples = [(None, tf.zeros([size], tf.int32)) for size in sizes]
      message = client_messages.or_zeros(lambda: tf.ones([2], tf.float64), 2, *examples)
      self.assertEqual(message.numpy().any(), expected, sizes)

  def test_sends_nothing_that_is_longer_than_the_sensitivity(self):
    bounds = [question.sensitivity for question in hostile_clients.QUESTIONS]
    longest = [0.0] * len(bounds)
    for seed in range(nightly.either(50, 5000)):
      rng = np.random.default_rng(seed)
      train, test = (
          np.column_stack([features, labels]).astype(np.float32)
          for features, labels in hostile_clients.examples(rng)
      )
      vectors = rng.normal(size=(2, 15)) * 10 ** rng.uniform(-9, 30)
      messages = _messages(
          tf.constant(train), tf.constant(test), tf.constant(vectors, tf.float32),
          tf.constant(10 ** rng.uniform(-12, 3), tf.float64),
      )
      norms = [_norm(message.numpy()) / bounded_sums.STEPS for message in messages]
      longest = list(map(max, longest, norms))
    for norm, bound in zip(longest, bounds, strict=True):
      self.assertBetween(norm, 0.999 * bound, bound)
