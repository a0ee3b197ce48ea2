"""Random numbers as a function of (seed, purpose, round, client id).

Nothing here keeps a state.  The draws of a round depend neither on the draws before it
nor on the order in which clients finish.  A resumed run is therefore exact, and no
generator has to be saved.
"""

import hashlib

import numpy as np


def _seed_sequence(
    seed: int, purpose: str, round_num: int, client_id: str
) -> np.random.SeedSequence:
  key = hashlib.sha256(f"{purpose}\0{client_id}".encode()).digest()
  words = np.frombuffer(key[:16], np.uint32)
  return np.random.SeedSequence(seed, spawn_key=(*map(int, words), round_num))


def generator(
    seed: int, purpose: str, round_num: int = 0, client_id: str = ""
) -> np.random.Generator:
  """Returns the `np.random.Generator` for a purpose.

  Args:
    seed: The run's seed, a non-negative integer.
    purpose: What the numbers are for, such as "partition".
    round_num: The round's number, if every round draws its own numbers.
    client_id: The client's id, if every client draws its own numbers.
  """
  return np.random.default_rng(_seed_sequence(seed, purpose, round_num, client_id))


def stateless_seed(seed: int, purpose: str, round_num: int = 0, client_id: str = "") -> np.ndarray:
  """Returns an int32 array of shape (2,) for TensorFlow's stateless operations."""
  state = _seed_sequence(seed, purpose, round_num, client_id).generate_state(2)
  return state.view(np.int32)
