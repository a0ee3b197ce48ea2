"""An engine whose models and clients' data are points, so that tests can work by hand."""

import numpy as np

from fl_clustering.engine import participation
from fl_clustering.methods import client_weights
from fl_clustering.methods import method
from tests import letters


class PointEngine:
  """Trains a model by going half the way to the client's point.

  The loss is the squared distance.  All clients have one example, unless a test gives
  others.

  Attributes:
    clients: The clients that train.
    num_examples: Every client's number of examples.
    points: From each client to its point, which a test may move.
    initial: The models that `initial_vectors` returns.
    num_initial: How many models were asked for there.
    asked: The clients of every call of `losses`, by their letters.
    trained: The members of every call of `train` and `train_members`, by their letters.
    trained_alone: The clients by their letters, the first one's model and the `Round` of every call
      of `train_each`.
  """

  def __init__(self, points, new_clients=""):
    """Makes the clients.

    Args:
      points: From every client's letter to its point, a sequence of P numbers; or the points.
      new_clients: The letters of the clients that come after the training.
    """
    if not isinstance(points, dict):
      points = dict(zip(map(chr, range(ord("a"), ord("a") + len(points))), points))
    self.clients = letters.clients(sorted(set(points).difference(new_clients)))
    self.points = {
        int(letters.clients(name)[0]): np.array(point, np.float32)
        for name, point in points.items()
    }
    self.num_examples = np.ones(1 + max(self.points), np.int64)
    self.initial, self.num_initial = None, None
    self.asked, self.trained, self.trained_alone = [], [], []

  def initial_vectors(self, num_models, rng):
    del rng
    self.num_initial = num_models
    return self.initial

  def losses(self, vectors, clients):
    self.asked.append(letters.name(clients))
    points = np.array([self.points[c] for c in clients])
    return np.square(vectors[:, None] - points).sum(axis=-1)

  def train(self, vectors, members, round_, already_sent=False):
    del already_sent  # It counts no cost.
    new_vectors, _, losses = self.train_members(vectors, members, round_)
    return new_vectors, losses

  def train_members(self, vectors, members, round_):
    self.trained.append(letters.names(members))
    new_vectors, own, losses = vectors.copy(), [], []
    for k, clients in enumerate(members):
      trained = round_.among(clients)
      points = np.array([self.points[c] for c in trained]).reshape(-1, vectors.shape[1])
      own.append(((vectors[k] + points) / 2).astype(np.float32))
      values = np.square(vectors[k] - points).sum(axis=1)
      losses.append(participation.ClientLosses(trained, values))
      if len(trained):
        new_vectors[k] = np.average(own[k], axis=0, weights=self.num_examples[trained])
    return new_vectors, own, losses

  def sketches(self, clients, size):
    """Returns the points, whatever the size."""
    del size
    return np.array([self.points[c] for c in clients])

  def train_each(self, vectors, clients, round_):
    self.trained_alone.append((letters.name(clients), vectors[0].tolist(), round_))
    points = np.array([self.points[c] for c in clients])
    trained = ((vectors + points) / 2).astype(np.float32)
    return trained, participation.ClientLosses(clients, np.zeros(len(clients)))


def pretrained(engine):
  """Returns a `Pretrained` in which every client's own weights are its point.

  The global model after phase 1 is not their mean, or one could be taken for the other.

  Args:
    engine: A `PointEngine`.
  """
  vectors = np.array([engine.points[c] for c in engine.clients])
  start = np.zeros(vectors.shape[1], np.float32)
  weights = client_weights.ClientWeights(engine.clients, vectors, start)
  return method.Pretrained(start, vectors.mean(axis=0) + np.float32(7), weights)


def round_(number, names="abcde"):
  """Returns a round of one epoch in which these clients take part."""
  return participation.Round(number, letters.clients(names), 1)


def weights(vectors):
  """Returns clients "a", "b" and so on with these weights; those of the global model are ones."""
  vectors = np.asarray(vectors, np.float32)
  clients = np.arange(len(vectors))
  return client_weights.ClientWeights(clients, vectors, np.ones(vectors.shape[1], np.float32))
