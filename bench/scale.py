"""Times clustered federated learning for a thousand to a million clients on the device at hand.

  python3 -m bench.scale --max_clients=1000000 --output=scale.json

Clients have the digits of scikit-learn, turned by 0, 90, 180 or 270 degrees, in different shares
of the labels.  A row's time is the least of its repeats, which follow one call that compiles.  The
last rows are a whole run: rounds with one model, sketches of all clients, k-means of these,
rounds in the clusters, and the clients' accuracy beside that of one model trained as long.
"""

import dataclasses
import functools
import json
import resource
import time
from typing import Any, Callable

from absl import flags
import jax
import numpy as np
from sklearn import cluster
from sklearn import datasets
from sklearn import metrics

from clustering_basics import validate
from experiment_shell import launch
from experiment_shell import path_flag
from fl_clustering.engine import participation
from fl_clustering.engine import sketch
from fl_clustering.engine.jax import engine as engine_lib
from fl_clustering.tasks import examples
from fl_clustering.tasks import federated_task
from fl_clustering.tasks import model as model_lib
from fl_clustering.tasks import models
from fl_clustering.tasks import pooled_examples

_MAX_CLIENTS = flags.DEFINE_integer("max_clients", 10_000, "The most clients, at least 1,000.")
_MODEL = flags.DEFINE_enum("model", "cnn_small", list(models.MODELS), "The clients' model.")
_SECONDS = flags.DEFINE_float("seconds", 280.0, "What would begin after so many is left out.")
_REPEATS = flags.DEFINE_integer(
    "repeats", 3, "How often a round of fewer than a million clients is timed, at least 1.")
_GROUPS = ("run", "losses", "rounds")
_ONLY = flags.DEFINE_list("only", list(_GROUPS), f"Comma-separated, of: {', '.join(_GROUPS)}.")
path_flag.define("output", None, "JSON file for the rows.")

_NUM_GROUPS, _NUM_CLASSES = 4, 10
_TRAIN_EXAMPLES, _TEST_EXAMPLES = 20, 8
_ALPHA = 0.5
_LEARNING_RATE = 0.1
_FEWEST_CLIENTS, _MANY_CLIENTS = 1_000, 1_000_000
# Of the whole run.
_CLIENTS_PER_ROUND, _ROUNDS, _EVALUATED = 10_000, 10, 100_000
_KMEANS_SAMPLE = 20_000


@dataclasses.dataclass(frozen=True)
class _Row:
  """A row of the table; the memory is the process's peak so far."""

  what: str
  clients: int
  seconds: float
  device_gib: float
  host_gib: float
  compiled_seconds: float | None = None
  value: float | None = None

  def text(self) -> str:
    value = "" if self.value is None else f"{self.value:.4f}"
    compiled = "" if self.compiled_seconds is None else f"{self.compiled_seconds:.1f}"
    return (
        f"{self.what:38} {self.clients:>9,} {self.seconds:>9.3f} "
        f"{self.clients / self.seconds:>11,.0f} {compiled:>8} {value:>7} {self.device_gib:>7.2f} "
        f"{self.host_gib:>7.2f}"
    )


_HEADER = (
    f"{'':38} {'clients':>9} {'seconds':>9} {'clients/s':>11} {'1st call':>8} {'':>7} "
    f"{'device':>7} {'host':>7}"
)


def _pixels() -> tuple[np.ndarray, np.ndarray]:
  """Returns scikit-learn's digits as bytes (n, 28, 28, 1), and their labels."""
  images, labels = datasets.load_digits(return_X_y=True)
  large = np.kron(images.reshape(-1, 8, 8), np.ones((3, 3))) * (255 / 16)
  return np.pad(large, ((0, 0), (2, 2), (2, 2)))[..., None].astype(np.uint8), labels


