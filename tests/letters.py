"""Clients by letters, so that tests can be read: a is 0, b is 1, and so on."""

import numpy as np


def clients(names):
  """Returns the clients of some letters."""
  return np.array([ord(name) - ord("a") for name in names], np.int64)


def clusters(*of_letters):
  """Returns clusters of clients."""
  return tuple(map(clients, of_letters))


def name(of_clients):
  """Returns the letters of some clients."""
  return "".join(chr(ord("a") + client) for client in of_clients)


def names(of_clusters):
  """Returns the letters of clusters of clients."""
  return tuple(map(name, of_clusters))


def losses(of_models):
  """Returns the losses of every model's clients by their letters."""
  return [dict(zip(name(one.clients), one.values.tolist())) for one in of_models]
