"""The models of the benchmarks as Keras models, for frameworks that take these alone."""

import tensorflow as tf


def _cnn(input_shape: tuple[int, ...]) -> list[tf.keras.layers.Layer]:
  layers = tf.keras.layers
  return [
      layers.Conv2D(32, 3, activation="relu", input_shape=input_shape),
      layers.Conv2D(64, 3, activation="relu"),
      layers.MaxPool2D(2),
      layers.Dropout(0.25),
      layers.Flatten(),
      layers.Dense(128, activation="relu"),
      layers.Dropout(0.5),
  ]


def _cnn_small(input_shape: tuple[int, ...]) -> list[tf.keras.layers.Layer]:
  layers = tf.keras.layers
  return [
      layers.Conv2D(16, 3, activation="relu", input_shape=input_shape),
      layers.MaxPool2D(2),
      layers.Conv2D(32, 3, activation="relu"),
      layers.MaxPool2D(2),
      layers.Flatten(),
      layers.Dense(64, activation="relu"),
  ]


def _logistic(input_shape: tuple[int, ...]) -> list[tf.keras.layers.Layer]:
  return [tf.keras.layers.Flatten(input_shape=input_shape)]


_HIDDEN_LAYERS = {"cnn": _cnn, "cnn_small": _cnn_small, "logistic": _logistic}


def build(name: str, input_shape: tuple[int, ...], num_classes: int) -> tf.keras.Model:
  """Returns the Keras model; its weights are in the order of `Model.parameter_shapes`.

  Args:
    name: A name in `models.MODELS`.
    input_shape: Shape of one image.
    num_classes: Number of outputs.
  """
  hidden = _HIDDEN_LAYERS[name](input_shape)
  return tf.keras.Sequential([*hidden, tf.keras.layers.Dense(num_classes)])
