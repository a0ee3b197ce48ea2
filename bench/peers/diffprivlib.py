"""IBM's diffprivlib: private k-means, for `bench:private_kmeans_league`.

It has no delta, which is stricter.  It needs a bound on the coordinates and gets the exact one of
the data, which is not private.  In version 0.6.6, it exchanges the parts of its budget for counts
and for coordinates, so that in d > 4 dimensions it spends more than its epsilon: 1.4 times as much
in 16, 2.7 times in 100.  The comparison favors it there.
"""

import sys

from diffprivlib import models
import numpy as np


def main(job: str, answer: str) -> None:
  """Writes the centers of k-means at every epsilon, float64 of shape (num_epsilons, k, dim).

  Args:
    job: File of `points` (n, dim), `k`, and `epsilons` with their `seeds`.
  """
  with np.load(job) as arrays:
    points, k = arrays["points"], int(arrays["k"])
    settings = list(zip(arrays["epsilons"].tolist(), arrays["seeds"].tolist()))
  bound = float(np.abs(points).max())
  np.save(answer, [
      models.KMeans(n_clusters=k, epsilon=epsilon, bounds=(-bound, bound), random_state=seed)
      .fit(points).cluster_centers_
      for epsilon, seed in settings
  ])


if __name__ == "__main__":
  main(*sys.argv[1:])
