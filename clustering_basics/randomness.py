"""Random numbers as a function of (seed, purpose, round, client id).

Nothing here keeps a state: the draws of a round do not depend on the draws
before it, nor on the order in which clients finish.  That makes resuming exact
without saving any generator.
"""

import hashlib

import numpy as np


def _seed_sequence(seed, purpose, round_num, client_id):
  key = hashlib.sha256(f"{purpose}\0{client_id}".encode()).digest()
  words = np.frombuffer(key[:16], np.uint32)
  return np.random.SeedSequence(seed, spawn_key=(*map(int, words), round_num))


def generator(seed, purpose, round_num=0, client_id=""):
  """Returns a `np.random.Generator` of its own for the purpose named.

  Args:
    seed: Non-negative integer, the run's seed.
    purpose: What the numbers are for, such as "partition".
    round_num: Round number, where they are drawn every round.
    client_id: The client's id, where every client draws its own.
  """
  return np.random.default_rng(_seed_sequence(seed, purpose, round_num, client_id))


def stateless_seed(seed, purpose, round_num=0, client_id=""):
  """Returns an int32 array of shape (2,) for TensorFlow's stateless operations."""
  state = _seed_sequence(seed, purpose, round_num, client_id).generate_state(2)
  return state.view(np.int32)
