"""Lloyd's algorithm with Gaussian noise on the sums of every round.

`point_privacy.py` says what it guarantees.  Nothing else looks at the data: points are
measured in a radius that is known, and the first centroids are drawn.
"""

import collections
import functools

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff
import tensorflow_privacy as tfp

from clustering_basics import randomness
from fl_clustering.kmeans import fit_result
from fl_clustering.kmeans import lloyd_stage
from fl_clustering.kmeans import point_privacy
from fl_clustering.kmeans import point_sums
from fl_clustering.kmeans import scaling
from fl_clustering.kmeans import server_step

# TFF's aggregator clips every client's message.  Clipping never takes two messages
# farther apart, so that any norm serves; this one leaves all messages as they are.
_CLIENT_NORM = 1e12
# A count within so many standard deviations of zero is taken for zero.
_EMPTY_STDS = 4


@functools.lru_cache(maxsize=None)  # So that fits share what is built with it.
def build_sum_factory(noise_multiplier):
  """Returns the aggregator whose noise has this standard deviation per sensitivity."""
  return tff.aggregators.DifferentiallyPrivateFactory(
      tfp.GaussianSumQuery(_CLIENT_NORM, noise_multiplier * point_privacy.SENSITIVITY)
  )


def projected_sums(points, centroids):
  """Returns the sums and counts of points moved into the unit ball; no inertia."""
  sums = point_sums.lloyd_sums(tf.clip_by_norm(points, 1.0, axes=[1]), centroids)
  return collections.OrderedDict(sums=sums["sums"], counts=sums["counts"])


def next_centroids(centroids, counts, noise_std, rng):
  """Returns the centroids to go on with, from those of a noisy round.

  Centroids without points move beside the largest cluster's, and all into the ball.

  Args:
    centroids: float32 of shape (K, d), after the round.
    counts: Their noisy counts, of shape (K,).
    noise_std: Standard deviation of the noise.
    rng: A `np.random.Generator`; it moves centroids, and makes no noise.
  """
  empty = counts < _EMPTY_STDS * noise_std
  beside = server_step.near(centroids[[np.argmax(counts)]], len(centroids), rng)
  moved = np.where(empty[:, np.newaxis], beside, centroids)
  norms = np.linalg.norm(moved, axis=1, keepdims=True)
  return (moved / np.maximum(norms, 1.0)).astype(np.float32)


def fit(config, rounds):
  """Fits centroids by noisy sums.

  Args:
    config: A `KMeansConfig` with `privacy`.
    rounds: A `TffRounds` with `build_sum_factory` of the config's noise.

  Returns:
    A `Fit`.
  """
  privacy, num_columns = config.privacy, rounds.num_columns
  multiplier = point_privacy.noise_multiplier(privacy, config.num_rounds)
  spent = point_privacy.privacy_spent(privacy, config.num_rounds)
  rounds.tell_scaling(
      scaling.Scaling(np.zeros(num_columns), np.full(num_columns, 1 / privacy.radius))
  )
  rng = randomness.generator(config.seed, "private k-means")
  now = lloyd_stage.first_centroids(config, num_columns, rng)
  now /= np.sqrt(num_columns)  # In the unit of the radius.
  after_rounds = []
  for _ in range(config.num_rounds):
    result = rounds.lloyd(now, projected_sums)
    now = next_centroids(
        result["centroids"][0], result["counts"][0],
        multiplier * point_privacy.SENSITIVITY, rng,
    )[np.newaxis]
    after_rounds.append(now[0])
  candidate = fit_result.Candidate(
      ["lloyd"] * len(after_rounds), after_rounds, [None] * len(after_rounds), False
  )
  history = fit_result.history(candidate, rounds.scaling, 1.0, tells_inertia=False)
  return fit_result.Fit(
      scaling=rounds.scaling,
      centroids=history[-1].centroids,
      inertia=None,
      silhouette=None,
      history=history,
      privacy_spent=spent,
  )
