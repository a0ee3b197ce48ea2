"""The models of the comparison as Keras models, for frameworks that take these alone."""

import tensorflow as tf

from bench.peers import job as job_lib


def build(job: job_lib.Job) -> tf.keras.Model:
  """Returns the job's model with its first parameters."""
  layers = tf.keras.layers
  hidden = {
      "cnn": [
          layers.Conv2D(32, 3, activation="relu"), layers.Conv2D(64, 3, activation="relu"),
          layers.MaxPool2D(2), layers.Dropout(0.25), layers.Flatten(),
          layers.Dense(128, activation="relu"), layers.Dropout(0.5),
      ],
      "cnn_small": [
          layers.Conv2D(16, 3, activation="relu"), layers.MaxPool2D(2),
          layers.Conv2D(32, 3, activation="relu"), layers.MaxPool2D(2), layers.Flatten(),
          layers.Dense(64, activation="relu"),
      ],
  }[job.model]
  first = layers.InputLayer(input_shape=job.images.shape[1:])
  model = tf.keras.Sequential([first, *hidden, layers.Dense(len(job.parameters[-1]))])
  model.set_weights(job.parameters)
  return model
