"""The data sets of the benchmark, as points in the ball of radius one.

To add one, write a function of (seed, data_dir) that returns a `BenchmarkDataset` or
raises `Unavailable`, and add a row to `DATASETS`.

The embeddings of digits are the outputs of the second to last layer of a network that is trained to
tell them apart.

The mixtures are those of Scott, Lampert, Saulpic, "Differentially Private Federated k-Means
Clustering with Server-Side Data" (ICML 2025, https://arxiv.org/abs/2506.05408): points of clients
around ten means uniform in the unit cube, with norms clipped at 11.  There the server has points of
its own to start from; here it has none.
"""

import contextlib
import dataclasses
import functools
import hashlib
import os
import socket
from typing import Any, Callable, Iterator, Mapping
import warnings

import numpy as np

from clustering_basics import core_count
from clustering_basics import randomness
from clustering_basics import single_thread_kmeans
from clustering_basics import validate
from fl_clustering.tasks import digits

RADIUS = 1.0
# Into so many clients a data set is split that has none.
NUM_CLIENTS = 10

_SYNTHETIC_POINTS = 100_000
_SYNTHETIC_DIM = 100
_SYNTHETIC_CLUSTERS = 64
# Ratio of the distances between clusters to those inside: it gives a standard deviation
# of 0.0125 per coordinate, and centers within 0.875.
_SYNTHETIC_CLUSTER_RATIO = 8.0

_MIXTURE_CLUSTERS = 10
_MIXTURE_DIM = 100
_MIXTURE_VARIANCE = 0.5
_MIXTURE_RADIUS = 11.0

# Units of the two hidden layers; the second gives the embeddings.
_UNITS = (128, 40)
_EPOCHS = 20

_PATCH_SIDE = 4
_WINDOW = 36

_LETTER_FILES = ("letter-recognition.data", "letter-recognition.data.gz")
_LETTER_SHAPE = (20_000, 16)
_OPENML_TIMEOUT_SECONDS = 20


class Unavailable(ValueError):
  """A data set can't be had; the message says why."""


@dataclasses.dataclass(frozen=True, eq=False)
class BenchmarkDataset:
  """Points to cluster.

  Attributes:
    points: float64 of shape (num_points, dim).  Private methods clip the rows to
      `RADIUS`; few or none are outside.
    num_clients: How many clients there are, with as many points each, whose rows follow each other.
      Data without clients are cut into `NUM_CLIENTS` in their order, which changes nothing: sums
      are exact, and privacy is for a point.
    unit_points: How many points privacy protects together: 1, or the most that a client has.
    optimum: A number of clusters `k`, and the best `loss` per point that is known for it.
    public_num_points: See `clustering_params.Data`.
  """

  name: str
  points: np.ndarray
  source: str
  num_clients: int = NUM_CLIENTS
  unit_points: int = 1
  optimum: Mapping[str, float] | None = None
  public_num_points: int | None = None

  def describe(self) -> dict[str, Any]:
    """Returns what identifies the data, as a dict for JSON."""
    return {
        "source": self.source,
        "num_points": len(self.points),
        "dim": self.points.shape[1],
        "num_clients": self.num_clients,
        "unit_points": self.unit_points,
        "is_new": self.name in NEW,
        "optimum": self.optimum,
        "sha256": hashlib.sha256(np.ascontiguousarray(self.points).data).hexdigest(),
    }

  def clients(self) -> dict[str, np.ndarray]:
    """Returns the points of every client, by id."""
    parts = np.array_split(self.points, self.num_clients)
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
  from dp_clustering.demo import data_generation

  rng = randomness.generator(seed, "private benchmark: synthetic")
  data = data_generation.generate_synthetic_dataset(
      _SYNTHETIC_POINTS, _SYNTHETIC_DIM, _SYNTHETIC_CLUSTERS, _SYNTHETIC_CLUSTER_RATIO, RADIUS,
      rng,
  )
  source = f"{_SYNTHETIC_CLUSTERS} Gaussians, seed {seed}"
  return BenchmarkDataset("synthetic", data.clip_by_radius(), source)


_Loader = Callable[[int, str | None], BenchmarkDataset]
# From the seed and the folder of UCI's letters to points, and one line on them.
_Load = Callable[[int, str | None], tuple[np.ndarray, str]]


def _scaled(name: str, load: _Load, seed: int, data_dir: str | None) -> BenchmarkDataset:
  points, source = load(seed, data_dir)
  return BenchmarkDataset(name, centered_and_scaled(points), source)


def _all_scaled(**loads: _Load) -> dict[str, _Loader]:
  """Returns loaders of data sets that are centered and scaled."""
  return {name: functools.partial(_scaled, name, load) for name, load in loads.items()}


