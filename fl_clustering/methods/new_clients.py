"""How a method finds a model for a client that was not there in training."""

import numpy as np

from fl_clustering.methods import method


def in_cluster(vectors, clusters):
  """Returns the `Placement` of clients that use their cluster's model as it is.

  Args:
    vectors: The clusters' models, float32 of shape (K, P).
    clusters: Each client's cluster, an array of ints of shape (num_clients,).
  """
  clusters = np.asarray(clusters, int)
  return method.Placement(tuple((int(k),) for k in clusters), vectors[clusters])


def by_loss(engine):
  """Returns the `Method.place` that takes the model of least loss on the training data.

  It chooses among clusters with members.  It is IFCA's rule (Ghosh et al., "An Efficient
  Framework for Clustered Federated Learning", NeurIPS 2020, section 4).

  Args:
    engine: An `engine.Engine`.
  """

  def place(pretrained, state, new_client_ids):
    del pretrained  # The models' losses decide.
    used = np.flatnonzero(list(map(len, state.members)))
    losses = engine.losses(state.vectors[used], new_client_ids)
    return in_cluster(state.vectors, used[losses.argmin(axis=0)])

  return place


def _mean(vectors):
  """Returns the mean of a `client_weights.Represented`'s rows, float64 of shape (P,)."""
  total = np.zeros(vectors.shape[1])
  # One client at a time: all of them in float64 are gigabytes for large models.
  for i in range(len(vectors)):
    total += vectors[i]
  return total / len(vectors)


def by_weights(representation):
  """Returns the `Method.place` that takes the cluster nearest to the client's own weights.

  The client's weights are what one local training gives, as for the clients that were
  grouped.  Nearest is the cluster with the least Euclidean distance from the mean of its
  members' weights, both in the representation that was grouped.

  Args:
    representation: One of `client_weights.REPRESENTATIONS`.
  """

  def place(pretrained, state, new_client_ids):
    weights = pretrained.client_weights
    used = np.flatnonzero(list(map(len, state.members)))
    means = [_mean(weights.represented(representation, state.members[k])) for k in used]
    own = pretrained.new_client_weights.represented(representation, new_client_ids)
    distances = [
        [np.linalg.norm(own[i] - mean) for i in range(len(own))] for mean in means
    ]
    return in_cluster(state.vectors, used[np.argmin(distances, axis=0)])

  return place


def train_alone(engine, start_of, rounds_of):
  """Returns the `Method.place` that trains every client's model on its data alone.

  Args:
    engine: An `engine.Engine`.
    start_of: A function from a `Pretrained` to the model that each client starts from,
      float32 of shape (P,).
    rounds_of: The `Round`s in which the clients would have trained; who takes part in
      them doesn't count.
  """

  def place(pretrained, state, new_client_ids):
    del state  # No other client's model is used.
    vectors = np.stack([start_of(pretrained)] * len(new_client_ids))
    for round_ in rounds_of:
      vectors, _ = engine.train_each(vectors, tuple(new_client_ids), round_)
    return method.Placement(((),) * len(new_client_ids), vectors)

  return place
