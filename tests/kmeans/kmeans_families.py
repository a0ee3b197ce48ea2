"""Families of data that are hard for k-means: some are the same each time, most are drawn anew."""

import functools
from typing import Callable

import numpy as np
from sklearn import preprocessing

from experiments.kmeans import data

# Degrees of longitude and latitude.
_CITIES = ((4.9, 52.37), (139.69, 35.69))
_YEAR = 365 * 86400

_Draw = tuple[np.ndarray, int]  # Points and K.


def _table(rng: np.random.Generator, name: str) -> _Draw:
  del rng  # The table is the same each time.
  points, labels = data.TABLES[name](return_X_y=True)
  return preprocessing.StandardScaler().fit_transform(points), len(np.unique(labels))


def _repeated_rows(rng: np.random.Generator) -> _Draw:
  rows = np.repeat(5 * rng.standard_normal((5, 3)), 60, axis=0)
  return np.concatenate([rows, 5 * rng.standard_normal((3,)) + rng.standard_normal((100, 3))]), 6


def _two_cities(rng: np.random.Generator, spots_per_city: int = 8) -> _Draw:
  spots = np.concatenate([
      np.array(city) + 0.05 * rng.standard_normal((spots_per_city, 2)) for city in _CITIES
  ])
  return np.repeat(spots, 100, axis=0) + 0.002 * rng.standard_normal((len(spots) * 100, 2)), 16


def _bursts(rng: np.random.Generator, num_bursts: int = 10) -> _Draw:
  starts = rng.uniform(0, _YEAR, num_bursts)
  times = np.repeat(starts, 100) + rng.uniform(0, 30, num_bursts * 100)
  return 1.7e9 + times[:, np.newaxis], num_bursts


def _mixture(rng: np.random.Generator) -> _Draw:
  k, dim = int(rng.integers(2, 31)), int(rng.choice([1, 2, 3, 5, 10, 30]))
  shares = rng.dirichlet(np.full(k, rng.choice([0.5, 2.0, 20.0])))
  clusters = rng.choice(k, int(rng.choice([300, 1000, 3000])), p=shares)
  spread = rng.choice([1.0, 2.0, 5.0])
  stds = rng.uniform(0.3, 1.7, k)[clusters, np.newaxis]
  centers = spread * rng.standard_normal((k, dim))
  return centers[clusters] + stds * rng.standard_normal((len(clusters), dim)), k


# By the families' names.
DRAWS: dict[str, Callable[[np.random.Generator], _Draw]] = {
    **{f"table {name}": functools.partial(_table, name=name)
       for name in ("iris", "wine", "breast_cancer", "digits")},
    "rows repeated 60 times": _repeated_rows,
    "two cities": _two_cities,
    "bursts in a year": _bursts,
    "mixtures": _mixture,
}
