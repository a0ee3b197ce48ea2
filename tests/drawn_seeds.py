"""Tells with which seeds random numbers are drawn."""

import contextlib
from unittest import mock

from clustering_basics import randomness


@contextlib.contextmanager
def recorded():
  """Yields a set that gets the seed of everything that is drawn in this context and process."""
  seeds, make = set(), randomness._seed_sequence  # pylint: disable=protected-access

  def record(seed, *purpose):
    seeds.add(seed)
    return make(seed, *purpose)

  with mock.patch.object(randomness, "_seed_sequence", record):
    yield seeds
