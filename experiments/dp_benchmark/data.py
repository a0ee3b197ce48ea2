"""The data sets of the benchmark, as points in the ball of radius one.

To add one, write a function of (seed, data_dir) that returns a `BenchmarkDataset` or
raises `uci.Unavailable`, and add a row to `DATASETS`.
"""

import dataclasses
import functools
import hashlib
from typing import Any, Callable, Sequence

import numpy as np

from clustering_basics import randomness
from clustering_basics import validate
from experiments.dp_benchmark import bundled_data
from experiments.dp_benchmark import client_mixtures
from experiments.dp_benchmark import digits_embeddings
from experiments.dp_benchmark import uci

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
  """The best loss per point that is known for k clusters.

  Attributes:
    paper_epsilon: The epsilon at which a paper compares with it.
  """

  k: int
  loss: float
  paper_epsilon: float


@dataclasses.dataclass(frozen=True, eq=False)
class BenchmarkDataset:
  """Points to cluster.

  Attributes:
    points: float64 of shape (num_points, dim).  Private methods clip the rows to
      `RADIUS`; few or none are outside.
    client_sizes: Numbers of points of the clients, whose rows follow each other; empty for
      data without clients.
    unit_points: How many points privacy protects together: 1, or the most that a client has.
    public_num_points: See `clustering_params.Data`.
  """

  name: str
  points: np.ndarray
  source: str
  client_sizes: tuple[int, ...] = ()
  unit_points: int = 1
  optimum: Optimum | None = None
  public_num_points: int | None = None

  def describe(self) -> dict[str, Any]:
    """Returns what identifies the data, as a dict for JSON."""
    return {
        "source": self.source,
        "num_points": len(self.points),
        "dim": self.points.shape[1],
        "num_clients": len(self.client_sizes) or NUM_CLIENTS,
        "unit_points": self.unit_points,
        "is_new": self.name in NEW,
        "optimum": None if self.optimum is None else dataclasses.asdict(self.optimum),
        "sha256": hashlib.sha256(np.ascontiguousarray(self.points).data).hexdigest(),
    }

  def clients(self) -> dict[str, np.ndarray]:
    """Returns the points of every client, by id; data without clients are cut in their order.

    Whose a point is changes nothing there: sums are exact, and privacy is for a point.
    """
    if self.client_sizes:
      parts = np.split(self.points, np.cumsum(self.client_sizes)[:-1])
    else:
      parts = np.array_split(self.points, NUM_CLIENTS)
    return {str(index): part for index, part in enumerate(parts)}


def centered_and_scaled(points: np.ndarray) -> np.ndarray:
  """Returns points, (num_points, dim), with mean zero and a largest norm of `RADIUS`.

  This is not private.
  """
  points = np.asarray(points, np.float64)
  centered = points - points.mean(axis=0)
  largest = np.linalg.norm(centered, axis=1).max()
  # Rounding must not put the farthest point outside.
  return centered * (RADIUS / (largest * (1 + 1e-12) or 1.0))


def _synthetic(seed: int, unused_data_dir: str | None) -> BenchmarkDataset:
  # pylint: disable=g-import-not-at-top
  from dp_clustering.demo import data_generation

  rng = randomness.generator(seed, "private benchmark: synthetic")
  data = data_generation.generate_synthetic_dataset(
      _SYNTHETIC_POINTS, _SYNTHETIC_DIM, _SYNTHETIC_CLUSTERS, _SYNTHETIC_CLUSTER_RATIO, RADIUS,
      rng,
  )
  source = f"{_SYNTHETIC_CLUSTERS} Gaussians, seed {seed}"
  return BenchmarkDataset("synthetic", data.clip_by_radius(), source)


def _scaled(
    name: str, load: Callable[[int, str | None], tuple[np.ndarray, str]], seed: int,
    data_dir: str | None,
) -> BenchmarkDataset:
  """Returns a data set that is centered and scaled.

  Args:
    load: From the seed and the folder of UCI's files to points and one line on them.
  """
  points, source = load(seed, data_dir)
  return BenchmarkDataset(name, centered_and_scaled(points), source)


def _digits_embeddings(seed: int, unused_data_dir: str | None) -> tuple[np.ndarray, str]:
  points, accuracy, digits = digits_embeddings.embeddings(seed)
  source = (
      f"{digits}, as a network trained here with seed {seed} sees them (it tells {accuracy:.1%} "
      "of 1,000 new ones right)"
  )
  return points, source


def _sklearn_digits(unused_seed: int, unused_data_dir: str | None) -> tuple[np.ndarray, str]:
  # Imported late: it takes most of a second, and bad flags should fail at once.
  import sklearn
  from sklearn import datasets

  source = f"digits of 8 x 8 pixels in scikit-learn {sklearn.__version__}"
  return datasets.load_digits().data, source


def _mixture(name: str, seed: int, unused_data_dir: str | None) -> BenchmarkDataset:
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


_Loader = Callable[[int, str | None], BenchmarkDataset]

# What Google's benchmarks have, and scikit-learn's digits.
KNOWN: dict[str, _Loader] = {
    "synthetic": _synthetic,
    "digits_embeddings": functools.partial(_scaled, "digits_embeddings", _digits_embeddings),
    "letter": functools.partial(_scaled, "letter", lambda _, folder: uci.load_letter(folder)),
    "gas_emissions": functools.partial(
        _scaled, "gas_emissions", lambda _, folder: uci.load_gas_emissions(folder)
    ),
    "sklearn_digits": functools.partial(_scaled, "sklearn_digits", _sklearn_digits),
}
# Never used to choose the constants of `dp_clustering.refine`.
NEW: dict[str, _Loader] = {
    name: functools.partial(_scaled, name, lambda *_, load=load: load())
    for name, load in bundled_data.LOADERS.items()
}
DATASETS: dict[str, _Loader] = {
    **KNOWN, **NEW, **{name: functools.partial(_mixture, name) for name in client_mixtures.SIZES},
}

FROM_FILES = ("letter", "gas_emissions")


def load_datasets(
    names: Sequence[str], seed: int, data_dir: str | None
) -> tuple[list[BenchmarkDataset], dict[str, str]]:
  """Returns the data sets that are available, and the reason for each name that is not.

  Args:
    names: Keys of `DATASETS`.
    data_dir: Folder with UCI's files, or None.

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
