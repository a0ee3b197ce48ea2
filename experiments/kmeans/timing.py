"""How long a round takes that computes next to nothing: what TFF itself costs."""

import statistics
import tempfile
import time

import numpy as np

from fl_clustering.kmeans import rounds as rounds_lib
from fl_clustering.points import point_files

_NUM_CLIENTS = 5
_POINTS_PER_CLIENT = 20
_CANDIDATES_SHAPE = (5, 16, 2)
_REPEATS = 20


def measure_dispatch():
  """Times rounds of Lloyd of five clients with twenty points each; needs TFF's runtime.

  Returns:
    A dict with the number of clients and the median seconds per round.
  """
  rng = np.random.default_rng(0)
  clients = {
      f"client_{index}": rng.standard_normal((_POINTS_PER_CLIENT, 2))
      for index in range(_NUM_CLIENTS)
  }
  candidates = rng.standard_normal(_CANDIDATES_SHAPE).astype(np.float32)
  with tempfile.TemporaryDirectory() as folder:
    files = point_files.write_files(clients, folder)
    rounds = rounds_lib.Rounds(files, len(candidates))
    rounds.lloyd(candidates)  # Builds the computation.
    times = []
    for _ in range(_REPEATS):
      start = time.perf_counter()
      rounds.lloyd(candidates)
      times.append(time.perf_counter() - start)
  return {"num_clients": _NUM_CLIENTS, "seconds_per_round": statistics.median(times)}
