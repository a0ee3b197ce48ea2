import itertools

from absl.testing import parameterized
import jax
import jax.numpy as jnp
import numpy as np
import tensorflow as tf

from fl_clustering.engine.jax import networks
from fl_clustering.tasks import models
from tests import nightly

_SHAPE = (28, 28, 1)


def _colored():
  return models.build("cnn_small", (13, 14, 3), 4)


_MODELS = {
    "cnn_small": lambda: models.build("cnn_small", _SHAPE, 10),
    "cnn": lambda: models.build("cnn", _SHAPE, 10),
    "mlp": lambda: models.build("mlp", _SHAPE, 10, hidden_units="30,20"),
    "logistic": lambda: models.build("logistic", _SHAPE, 10),
    "of_odd_sides_and_colors": _colored,
}


def _of_tensorflow(model, parameters, inputs, labels):
  """Returns logits, and the gradients of the mean loss."""
  variables = [tf.constant(p) for p in parameters]
  with tf.GradientTape() as tape:
    tape.watch(variables)
    logits = model.logits(variables, tf.constant(inputs), None)
    loss = tf.reduce_mean(
        tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
    )
  return logits, tape.gradient(loss, variables)


def _of_jax(model, parameters, inputs, labels):
  def mean_loss(parameters):
    logits = networks.logits(model, parameters, jnp.asarray(inputs))
    return networks.losses(logits, jnp.asarray(labels)).mean(), logits

  gradients_of = jax.jit(jax.grad(mean_loss, has_aux=True))
  gradients, logits = gradients_of(list(map(jnp.asarray, parameters)))
  return logits, gradients


class NetworksTest(parameterized.TestCase):

  @parameterized.parameters(*_MODELS)
  def test_outputs_and_gradients_are_those_of_tensorflow(self, name):
    model, rng = _MODELS[name](), np.random.default_rng(0)
    parameters = model.initial_parameters(rng)
    inputs = rng.random((6, *model.input_shape), np.float32)
    labels = rng.integers(0, model.num_classes, 6)
    expected, expected_gradients = _of_tensorflow(model, parameters, inputs, labels)
    logits, gradients = _of_jax(model, parameters, inputs, labels)
    self.assertGreater(np.abs(expected).max(), 0.1)
    np.testing.assert_allclose(logits, expected, atol=1e-6)
    for gradient, of_tensorflow in zip(gradients, expected_gradients):
      np.testing.assert_allclose(gradient, of_tensorflow, atol=1e-6)

  @parameterized.parameters(*itertools.product((1, 4), (1, 2, 3), (False,)), (4, 2, True))
  def test_what_is_pooled_and_its_gradient_are_those_of_tensorflow_where_numbers_are_equal(
      self, channels, pool, is_alone
  ):
    nightly.skip_by_day(self, pool != 2)  # By day, as all our models pool.
    rng = np.random.default_rng(1)
    inputs = rng.integers(0, 2, (3, 9, 13, channels)).astype(np.float32)
    kernels = rng.integers(-1, 2, (2, 3, 3, channels, 5)).astype(np.float32)
    with tf.GradientTape(persistent=True) as tape:
      tape.watch(tensors := tf.constant(kernels))
      expected = tf.stack([
          tf.nn.max_pool2d(tf.nn.conv2d(inputs, tensors[place], 1, "VALID"), pool, pool, "VALID")
          for place in range(2)
      ])
      weights = rng.integers(1, 9, expected.shape[1:]).astype(np.float32)
      total = tf.reduce_sum(weights * expected)

    def pooled(kernel):
      return networks._pooled(jnp.asarray(inputs), kernel, pool, is_alone)

    # One model after the other, and side by side.
    for of_all in (lambda f: lambda x: jnp.stack([f(x[0]), f(x[1])]), jax.vmap):
      np.testing.assert_array_equal(of_all(pooled)(jnp.asarray(kernels)), expected)
      gradient = jax.grad(lambda kernel: jnp.sum(weights * pooled(kernel)))
      found = jax.jit(of_all(gradient))(jnp.asarray(kernels))
      np.testing.assert_array_equal(found, tape.gradient(total, tensors))

  def test_dropout_drops_its_share_and_keeps_the_mean(self):
    ones, key = jnp.ones((50, 400)), jax.random.PRNGKey(3)
    dropped = [np.asarray(networks._dropout(ones, 0.25, key, number)) for number in (0, 1)]
    self.assertAlmostEqual((dropped[0] == 0).mean(), 0.25, delta=0.02)
    self.assertAlmostEqual(dropped[0].mean(), 1, delta=0.03)
    # Layers draw for themselves.
    self.assertAlmostEqual((dropped[0] == dropped[1]).mean(), 0.25**2 + 0.75**2, delta=0.03)
    np.testing.assert_array_equal(networks._dropout(ones, 0.25, None, 0), ones)

  def test_dropout_is_in_the_network(self):
    model, rng = _MODELS["cnn"](), np.random.default_rng(0)
    parameters = list(map(jnp.asarray, model.initial_parameters(rng)))
    inputs = jnp.asarray(rng.random((2, *_SHAPE), np.float32))
    with_keys = [
        np.asarray(networks.logits(model, parameters, inputs, key))
        for key in (None, jax.random.PRNGKey(1), jax.random.PRNGKey(2))
    ]
    for i in range(3):
      self.assertGreater(np.abs(with_keys[i] - with_keys[i - 1]).max(), 1e-3)