def _turned_pool(images: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
  """Returns a pool in the order of the labels, once for each group."""
  order = np.argsort(labels, kind="stable")
  turned = [np.rot90(images[order], k, (1, 2)) for k in range(_NUM_GROUPS)]
  return np.concatenate(turned), np.tile(labels[order], _NUM_GROUPS)


def _drawn_rows(
    labels: np.ndarray, groups: np.ndarray, shares: np.ndarray, counts: np.ndarray,
    rng: np.random.Generator,
) -> np.ndarray:
  """Returns rows of a `_turned_pool`, client after client, by the clients' shares of labels."""
  size = len(labels) // _NUM_GROUPS
  of_label = np.bincount(labels[:size], minlength=_NUM_CLASSES)
  client = np.repeat(np.arange(len(groups), dtype=np.int32), counts)
  drawn, upto = rng.random(len(client), np.float32), np.cumsum(shares, axis=1)
  label = np.zeros(len(client), np.int8)
  for c in range(_NUM_CLASSES - 1):
    label += drawn > upto[client, c]
  place = (rng.random(len(client), np.float32) * of_label[label]).astype(np.int32)
  # Rounded up, a number below 1 may be 1.
  place = np.minimum(place, of_label[label] - 1)
  first = np.cumsum(of_label) - of_label
  return (place + first[label] + groups[client] * size).astype(np.int32)


class _Clients:
  """The clients of a table."""

  def __init__(self, model: model_lib.Model, num_clients: int):
    rng = np.random.default_rng(1)
    self.model = model
    self.groups = rng.permutation(np.arange(num_clients) % _NUM_GROUPS)
    shares = rng.dirichlet(np.full(_NUM_CLASSES, _ALPHA), num_clients).astype(np.float32)
    images, labels = _pixels()
    is_test = rng.random(len(labels)) < 0.2
    even = np.full(num_clients, _TRAIN_EXAMPLES)
    uneven = rng.integers(1, 2 * _TRAIN_EXAMPLES, num_clients)
    self._parts = {}
    for name, chosen, counts in (
        ("train", ~is_test, even), ("uneven", ~is_test, uneven),
        ("test", is_test, np.full(num_clients, _TEST_EXAMPLES)),
    ):
      pool = examples.Examples(*_turned_pool(images[chosen], labels[chosen]))
      rows = _drawn_rows(pool.labels, self.groups, shares, counts, rng)
      self._parts[name] = pooled_examples.PooledExamples(pool, rows, counts)

  @functools.cache
  def engine(self, batch_size: int, train: str = "train") -> engine_lib.Engine:
    """Returns an engine whose clients train in such batches, on these examples."""
    ids = tuple(map(str, range(len(self.groups))))
    clients = federated_task.PooledClients(ids, self._parts[train], self._parts["test"])
    task = federated_task.FederatedTask(
        "digits", "scikit-learn", "turned", clients, self._parts["test"].pool, "all turns",
        _NUM_CLASSES, self.model,
    )
    return engine_lib.Engine(task, batch_size, _LEARNING_RATE, 7)


class _Table:
  """Prints rows as they are measured, and keeps them."""

  def __init__(self) -> None:
    self.rows: list[_Row] = []
    self._start = time.perf_counter()
    print(_HEADER, flush=True)

  def add(self, what: str, clients: int, seconds: float, **more: Any) -> None:
    stats = jax.local_devices()[0].memory_stats() or {}
    host = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    row = _Row(what, clients, seconds, stats.get("peak_bytes_in_use", 0) / 2**30, host, **more)
    self.rows.append(row)
    print(row.text(), flush=True)

  def time(self, what: str, clients: int, call: Callable[[], Any], repeats: int) -> None:
    """Adds the least time of some calls."""
    if self.is_late(what):
      return
    times = []
    for _ in range(repeats + 1):
      start = time.perf_counter()
      call()
      times.append(time.perf_counter() - start)
    self.add(what, clients, min(times[1:]), compiled_seconds=times[0])

  def is_late(self, what: str) -> bool:
    is_late = time.perf_counter() - self._start > _SECONDS.value
    if is_late:
      print(f"{what}: left out, as time is up", flush=True)
    return is_late


def _repeats(number: int) -> int:
  return _REPEATS.value if number < _MANY_CLIENTS else 1


def _time_losses(clients: _Clients, table: _Table, numbers: list[int]) -> None:
  engine = clients.engine(_TRAIN_EXAMPLES)
  four = engine.initial_vectors(_NUM_GROUPS, np.random.default_rng(5))
  for number in numbers:
    table.time(
        "losses of four models", number,
        functools.partial(engine.losses, four, np.arange(number)), 1,
    )


def _time_rounds(clients: _Clients, table: _Table, numbers: list[int]) -> None:
  """Times rounds of one and of four models."""
  engine = clients.engine(_TRAIN_EXAMPLES)
  one, four = (
      engine.initial_vectors(k, np.random.default_rng(5)) for k in (1, _NUM_GROUPS)
  )
  for number in numbers:
    chosen = np.arange(number)
    members = [chosen[k::_NUM_GROUPS] for k in range(_NUM_GROUPS)]
    round_ = participation.Round(1, chosen, 1)
    table.time(
        "round in four clusters, one step", number,
        functools.partial(engine.train, four, members, round_), _repeats(number),
    )
  for what, batch_size, train in (
      ("round, one step", _TRAIN_EXAMPLES, "train"), ("round, batches of 5", 5, "train"),
      ("round, batches of 5, 1 to 39 examples", 5, "uneven"),
  ):
    engine = clients.engine(batch_size, train)
    for number in numbers:
      chosen = np.arange(number)
      round_ = participation.Round(1, chosen, 1)
      table.time(
          what, number, functools.partial(engine.train, one, [chosen], round_), _repeats(number)
      )


def _kmeans(points: np.ndarray) -> np.ndarray:
  """Returns the labels of k-means from several starts on a sample, and then on all."""
  rng = np.random.default_rng(0)
  sample = points[rng.choice(len(points), min(len(points), _KMEANS_SAMPLE), replace=False)]
  start = cluster.KMeans(_NUM_GROUPS, n_init=10, random_state=0).fit(sample).cluster_centers_
  return cluster.KMeans(_NUM_GROUPS, init=start, n_init=1, max_iter=10).fit(points).labels_


def _accuracy(
    engine: engine_lib.Engine, vectors: np.ndarray, labels: np.ndarray, evaluated: np.ndarray
) -> float:
  """Returns the share of test examples that the clients' clusters' models get right."""
  members = [evaluated[labels[evaluated] == k] for k in range(len(vectors))]
  found = np.concatenate(engine.confusions(vectors, members)).sum(axis=0)
  return float(np.trace(found) / found.sum())


def _run(clients: _Clients, table: _Table, what: str) -> None:
  """Runs the whole of it once, with a row for each part."""
  if table.is_late(what):
    return
  engine, num_clients = clients.engine(5), len(clients.groups)
  per_round = min(_CLIENTS_PER_ROUND, num_clients)
  rng, begin = np.random.default_rng(11), time.perf_counter()
  last = begin

  def lap(part: str, number: int, **more: Any) -> None:
    nonlocal last
    now = time.perf_counter()
    table.add(f"{what}: {part}", number, now - last, **more)
    last = time.perf_counter()

  def rounds(
      first: int, vectors: np.ndarray, members: list[np.ndarray], most: int
  ) -> tuple[np.ndarray, int]:
    """Returns the trained models, and how many clients took part, one in two rounds as two."""
    num_trained = 0
    for number in range(first, first + _ROUNDS):
      drawn = [rng.choice(of_k, min(most, len(of_k)), replace=False) for of_k in members]
      round_ = participation.Round(number, np.concatenate(drawn), 1)
      vectors, _ = engine.train(vectors, drawn, round_)
      num_trained += len(round_.clients)
    return vectors, num_trained

  everyone, everywhere = [engine.clients], np.zeros(num_clients, int)
  initial = engine.initial_vectors(1, np.random.default_rng(5))
  start, num_trained = rounds(1, initial, everyone, per_round)
  lap(f"{_ROUNDS} rounds", num_trained)
  sketches = engine.sketches(engine.clients, sketch.SIZE)
  lap("sketches", num_clients)
  labels = _kmeans(sketches)
  lap(
      "k-means, adjusted Rand index", num_clients,
      value=metrics.adjusted_rand_score(clients.groups, labels),
  )
  members = [np.flatnonzero(labels == k) for k in range(_NUM_GROUPS)]
  starts = np.repeat(start, _NUM_GROUPS, axis=0)
  vectors, num_trained = rounds(_ROUNDS + 1, starts, members, per_round)
  lap(f"{_ROUNDS} rounds in four clusters", num_trained)
  evaluated = np.sort(rng.choice(num_clients, min(_EVALUATED, num_clients), replace=False))
  found = _accuracy(engine, vectors, labels, evaluated)
  lap("accuracy", len(evaluated), value=found)
  table.add(f"{what}: all of it", num_clients, time.perf_counter() - begin)
  last = time.perf_counter()
  most = min(_NUM_GROUPS * per_round, num_clients)
  control, num_trained = rounds(_ROUNDS + 1, start, everyone, most)
  found = _accuracy(engine, control, everywhere, evaluated)
  lap("one model as long, accuracy", num_trained, value=found)


def main() -> None:
  with launch.input_errors():
    validate.integer(_FEWEST_CLIENTS, max_clients=_MAX_CLIENTS.value)
    validate.integer(1, repeats=_REPEATS.value)
    for group in _ONLY.value:
      validate.one_of(_GROUPS, only=group)
  device = jax.local_devices()[0]
  print(f"{len(jax.local_devices())} x {device.device_kind}, jax {jax.__version__}", flush=True)
  table = _Table()
  most = _MAX_CLIENTS.value
  model = models.build(_MODEL.value, (28, 28, 1), _NUM_CLASSES)
  start = time.perf_counter()
  clients = _Clients(model, most)
  table.add("drawing the clients", most, time.perf_counter() - start)
  numbers = [number for number in (10**3, 10**4, 10**5, 10**6) if number < most] + [most]
  if "run" in _ONLY.value:
    _run(clients, table, "run")
    _run(clients, table, "compiled")
  if "losses" in _ONLY.value:
    _time_losses(clients, table, numbers)
  if "rounds" in _ONLY.value:
    _time_rounds(clients, table, numbers)
  if flags.FLAGS.output:
    found = {
        "device": device.device_kind, "devices": len(jax.local_devices()),
        "jax": jax.__version__, "model": model.name,
        "rows": [dataclasses.asdict(row) for row in table.rows],
    }
    with open(flags.FLAGS.output, "w", encoding="utf-8") as f:
      json.dump(found, f, indent=2)


if __name__ == "__main__":
  launch.run(main)
