"""A few clusters seen in views of different widths and scales, over unequal clients."""

import numpy as np

NUM_CLUSTERS = 3
WIDTHS = (4, 2, 3)
_SCALES = (1.0, 100.0, 0.01)
_SIZES = {"a": 40, "b": 25, "c": 7, "d": 1}


def sample_views(seed=0, separation=4.0):
  """Returns a mapping of client id to views, and the true clusters by client id."""
  rng = np.random.default_rng(seed)
  means = [separation * rng.standard_normal((NUM_CLUSTERS, width)) for width in WIDTHS]
  clients, clusters = {}, {}
  for client_id, size in _SIZES.items():
    clusters[client_id] = rng.integers(NUM_CLUSTERS, size=size)
    clients[client_id] = [
        scale * (mean[clusters[client_id]] + rng.standard_normal((size, width)) + 10.0)
        for scale, mean, width in zip(_SCALES, means, WIDTHS)
    ]
  return clients, clusters


def pooled(clients):
  """Returns all clients' points as one list of views."""
  return [np.concatenate(views) for views in zip(*clients.values())]
