"""The models that phase 3 makes of the cluster models."""

import dataclasses

import numpy as np


@dataclasses.dataclass(frozen=True)
class Mixtures:
  """Models made of K cluster models of P parameters each.

  Attributes:
    mean: (a), their mean, of shape (P,).
    weighted: (b), their mean weighted by the highest accuracy that each cluster
      reached, of shape (P,).
    blended: (c), for every cluster the mean of its own model and of (a), of shape
      (K, P).
  """

  mean: np.ndarray
  weighted: np.ndarray
  blended: np.ndarray


def mix(vectors, best_accuracy):
  """Returns the `Mixtures` of cluster models.

  Args:
    vectors: The cluster models, float32 of shape (K, P).
    best_accuracy: The highest accuracy that each cluster reached, of shape (K,).
      Clusters that all reached 0 count alike.
  """
  mean = vectors.mean(axis=0, dtype=np.float64).astype(np.float32)
  weights = best_accuracy if np.any(best_accuracy) else np.ones_like(best_accuracy)
  weighted = np.average(vectors, axis=0, weights=weights).astype(np.float32)
  return Mixtures(mean, weighted, (vectors + mean) / np.float32(2))
