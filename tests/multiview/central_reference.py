"""MVKM-ED in plain NumPy on all points at once, point by point, to compare with."""

import numpy as np


def _views(matrix, widths):
  return np.split(matrix, np.cumsum(widths)[:-1], axis=-1)


def kernels(points, centers, betas, widths):
  """Returns exp(-beta_h ||x_i^h - a_k^h||^2), of shape (H, n, K)."""
  return np.array([
      np.exp(-beta * ((x[:, None, :] - a[None, :, :]) ** 2).sum(axis=2))
      for beta, x, a in zip(betas, _views(points, widths), _views(centers, widths))
  ])


def iterate(points, centers, betas, view_factors, widths):
  """Returns the centers after one iteration, the clusters, and the views' costs."""
  values = kernels(points, centers, betas, widths)
  clusters = np.argmin(np.tensordot(view_factors, 1 - values, axes=1), axis=1)
  moved = []
  for kernel, x, a in zip(values, _views(points, widths), _views(centers, widths)):
    new = a.copy()
    for k in range(len(centers)):
      weights = kernel[clusters == k, k]
      if weights.sum() > 0:
        new[k] = weights @ x[clusters == k] / weights.sum()
    moved.append(new)
  costs = (1 - values[:, np.arange(len(points)), clusters]).sum(axis=1)
  return np.concatenate(moved, axis=1), clusters, costs
