"""Plain gradients of two small models in NumPy, and the batches on which clients train."""

import numpy as np
import tensorflow as tf

from clustering_basics import randomness

# Of the network with one hidden layer.
HIDDEN_UNITS = 6


def batches(client, round_num, num_epochs, seed, batch_size):
  """Yields the number of the pass, and each batch's features and labels."""
  seed = randomness.stateless_seed(seed, "local_training", round_num, client.client_id)
  examples = client.train
  features = examples.features.reshape(len(examples), -1) / 255
  for epoch in range(num_epochs):
    order = tf.random.experimental.stateless_shuffle(
        tf.range(len(examples)), tf.random.experimental.stateless_fold_in(seed, epoch)
    ).numpy()
    for start in range(0, len(order), batch_size):
      batch = order[start : start + batch_size]
      yield epoch, features[batch], examples.labels[batch]


def _softmax_error(logits, labels):
  """Returns the gradient of the mean cross-entropy in the logits."""
  error = np.exp(logits - logits.max(axis=1, keepdims=True))
  error /= error.sum(axis=1, keepdims=True)
  error[np.arange(len(labels)), labels] -= 1
  return error / len(labels)


def gradient(vector, x, labels):
  """Returns the gradient of softmax regression, of shape (P,)."""
  kernel, bias = vector[:-10].reshape(784, 10), vector[-10:]
  error = _softmax_error(x @ kernel + bias, labels)
  return np.concatenate([(x.T @ error).ravel(), error.sum(axis=0)])


def mlp_gradient(vector, x, labels):
  """Returns the gradient of a network with a hidden layer, of shape (P,)."""
  sizes = np.cumsum([784 * HIDDEN_UNITS, HIDDEN_UNITS, HIDDEN_UNITS * 10])
  kernel_1, bias_1, kernel_2, bias_2 = np.split(vector, sizes)
  kernel_1, kernel_2 = kernel_1.reshape(784, HIDDEN_UNITS), kernel_2.reshape(HIDDEN_UNITS, 10)
  hidden = np.maximum(x @ kernel_1 + bias_1, 0)
  error = _softmax_error(hidden @ kernel_2 + bias_2, labels)
  below = (error @ kernel_2.T) * (hidden > 0)
  return np.concatenate([
      (x.T @ below).ravel(), below.sum(axis=0), (hidden.T @ error).ravel(), error.sum(axis=0)
  ])


def in_mlp_head(num_parameters):
  """Returns of each number of the network whether it is of the last layer, of shape (P,)."""
  return np.arange(num_parameters) >= num_parameters - 10 * (HIDDEN_UNITS + 1)
