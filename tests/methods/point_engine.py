"""An engine whose models and clients' data are points, so that tests can work by hand."""

import numpy as np

from fl_clustering.methods import client_weights
from fl_clustering.methods import method


class PointEngine:
  """Trains a model by going half the way to the client's point.

  The loss is the squared distance.  All clients have one example, unless a test gives
  others.

  Attributes:
    client_ids: The ids of the clients that train.
    num_examples: From each client's id to its number of examples.
    points: From each client's id to its point, which a test may move.
    initial: The models that `initial_vectors` returns.
    num_initial: How many models were asked for there.
    asked: The clients of every call of `losses`.
    trained: The members of every call of `train` and `train_members`.
    trained_alone: The clients, the first one's model and the `Round` of every call of
      `train_each`.
  """

  def __init__(self, points, new_client_ids=()):
    """Makes the clients.

    Args:
      points: From every client's id to its point, a sequence of P numbers.
      new_client_ids: The clients that come after the training.
    """
    self.client_ids = tuple(c for c in points if c not in new_client_ids)
    self.num_examples = {c: 1 for c in points}
    self.points = {c: np.array(point, np.float32) for c, point in points.items()}
    self.initial, self.num_initial = None, None
    self.asked, self.trained, self.trained_alone = [], [], []

  def initial_vectors(self, num_models, rng):
    del rng
    self.num_initial = num_models
    return self.initial

  def losses(self, vectors, client_ids):
    self.asked.append(tuple(client_ids))
    points = np.array([self.points[c] for c in client_ids])
    return np.square(vectors[:, None] - points).sum(axis=-1)

  def train(self, vectors, members, round_, already_sent=False):
    del already_sent  # It counts no cost.
    new_vectors, _, losses = self.train_members(vectors, members, round_)
    return new_vectors, losses

  def train_members(self, vectors, members, round_):
    self.trained.append(tuple(map(tuple, members)))
    new_vectors, own, losses = vectors.copy(), [], []
    for k, ids in enumerate(members):
      trained = [c for c in ids if c in round_.client_ids]
      own.append({c: self._trained(vectors[k], c) for c in trained})
      losses.append({c: float(np.square(vectors[k] - self.points[c]).sum()) for c in trained})
      if trained:
        weights = [self.num_examples[c] for c in trained]
        new_vectors[k] = np.average(list(own[k].values()), axis=0, weights=weights)
    return new_vectors, own, losses

  def train_each(self, vectors, client_ids, round_):
    self.trained_alone.append((tuple(client_ids), vectors[0].tolist(), round_))
    trained = [self._trained(vector, c) for vector, c in zip(vectors, client_ids)]
    return np.array(trained, np.float32), {c: 0.0 for c in client_ids}

  def _trained(self, vector, client_id):
    return ((vector + self.points[client_id]) / 2).astype(np.float32)


def pretrained(engine):
  """Returns a `Pretrained` in which every client's own weights are its point.

  The global model after phase 1 is not their mean, or one could be taken for the other.

  Args:
    engine: A `PointEngine`.
  """
  vectors = np.array([engine.points[c] for c in engine.client_ids])
  start = np.zeros(vectors.shape[1], np.float32)
  weights = client_weights.ClientWeights(engine.client_ids, vectors, start)
  return method.Pretrained(start, vectors.mean(axis=0) + np.float32(7), weights)
