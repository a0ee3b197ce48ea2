import random

from absl.testing import absltest
from absl.testing import parameterized
import numpy as np
import tensorflow as tf

from fl_clustering.tasks import keras_model

_layers = tf.keras.layers


def _sequential(*layers, shape=(13,), **details):
  return tf.keras.Sequential([_layers.Input(shape, **details), *layers])


def _recurrent():
  return _sequential(
      _layers.Embedding(10, 4), _layers.LSTM(5), _layers.Dense(3), dtype=tf.int32
  )


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

  def test_dropout_leaves_its_share(self):
    # Logit i is what the mask leaves of input i.
    model = keras_model.keras_model(
        lambda: _sequential(_layers.Dropout(0.5), _layers.Dense(400), shape=(400,))
    )
    parameters = [np.eye(400, dtype=np.float32), np.zeros(400, np.float32)]
    inputs = np.ones((1, 400), np.float32)
    masks = [model.logits(parameters, inputs, tf.constant([7, step])) for step in range(20)]
    self.assertContainsSubset(np.unique(masks), (0, 2))
    # 8,000 coins: the standard deviation of the mean is 0.006.
    self.assertAlmostEqual(np.mean(np.array(masks) > 0), 0.5, delta=0.03)

  def test_two_dropout_layers_have_masks_of_their_own(self):
    model = keras_model.keras_model(lambda: _sequential(
        _layers.Dropout(0.5), _layers.Dropout(0.5), _layers.Dense(400), shape=(400,)
    ))
    parameters = [np.eye(400, dtype=np.float32), np.zeros(400, np.float32)]
    left = [
        model.logits(parameters, np.ones((1, 400), np.float32), tf.constant([7, step])) > 0
        for step in range(20)
    ]
    # A quarter is left by both; with the same masks it would be a half.
    self.assertAlmostEqual(np.mean(left), 0.25, delta=0.03)

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
    for seed in (0, 1):
      found = model.initial_parameters(np.random.default_rng(seed))
      for parameter, weight in zip(found, weights):
        np.testing.assert_array_equal(parameter, weight)

  @parameterized.named_parameters(
      ("batch_normalization", lambda: _sequential(_layers.BatchNormalization(), _layers.Dense(3)),
       "all of whose weights are trained; batch normalization .*moving_mean"),
      ("frozen", lambda: _sequential(_layers.Dense(3, trainable=False), _layers.Dense(3)),
       "all of whose weights are trained"),
      ("noise", lambda: _sequential(_layers.GaussianNoise(0.1), _layers.Dense(3)),
       "is random by tf.keras.layers.Dropout alone.*gaussian_noise"),
      ("recurrent_dropout",
       lambda: _sequential(_layers.LSTM(5, dropout=0.2), _layers.Dense(3), shape=(4, 2)),
       "is random by tf.keras.layers.Dropout alone.*lstm"),
      ("softmax", lambda: _sequential(_layers.Dense(3, "softmax")),
       "ends in logits, without softmax or sigmoid, got 'softmax'"),
      ("softmax_layer", lambda: _sequential(_layers.Dense(3), _layers.Softmax()),
       "ends in logits, without softmax or sigmoid, got 'Softmax'"),
      ("regularizer", lambda: _sequential(_layers.Dense(3, kernel_regularizer="l2")),
       "without regularizers"),
      ("no_input", lambda: tf.keras.Sequential([_layers.Dense(3)]), "begin with tf.keras.Input"),
      ("any_length", lambda: _sequential(_layers.LSTM(3), shape=(None, 2)), "shape is fixed"),
      ("text", lambda: _sequential(_layers.Dense(3), dtype=tf.float64), "float32 or int32.* got 'float64"),
      ("two_inputs", _two_inputs, r"one input.* got .*\(None, 2\), \(None, 3\)"),
      ("no_class", lambda: _sequential(_layers.Dense(3), _layers.Reshape((3, 1))),
       r"two classes or more, got .*\(None, 3, 1\)"),
      ("one_output", lambda: _sequential(_layers.Dense(1)), r"or more, got .*\(None, 1\)"),
      ("no_weights", lambda: _sequential(_layers.Flatten()), "with weights"),
      ("list", lambda: _sequential(_ListOfWeights()), "each weight as an attribute.*kernel"),
      ("unused", lambda: _sequential(_UnusedWeight()), "all of whose weights change the output"),
      ("unseeded",
       lambda: _sequential(_layers.Dense(
           3, kernel_initializer=lambda shape, dtype=None: np.random.normal(size=shape))),
       "whose first weights come from Keras' initializers"),
  )
  def test_refuses(self, build, message):
    with self.assertRaisesRegex(ValueError, f"^`build` must return a model .*{message}") as raised:
      keras_model.keras_model(build)
    self.assertNotIn("\n", str(raised.exception))

  def test_refuses_what_is_no_function_of_a_model(self):
    with self.assertRaisesRegex(TypeError, "`build` must be a function .*, got Sequential"):
      keras_model.keras_model(_with_dropout())
    with self.assertRaisesRegex(TypeError, "`build` must return a tf.keras.Model, got int"):
      keras_model.keras_model(lambda: 3)


if __name__ == "__main__":
  absltest.main()
