"""The data sets of the benchmark, as points in the ball of radius one.

To add one, write a function of (seed, data_dir) that returns a `BenchmarkDataset` or
raises `uci.Unavailable`, and add a row to `DATASETS`.
"""

import dataclasses
import functools
import hashlib
from typing import Optional

import numpy as np

from clustering_basics import randomness
from clustering_basics import validate
from experiments.private import bundled_data
from experiments.private import client_mixtures
from experiments.private import digits_embeddings
from experiments.private import uci

RADIUS = 1.0
# Into so many clients a data set is split that has none.
NUM_CLIENTS = 10

_SYNTHETIC_POINTS = 100_000
_SYNTHETIC_DIM = 100
_SYNTHETIC_CLUSTERS = 64
# Ratio of the distances between clusters to those inside: it gives a standard deviation
# of 0.0125 per coordinate, and centers within 0.875.
_SYNTHETIC_CLUSTER_RATIO = 8.0


@dataclasses.dataclass(frozen=True)
class Optimum:
  """The best loss that is known.

  Attributes:
    k: The number of clusters that it is for.
    loss: The loss per point.
    paper_epsilon: The epsilon at which a paper compares with it.
  """

  k: int
  loss: float
  paper_epsilon: float


@dataclasses.dataclass(frozen=True, eq=False)
class BenchmarkDataset:
  """Points to cluster.

  Attributes:
    name: Its key in `DATASETS`.
    points: Float64 array of shape (num_points, dim).  Private methods clip the rows to
      `RADIUS`; few or none are outside.
    source: One line on where the data come from.
    client_sizes: Numbers of points of the clients, whose rows follow each other; empty for
      data without clients.
    unit_points: How many points privacy protects together: 1, or the most that a client has.
    optimum: The `Optimum`, if it is known.
  """

  name: str
  points: np.ndarray
  source: str
  client_sizes: tuple[int, ...] = ()
  unit_points: int = 1
  optimum: Optional[Optimum] = None

  def describe(self):
    """Returns what identifies the data, as a dict for JSON."""
    return {
        "source": self.source,
        "num_points": len(self.points),
        "dim": self.points.shape[1],
        "num_clients": len(self.client_sizes) or NUM_CLIENTS,
        "unit_points": self.unit_points,
        "is_new": self.name in NEW,
        "optimum": None if self.optimum is None else dataclasses.asdict(self.optimum),
        "sha256": hashlib.sha256(np.ascontiguousarray(self.points)).hexdigest(),
    }


def centered_and_scaled(points):
  """Returns points with mean zero and a largest norm of `RADIUS`; this is not private.

  Args:
    points: Array of shape (num_points, dim).
  """
  points = np.asarray(points, np.float64)
  centered = points - points.mean(axis=0)
  largest = np.linalg.norm(centered, axis=1).max()
  # Rounding must not put the farthest point outside.
  return centered * (RADIUS / (largest * (1 + 1e-12) or 1.0))


def _synthetic(seed, data_dir):
  del data_dir
  # pylint: disable=g-import-not-at-top
  from dp_clustering.demo import data_generation

  rng = randomness.generator(seed, "private benchmark: synthetic")
  data = data_generation.generate_synthetic_dataset(
      _SYNTHETIC_POINTS, _SYNTHETIC_DIM, _SYNTHETIC_CLUSTERS, _SYNTHETIC_CLUSTER_RATIO, RADIUS,
      rng,
  )
  source = f"{_SYNTHETIC_CLUSTERS} Gaussians, seed {seed}"
  return BenchmarkDataset("synthetic", data.clip_by_radius(), source)


def _digits_embeddings(seed, data_dir):
  del data_dir
  points, accuracy, digits = digits_embeddings.embeddings(seed)
  source = (
      f"{digits}, as a network trained here with seed {seed} sees them (it tells {accuracy:.1%} "
      "of 1,000 new ones right)"
  )
  return BenchmarkDataset("digits_embeddings", centered_and_scaled(points), source)


def _letter(seed, data_dir):
  del seed
  points, source = uci.load_letter(data_dir)
  return BenchmarkDataset("letter", centered_and_scaled(points), source)


def _gas_emissions(seed, data_dir):
  del seed
  points, source = uci.load_gas_emissions(data_dir)
  return BenchmarkDataset("gas_emissions", centered_and_scaled(points), source)


def _sklearn_digits(seed, data_dir):
  del seed, data_dir
  # Imported late: it takes most of a second, and bad flags should fail at once.
  import sklearn
  from sklearn import datasets

  points = datasets.load_digits().data
  source = f"digits of 8 x 8 pixels in scikit-learn {sklearn.__version__}"
  return BenchmarkDataset("sklearn_digits", centered_and_scaled(points), source)


def _bundled(name, seed, data_dir):
  del seed, data_dir
  points, source = bundled_data.LOADERS[name]()
  return BenchmarkDataset(name, centered_and_scaled(points), source)


def _mixture(name, seed, data_dir):
  del data_dir
  size = client_mixtures.SIZES[name]
  rng = randomness.generator(seed, f"private benchmark: {name}")
  points, means = client_mixtures.draw(size, rng)
  points /= client_mixtures.RADIUS
  k = client_mixtures.NUM_CLUSTERS
  loss = client_mixtures.optimal_loss(points, means / client_mixtures.RADIUS)
  return BenchmarkDataset(
      name,
      points,
      f"{k} Gaussians of FedDP-KMeans, seed {seed}",
      client_sizes=(size.points_per_client,) * size.num_clients,
      unit_points=size.points_per_client if size.protects_clients else 1,
      optimum=Optimum(k, loss, size.paper_epsilon),
  )


# What Google's benchmarks have, and scikit-learn's digits.
KNOWN = {
    "synthetic": _synthetic,
    "digits_embeddings": _digits_embeddings,
    "letter": _letter,
    "gas_emissions": _gas_emissions,
    "sklearn_digits": _sklearn_digits,
}
# Never used to choose the constants of `dp_clustering.refine`.
NEW = {name: functools.partial(_bundled, name) for name in bundled_data.LOADERS}
DATASETS = {
    **KNOWN,
    **NEW,
    **{name: functools.partial(_mixture, name) for name in client_mixtures.SIZES},
}

FROM_FILES = ("letter", "gas_emissions")


def load_datasets(names, seed, data_dir):
  """Loads the data sets that are available.

  Args:
    names: Keys of `DATASETS`.
    seed: The benchmark's seed.
    data_dir: Folder with UCI's files, or None.

  Returns:
    A list of `BenchmarkDataset`, and a dict with the reason for each name that is
    missing from it.

  Raises:
    ValueError: If a file can't be used, or no data set is left.
  """
  loaded, unavailable = [], {}
  for name in names:
    try:
      loaded.append(DATASETS[name](seed, data_dir))
    except uci.Unavailable as e:
      unavailable[name] = str(e)
  if not loaded:
    reasons = "; ".join(f"{name}: {reason}" for name, reason in unavailable.items())
    raise validate.error("datasets", f"name one that is available here ({reasons})", list(names))
  return loaded, unavailable
