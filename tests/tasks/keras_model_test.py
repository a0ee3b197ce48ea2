import random

from absl.testing import parameterized
import numpy as np
import tensorflow as tf

from fl_clustering.tasks import keras_model

_layers = tf.keras.layers


def _sequential(*layers, shape=(13,), **details):
  return tf.keras.Sequential([_layers.Input(shape, **details), *layers])


def _recurrent():
  return _sequential(_layers.Embedding(10, 4), _layers.LSTM(5), _layers.Dense(3), dtype=tf.int32)


def _attention():
  inputs = tf.keras.Input((6, 2))
  hidden = _layers.MultiHeadAttention(2, 4)(inputs, inputs)
  return tf.keras.Model(inputs, _layers.Dense(3)(_layers.Flatten()(hidden)))


def _shared():
  inputs = tf.keras.Input((13,))
  dense = _layers.Dense(13, "relu")
  return tf.keras.Model(inputs, _layers.Dense(3)(dense(dense(inputs))))


def _with_dropout(rates=(0.25, 0.5)):
  return _sequential(*map(_layers.Dropout, rates), _layers.Dense(3, "linear"))


class _ListOfWeights(_layers.Layer):

  def build(self, shape):
    self.kernels = [self.add_weight("kernel", (shape[-1], 3))]

  def call(self, inputs):
    return inputs @ self.kernels[0]


class _UnusedWeight(_layers.Layer):

  def build(self, shape):
    self.kernel = self.add_weight("kernel", (shape[-1], 3))
    self.unused = self.add_weight("unused", (3,))

  def call(self, inputs):
    return inputs @ self.kernel


def _two_inputs():
  one, other = tf.keras.Input((2,)), tf.keras.Input((3,))
  return tf.keras.Model([one, other], _layers.Dense(3)(_layers.Concatenate()([one, other])))


class KerasModelTest(parameterized.TestCase):

  def test_the_head_is_the_last_layer_with_weights(self):
    model = keras_model.keras_model(
        lambda: _sequential(_layers.Dense(4), _layers.Dense(3), _layers.Reshape((3,)))
    )
    self.assertEqual(model.head, tuple(model.parameter_shapes)[2:])

  @parameterized.parameters(_recurrent, _attention, _shared, _with_dropout)
  def test_is_the_keras_model_on_the_same_weights(self, build):
    model, keras = keras_model.keras_model(build), build()
    rng = np.random.default_rng(0)
    parameters = [
        p + rng.normal(0, 0.1, p.shape).astype(np.float32) for p in model.initial_parameters(rng)
    ]
    keras.set_weights(parameters)
    inputs = rng.integers(10, size=(5, *model.input_shape)).astype(model.input_dtype)
    np.testing.assert_allclose(
        model.logits(parameters, inputs), keras(inputs, training=False), atol=1e-5
    )

  # A quarter is left by two layers; with the same masks it would be a half.
  @parameterized.parameters((1, 0.5, 2), (2, 0.25, 4))
  def test_dropout_leaves_its_share(self, num_layers, share, scale):
    # Logit i is what the masks leave of input i.
    model = keras_model.keras_model(lambda: _sequential(
        *(_layers.Dropout(0.5) for _ in range(num_layers)), _layers.Dense(400), shape=(400,)
    ))
    parameters = [np.eye(400, dtype=np.float32), np.zeros(400, np.float32)]
    inputs = np.ones((1, 400), np.float32)
    left = [model.logits(parameters, inputs, tf.constant([7, step])) for step in range(20)]
    self.assertContainsSubset(np.unique(left), (0, scale))
    # 8,000 coins: the standard deviation of the mean is 0.006.
    self.assertAlmostEqual(np.mean(np.array(left) > 0), share, delta=0.03)

  def test_dropout_of_whole_rows(self):
    model = keras_model.keras_model(lambda: _sequential(
        _layers.Dropout(0.5, noise_shape=(None, 1)), _layers.Dense(4), shape=(4,)
    ))
    parameters = [np.eye(4, dtype=np.float32), np.zeros(4, np.float32)]
    left = model.logits(parameters, np.ones((50, 4), np.float32), tf.constant([7, 1])).numpy()
    np.testing.assert_array_equal(left, np.repeat(left[:, :1], 4, axis=1))
    self.assertCountEqual(np.unique(left), (0, 2))

  def test_leaves_no_trace(self):
    tf.keras.utils.set_random_seed(3)
    expected = random.getstate()
    model = keras_model.keras_model(_with_dropout)
    model.initial_parameters(np.random.default_rng(0))
    self.assertEqual(random.getstate(), expected)

  def test_weights_that_are_loaded_are_where_it_starts(self):
    weights = [np.full((13, 3), 0.5, np.float32), np.array([1, 2, 3], np.float32)]

    def build():
      keras = _sequential(_layers.Dense(3))
      keras.set_weights(weights)
      return keras

    model = keras_model.keras_model(build)
    for parameter, weight in zip(model.initial_parameters(np.random.default_rng(0)), weights):
      np.testing.assert_array_equal(parameter, weight)

  # And a word of what the message names.
  @parameterized.parameters(
      ("moving_mean", lambda: _sequential(_layers.BatchNormalization(), _layers.Dense(3))),
      ("trained", lambda: _sequential(_layers.Dense(3, trainable=False), _layers.Dense(3))),
      ("gaussian_noise", lambda: _sequential(_layers.GaussianNoise(0.1), _layers.Dense(3))),
      ("lstm", lambda: _sequential(
          _layers.LSTM(5, dropout=0.2), _layers.Dense(3), shape=(4, 2))),
      ("softmax", lambda: _sequential(_layers.Dense(3, "softmax"))),
      ("Softmax", lambda: _sequential(_layers.Dense(3), _layers.Softmax())),
      ("regularizers", lambda: _sequential(_layers.Dense(3, kernel_regularizer="l2"))),
      ("Input", lambda: tf.keras.Sequential([_layers.Dense(3)])),
      ("shape", lambda: _sequential(_layers.SimpleRNN(3), shape=(None, 2))),
      ("float64", lambda: _sequential(_layers.Dense(3), dtype=tf.float64)),
      ("one input", _two_inputs),
      ("two classes", lambda: _sequential(_layers.Dense(3), _layers.Reshape((3, 1)))),
      ("two classes", lambda: _sequential(_layers.Dense(1))),
      ("weights", lambda: _sequential(_layers.Flatten())),
      ("kernel", lambda: _sequential(_ListOfWeights())),
      ("weights change", lambda: _sequential(_UnusedWeight())),
      ("initializers", lambda: _sequential(_layers.Dense(
          3, kernel_initializer=lambda shape, dtype=None: np.random.normal(size=shape)))),
  )
  def test_refuses(self, word, build):
    with self.assertRaisesRegex(ValueError, f"^`build`.*{word}") as raised:
      keras_model.keras_model(build)
    self.assertNotIn("\n", str(raised.exception))

  @parameterized.parameters(_with_dropout, lambda: lambda: 3)
  def test_refuses_what_is_no_function_of_a_model(self, make):
    with self.assertRaisesRegex(TypeError, "`build`"):
      keras_model.keras_model(make())