def _digits_embeddings(seed: int, unused_data_dir: str | None) -> tuple[np.ndarray, str]:
  """Returns the embeddings of 4,000 digits, of which the network learns, and of 1,000 others."""
  # Imported late: it takes most of a second, and bad flags should fail at once.
  from sklearn import exceptions
  from sklearn import neural_network

  data = digits.load()
  learnt, new = (
      part.features.reshape(len(part), -1) / 255 for part in (data.pool, data.global_test)
  )
  network = neural_network.MLPClassifier(_UNITS, max_iter=_EPOCHS, random_state=seed)
  # Or else the order of additions, and so the last digits, would depend on the threads.
  with single_thread_kmeans.one_thread(), warnings.catch_warnings():
    warnings.simplefilter("ignore", exceptions.ConvergenceWarning)
    points = np.concatenate([learnt, new])
    network.fit(learnt, data.pool.labels)
    for weights, biases in zip(network.coefs_[:-1], network.intercepts_[:-1]):
      points = np.maximum(points @ weights + biases, 0)
    accuracy = network.score(new, data.global_test.labels)
  return points, (
      f"{data.source}, as a network trained here with seed {seed} sees them (it tells "
      f"{accuracy:.1%} of 1,000 new ones right)"
  )


def _sklearn_digits(unused_seed: int, unused_data_dir: str | None) -> tuple[np.ndarray, str]:
  # Imported late: it takes most of a second, and bad flags should fail at once.
  import sklearn
  from sklearn import datasets

  source = f"digits of 8 x 8 pixels in scikit-learn {sklearn.__version__}"
  return datasets.load_digits().data, source


def _standardized(points: np.ndarray) -> np.ndarray:
  """Returns points with mean zero and variance one in every column; none may be constant."""
  points = np.asarray(points, np.float64)
  return (points - points.mean(axis=0)) / points.std(axis=0)


def _photo_colors(*_: Any) -> tuple[np.ndarray, str]:
  """Returns the colors of a quarter of the pixels of a photograph; 68,480 x 3."""
  from sklearn import datasets

  pixels = datasets.load_sample_image("china.jpg")[::2, ::2].reshape(-1, 3)
  return pixels, "red, green and blue of every second pixel, both ways, of scikit-learn's china.jpg"


