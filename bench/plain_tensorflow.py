"""The limit of the benchmarks: the same arithmetic in plain TensorFlow."""

import concurrent.futures

import numpy as np
import tensorflow as tf


def build_train(model, batch_size, learning_rate):
  """Returns a client's training, one pass of plain SGD, as a `tf.function`.

  Args:
    model: A `model.Model`.
    batch_size: Examples per step.
    learning_rate: Step size.

  Returns:
    A function of the parameters, the images, the labels and a seed, int32 of shape (2,),
    that returns the parameters after the pass.  The dropout of a step follows from the
    seed as in `engine/client_update.py`.
  """

  @tf.function(
      input_signature=[
          [tf.TensorSpec(shape) for shape in model.parameter_shapes.values()],
          tf.TensorSpec([None, *model.input_shape]),
          tf.TensorSpec([None], tf.int32),
          tf.TensorSpec([2], tf.int32),
      ]
  )
  def train(parameters, images, labels, seed):
    for i in tf.range(0, tf.shape(labels)[0], batch_size):
      dropout_seed = None
      if model.uses_dropout:
        dropout_seed = tf.random.experimental.stateless_fold_in(seed, i // batch_size + 1)
      with tf.GradientTape() as tape:
        tape.watch(parameters)
        logits = model.logits(parameters, images[i : i + batch_size], dropout_seed)
        loss = tf.reduce_mean(
            tf.nn.sparse_softmax_cross_entropy_with_logits(
                labels=labels[i : i + batch_size], logits=logits
            )
        )
      gradients = tape.gradient(loss, parameters)
      parameters = [p - learning_rate * g for p, g in zip(parameters, gradients)]
    return parameters

  return train


class PlainTensorFlow:
  """Trains and evaluates a task's clients without any framework."""

  def __init__(self, task, batch_size, learning_rate, num_cores):
    """Takes the examples into memory and builds the functions.

    Args:
      task: A `FederatedTask`.
      batch_size: Examples per step.
      learning_rate: Step size.
      num_cores: Threads from which clients and models are computed.
    """
    model = task.model
    self._pool = concurrent.futures.ThreadPoolExecutor(num_cores)
    self._clients = {
        client.client_id: (
            tf.constant(client.train.features.astype(np.float32) / 255),
            tf.constant(client.train.labels.astype(np.int32)),
        )
        for client in task.clients
    }
    self._given_clients = dict(self._clients)
    test_images = tf.constant(task.global_test.features.astype(np.float32) / 255)
    test_labels = tf.constant(task.global_test.labels.astype(np.int32))

    @tf.function(
        input_signature=[[tf.TensorSpec(s) for s in model.parameter_shapes.values()]]
    )
    def confusion(parameters):
      predicted = tf.argmax(model.logits(parameters, test_images, None), axis=1)
      return tf.math.confusion_matrix(test_labels, predicted, task.num_classes)

    # One call per client for all models: with batches this small, calls cost much.
    @tf.function(reduce_retracing=True)
    def losses(models_parameters, images, labels):
      return [
          tf.reduce_mean(
              tf.nn.sparse_softmax_cross_entropy_with_logits(
                  labels=labels, logits=model.logits(parameters, images, None)
              )
          )
          for parameters in models_parameters
      ]

    self._train = build_train(model, batch_size, learning_rate)
    self._confusion = confusion
    self._losses = losses

  def reorder(self, orders):
    """Puts the examples of clients into another order than that of the task.

    Args:
      orders: From a client's id to the positions of its examples in the task.
    """
    for client_id, order in orders.items():
      images, labels = self._given_clients[client_id]
      self._clients[client_id] = tf.gather(images, order), tf.gather(labels, order)

  def average(self, parameters, clusters, seeds=None):
    """Trains every member of every cluster; returns each cluster's average.

    Args:
      parameters: The parameters to start from, a list of arrays.
      clusters: A sequence of sequences of client ids.
      seeds: From a client's id to the seed of its dropout; None for the same for all.
    """
    def train(client_id):
      images, labels = self._clients[client_id]
      seed = (0, 0) if seeds is None else seeds[client_id]
      trained = self._train(parameters, images, labels, tf.constant(seed, tf.int32))
      return [p.numpy() for p in trained], len(labels)

    # The largest first, so that no thread is left waiting.
    pairs = [(client_id, k) for k, members in enumerate(clusters) for client_id in members]
    pairs.sort(key=lambda pair: -len(self._clients[pair[0]][1]))
    sums = [[np.zeros(p.shape, np.float32) for p in parameters] for _ in clusters]
    totals = np.zeros(len(clusters))
    trained = self._pool.map(train, [client_id for client_id, _ in pairs])
    for (_, k), (result, num_examples) in zip(pairs, trained):
      for total, p in zip(sums[k], result):
        total += np.float32(num_examples) * p
      totals[k] += num_examples
    return [[p / total for p in parts] for parts, total in zip(sums, totals)]

  def confusions(self, models_parameters):
    return list(self._pool.map(lambda p: self._confusion(p).numpy(), models_parameters))

  def losses(self, models_parameters):
    """Returns per client, the largest first, every model's loss on its training data."""
    def of_client(client):
      return [loss.numpy() for loss in self._losses(models_parameters, *client)]

    clients = sorted(self._clients.values(), key=lambda client: -len(client[1]))
    return list(self._pool.map(of_client, clients))