def _photo_patches(*_: Any) -> tuple[np.ndarray, str]:
  """Returns squares of 4 x 4 pixels of another photograph; 16,960 x 48."""
  from sklearn import datasets

  image = datasets.load_sample_image("flower.jpg")
  rows, columns = (length // _PATCH_SIDE for length in image.shape[:2])
  cut = image[: rows * _PATCH_SIDE, : columns * _PATCH_SIDE]
  patches = cut.reshape(rows, _PATCH_SIDE, columns, _PATCH_SIDE, 3).swapaxes(1, 2)
  return (
      patches.reshape(rows * columns, -1),
      "squares of 4 x 4 pixels, in colors, of scikit-learn's flower.jpg",
  )


def _ecg_windows(*_: Any) -> tuple[np.ndarray, str]:
  """Returns tenths of seconds of an electrocardiogram of five minutes; 3,000 x 36."""
  try:
    from scipy import misc

    signal = misc.electrocardiogram()
  except (ImportError, AttributeError) as e:
    raise Unavailable(
        "`datasets` must be available here, got ecg_windows, which SciPy has up to version 1.11."
    ) from e
  return (
      signal.reshape(-1, _WINDOW),
      "tenths of seconds of SciPy's electrocardiogram (MIT-BIH record 208, 360 Hz)",
  )


def _terrain(*_: Any) -> tuple[np.ndarray, str]:
  """Returns places and heights of a piece of land, standardized; 34,744 x 3."""
  from matplotlib import cbook

  sample: Any = cbook.get_sample_data("jacksboro_fault_dem.npz")
  with sample as file:
    heights = file["elevation"][::2, ::2]
  places = np.indices(heights.shape).reshape(2, -1)
  return (
      _standardized(np.column_stack([*places, heights.ravel()])),
      "row, column and height of every second place, both ways, of Matplotlib's "
      "jacksboro_fault_dem.npz, standardized",
  )


def _table(name: str, about: str, *_: Any) -> tuple[np.ndarray, str]:
  """Returns a table of scikit-learn's, standardized."""
  from sklearn import datasets

  points = getattr(datasets, f"load_{name}")().data
  return _standardized(points), f"{about}, from scikit-learn, standardized"


def _read_letter(path: str) -> np.ndarray:
  """Returns the numbers of UCI's file, whose lines begin with a letter; ValueError without them."""
  try:
    if not os.path.isfile(path):
      raise OSError("not a regular file")
    return np.loadtxt(path, delimiter=",", ndmin=2, encoding="utf-8", usecols=range(1, 17))
  except (ValueError, EOFError, OSError) as e:
    rule = f"hold {os.path.basename(path)} in UCI's layout, a letter and 16 numbers a line ({e})"
    raise validate.error("data_dir", rule, path) from e


@contextlib.contextmanager
def _network_timeout(seconds: float) -> Iterator[None]:
  before = socket.getdefaulttimeout()
  socket.setdefaulttimeout(seconds)
  try:
    yield
  finally:
    socket.setdefaulttimeout(before)


def load_letter(data_dir: str | None) -> tuple[np.ndarray, str]:
  """Returns the points of UCI's letters, and one line about them.

  They are those of David Slate, "Letter Recognition", 1991, https://doi.org/10.24432/C5ZP40.

  Args:
    data_dir: Folder with UCI's file, or None.

  Raises:
    Unavailable: If it is missing and OpenML does not have the data.
    ValueError: If it is not in UCI's layout.
  """
  for name in _LETTER_FILES:
    path = os.path.join(data_dir or "", name)
    if data_dir is not None and os.path.exists(path):
      return _read_letter(path), f"UCI letter, {name}"
  # Imported late: it takes most of a second, and most runs need no network.
  from sklearn import datasets

  try:
    with _network_timeout(_OPENML_TIMEOUT_SECONDS), warnings.catch_warnings():
      warnings.simplefilter("ignore")  # It warns before it tries again.
      bunch = datasets.fetch_openml(name="letter", version=1, as_frame=False, n_retries=1)
    points = np.asarray(bunch.data, np.float64)
    if points.shape != _LETTER_SHAPE:
      raise ValueError(f"it has the shape {points.shape} there, not {_LETTER_SHAPE}")
  except (OSError, ValueError) as e:
    place = "without --data_dir" if data_dir is None else f"not in {data_dir}"
    raise Unavailable(
        f"`datasets` must be available here, got letter ({_LETTER_FILES[0]} {place}, and OpenML "
        f"could not provide it: {e})."
    ) from e
  return points, "UCI letter, from OpenML"


def _optimal_loss(points: np.ndarray, means: np.ndarray) -> float:
  """Returns the loss per point of k-means without privacy that starts from the true means."""
  # Imported late: it takes most of a second, and bad flags should fail at once.
  from sklearn import cluster

  core_count.count_quietly()
  found = cluster.KMeans(len(means), init=means, n_init=1).fit(points)
  # The last digits depend on the number of threads.
  return round(found.inertia_ / len(points), 9)


def _mixture(
    name: str, num_clients: int, points_per_client: int, protects_clients: bool, seed: int,
    unused_data_dir: str | None,
) -> BenchmarkDataset:
  """Returns a mixture, one client's points after the other's.

  Args:
    protects_clients: Whether privacy protects a client with all of its points, or one point.
  """
  rng = randomness.generator(seed, f"private benchmark: {name}")
  means = rng.random((_MIXTURE_CLUSTERS, _MIXTURE_DIM))
  num_points = num_clients * points_per_client
  clusters = rng.integers(_MIXTURE_CLUSTERS, size=num_points)
  noise = rng.normal(0, np.sqrt(_MIXTURE_VARIANCE), (num_points, _MIXTURE_DIM))
  points = (means[clusters] + noise) / _MIXTURE_RADIUS
  loss = _optimal_loss(points, means / _MIXTURE_RADIUS)
  return BenchmarkDataset(
      name,
      points,
      f"{_MIXTURE_CLUSTERS} Gaussians of FedDP-KMeans, seed {seed}",
      num_clients=num_clients,
      unit_points=points_per_client if protects_clients else 1,
      optimum={"k": _MIXTURE_CLUSTERS, "loss": loss},
  )


# What installed packages bring along, or is drawn here.
BUNDLED = ("synthetic", "digits_embeddings", "sklearn_digits")
# What Google's benchmarks have, and scikit-learn's digits.
KNOWN: dict[str, _Loader] = {
    "synthetic": _synthetic,
    **_all_scaled(
        digits_embeddings=_digits_embeddings,
        letter=lambda _, folder: load_letter(folder),
        sklearn_digits=_sklearn_digits,
    ),
}
# Never used to choose the constants of `dp_clustering.refine`; installed packages bring them along.
NEW = _all_scaled(
    photo_colors=_photo_colors, photo_patches=_photo_patches, ecg_windows=_ecg_windows,
    terrain=_terrain, breast_cancer=functools.partial(_table, "breast_cancer", "cell nuclei"),
    diabetes=functools.partial(_table, "diabetes", "patients"),
)
_MIXTURES: dict[str, _Loader] = {
    name: functools.partial(_mixture, name, *settings) for name, settings in {
        "mixture_100_clients": (100, 1_000, False),
        "mixture_2000_clients": (2_000, 50, True),
    }.items()
}
DATASETS: dict[str, _Loader] = {**KNOWN, **NEW, **_MIXTURES}
