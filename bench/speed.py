"""Times what is computed here over the same work elsewhere, as ratios in one run.

  bazel run bench:speed
  bazel run bench:speed -- --only=engine --model=cnn_small --launches=3
  bazel run bench:speed -- --only=jax,first_run --model=cnn

Each case has a limit: the same arithmetic in plain TensorFlow or NumPy, or scikit-learn; that of
the engine in JAX, which has an environment of its own, is the engine in TFF.  Cases and
limits take turns within a process, after a turn that is not timed.  Several processes are launched,
because the same code differs more from launch to launch than from call to call.  Printed are the
medians over launches of a launch's medians, and of their ratios, with the lowest and the highest
launch.  The memory is the peak of TFF's worker process as the kernel counts it, in any turn of any
launch.  A first run is timed once in a launch.  Run it on a quiet machine.
"""

from concurrent import futures
import contextlib
import functools
import math
import multiprocessing
import os
import statistics
import sys
import tempfile
import time
from typing import Any, Callable, ContextManager, Iterator, NamedTuple

from absl import flags
import numpy as np
from sklearn import cluster as sklearn_cluster
import tensorflow as tf

from bench import engine_calls
from bench import peer_environments
from bench import plain_tensorflow
from clustering_basics import validate
from experiment_shell import launch
from fl_clustering import kmeans as kmeans_lib
from fl_clustering import runtime
from fl_clustering.engine import participation
from fl_clustering.engine import personalization
from fl_clustering.engine.tff import client_update
from fl_clustering.engine.tff import engine as engine_lib
from fl_clustering.multiview import server_step
from fl_clustering.points import secure_sums
from fl_clustering.engine.tff import point_files

_SEED = 1

# A case and its limit are functions of the number of the turn.
_Call = Callable[[int], Any]
_Cases = dict[str, tuple[_Call, _Call]]


class _Times(NamedTuple):
  """What a process measured of a case.

  Attributes:
    ours: Median seconds.
    limit: Those of the limit.
    megabytes: The worker's peak; None without a worker.
  """

  ours: float
  limit: float
  megabytes: float | None


@contextlib.contextmanager
def _engine_in_tff(task: Any, num_cores: int) -> Iterator[tuple[Any, runtime.LocalRuntime]]:
  with tempfile.TemporaryDirectory() as folder, runtime.LocalRuntime(num_cores) as local:
    engine = engine_lib.Engine(
        task, folder, engine_calls.BATCH_SIZE, engine_calls.LEARNING_RATE, engine_calls.SEED
    )
    yield engine, local


@contextlib.contextmanager
def _engine(model: str) -> Iterator[tuple[_Cases, int]]:
  """FedAvg and the like over 100 clients, against plain TensorFlow with the examples in memory."""
  num_cores = plain_tensorflow.limit_threads()
  task = engine_calls.load_task(model)
  everyone, rng = np.arange(len(task.clients)), np.random.default_rng(_SEED)
  clusters = tuple(
      rng.choice(everyone, rng.integers(5, 26), replace=False)
      for _ in range(12)
  )
  start, vectors = engine_calls.models(task)
  own = np.tile(start, (len(everyone), 1))
  own.flags.writeable = False  # So that every turn trains the same models.
  parameters, *of_models = (
      client_update.unflatten(task.model, vector) for vector in (start, *vectors)
  )

  def tensors(examples: Any) -> tuple[Any, Any]:
    images = examples.features.astype(np.float32) / np.float32(255)
    return tf.constant(images), tf.constant(examples.labels.astype(np.int32))

  plain = plain_tensorflow.PlainTensorFlow(task.model, 20, 0.1, num_cores)
  clients = {i: tensors(client.train) for i, client in enumerate(task.clients)}
  test = tensors(task.global_test)
  with _engine_in_tff(task, num_cores) as (engine, local):
    calls = engine_calls.calls(engine, start, vectors)
    round_, alone = participation.Round(1, everyone, 1), personalization.Personalization()
    starts = np.tile(start, (len(clusters), 1))
    limit_of_phase_2 = lambda _: plain.average(parameters, clients, clusters)
    cases = {
        "FedAvg round": (
            lambda _: calls["FedAvg round"](),
            lambda _: plain.average(parameters, clients, [everyone]),
        ),
        f"phase 2 round, {len(clusters)} clusters, {sum(map(len, clusters))} memberships": (
            lambda _: engine.train(starts, clusters, round_), limit_of_phase_2
        ),
        # Plain TensorFlow holds the members' models in memory anyway.
        "phase 2 round, members' models too": (
            lambda _: engine.train_members(starts, clusters, round_), limit_of_phase_2
        ),
        "personal training": (
            lambda _: engine.train_own(own, everyone, round_, start, alone),
            lambda _: plain.average(parameters, clients, everyone[:, None]),
        ),
        "losses of 4 models": (
            lambda _: calls["losses of 4 models"](),
            lambda _: plain.losses(of_models[:4], clients),
        ),
        "evaluation of 20 models": (
            lambda _: calls["evaluation of 20 models"](),
            lambda _: plain.confusions(of_models, *test),
        ),
    }
    yield cases, local.worker_pid


@contextlib.contextmanager
def _jax(model: str) -> Iterator[tuple[_Cases, None]]:
  """The engine in JAX against that in TFF."""
  num_cores, task = plain_tensorflow.limit_threads(), engine_calls.load_task(model)
  with (
      engine_calls.in_jax(peer_environments.python("jax"), model) as in_jax,
      _engine_in_tff(task, num_cores) as (engine, _),
  ):
    calls = engine_calls.calls(engine, *engine_calls.models(task))
    cases: _Cases = {
        f"{name}, JAX over TFF": (
            functools.partial(lambda name, _: in_jax(name), name),
            functools.partial(lambda call, _: call(), call),
        )
        for name, call in calls.items()
    }
    yield cases, None


def _first_program(python: str, engine: str) -> None:
  """Runs the first command of docs/three_phases.md, without anything compiled before."""
  with tempfile.TemporaryDirectory() as folder:
    peer_environments.call([
        "env", f"XDG_CACHE_HOME={folder}", python, "-m", "experiments.three_phase_emnist",
        f"--engine={engine}", f"--output_dir={os.path.join(folder, 'run')}",
    ])


@contextlib.contextmanager
def _first_run(unused_model: str) -> Iterator[tuple[_Cases, None]]:
  """A first run with JAX against one with TFF."""
  python = peer_environments.python("jax")
  cases: _Cases = {
      "first run, JAX over TFF": (
          lambda _: _first_program(python, "jax"), lambda _: _first_program(sys.executable, "tff")
      )
  }
  yield cases, None


@contextlib.contextmanager
def _federated_kmeans(unused_model: str) -> Iterator[tuple[_Cases, int]]:
  """A fit with all that it needs, against scikit-learn's with ten starts on the pooled points."""
  num_clusters, num_points, num_clients = 16, 100_000, 5
  rng = np.random.default_rng(0)
  centers = rng.standard_normal((num_clusters, 64))
  clusters = rng.integers(num_clusters, size=num_points)
  points = centers[clusters] + rng.standard_normal((num_points, 64))
  shares = np.cumsum(rng.dirichlet(np.full(num_clients, 0.5), num_clusters), axis=1)
  owners = (rng.random(num_points)[:, np.newaxis] > shares[clusters, :-1]).sum(axis=1)
  clients = {str(owner): points[owners == owner] for owner in np.unique(owners)}
  with runtime.LocalRuntime() as local:
    cases: _Cases = {
        "federated k-means, 100,000 x 64, K = 16": (
            lambda turn: kmeans_lib.FederatedKMeans(num_clusters, random_state=turn).fit(clients),
            lambda turn: sklearn_cluster.KMeans(
                num_clusters, n_init=10, random_state=turn
            ).fit(points),
        )
    }
    yield cases, local.worker_pid


@contextlib.contextmanager
def _private_kmeans(unused_model: str) -> Iterator[tuple[_Cases, None]]:
  """Private k-means against scikit-learn's with one start, and Google's tree node by node."""
  # Imported here: other groups need none of it.
  from bench import lsh_tree_reference
  from dp_clustering import clustering
  from dp_clustering import clustering_params
  from dp_clustering import coreset
  from dp_clustering import ledger as ledger_lib
  from dp_clustering import lsh_tree
  from dp_clustering import noise
  from dp_clustering import privacy_calculator
  from dp_clustering import private_sums
  from dp_clustering.demo import data_generation

  k, radius = 64, 1.0
  budget = clustering_params.DifferentialPrivacyParam(1.0, 1e-6)
  data = data_generation.generate_synthetic_dataset(
      num_points=100_000, dim=100, num_clusters=k, cluster_ratio=8.0, radius=radius,
      rng=np.random.default_rng(_SEED),
  )
  tree_param = lsh_tree.default_tree_param(
      k, data.dim, data.num_points,
      privacy_calculator.lsh_noise(
          budget, None, None, lsh_tree.DEFAULT_MAX_DEPTH
      ).sum_noise_multiplier,
  )
  hyperplanes = np.random.default_rng(_SEED).normal(size=(tree_param.max_depth, data.dim))

  def our_coreset(unused_turn: int) -> coreset.Coreset:
    source = noise.NoNoise()
    sums = private_sums.PrivateSums(
        data.datapoints, radius, source, ledger_lib.Ledger(math.inf, 1e-6, source)
    )
    return coreset.private_lsh_coreset(
        sums, k, tree_param, privacy_calculator.LshNoise(0.0, 0.0), np.random.default_rng(_SEED)
    )

  def node_by_node(unused_turn: int) -> tuple[np.ndarray, np.ndarray]:
    return lsh_tree_reference.coreset(
        data.datapoints, radius, hyperplanes, tree_param, data.num_points, lambda count: count,
        lambda sums: sums,
    )

  assert sorted(our_coreset(0).weights) == sorted(node_by_node(0)[1])
  one_start = lambda turn: sklearn_cluster.KMeans(k, n_init=1, random_state=turn).fit(
      data.datapoints
  )
  cases: _Cases = {
      f"private k-means, {name}, 100,000 x 100, K = 64": (
          functools.partial(lambda method, _: method(k, data, budget), method), one_start
      )
      for name, method in clustering.METHODS.items()
  }
  yield {**cases, "LSH tree and coreset, without noise": (our_coreset, node_by_node)}, None


# Those of the UCI data "Multiple Features".
_WIDTHS = (216, 76, 64, 6, 240, 47)


def _iteration(
    points: np.ndarray, centers: np.ndarray, betas: np.ndarray, view_factors: np.ndarray
) -> tuple[list[np.ndarray], list[np.ndarray], list[float]]:
  """Returns the sums of one iteration of multi-view k-means in NumPy."""
  splits = np.cumsum(_WIDTHS)[:-1]
  views = list(zip(np.split(points, splits, axis=1), np.split(centers, splits, axis=1)))
  kernels = [
      np.exp(-beta * np.maximum(
          (x * x).sum(axis=1)[:, None] - 2 * x @ a.T + (a * a).sum(axis=1), 0
      ))
      for beta, (x, a) in zip(betas, views)
  ]
  costs = sum(factor * (1 - kernel) for factor, kernel in zip(view_factors, kernels))
  members = np.eye(len(centers))[costs.argmin(axis=1)]
  weights = [members * kernel for kernel in kernels]
  sums = [w.T @ x for w, (x, _) in zip(weights, views)]
  return sums, [w.sum(axis=0) for w in weights], [(members - w).sum() for w in weights]


@contextlib.contextmanager
def _multi_view(unused_model: str) -> Iterator[tuple[_Cases, int]]:
  """A round over 2,000 points of five clients, against an iteration over all points in NumPy."""
  from dp_clustering import point_grid

  num_clusters, num_clients, rng = 10, 5, np.random.default_rng(0)
  steps = point_grid.POINT_STEPS / 100  # No point is as far as that.
  points = np.rint(rng.standard_normal((2000, sum(_WIDTHS))) * steps)
  model = server_step.MultiViewModel(
      centers=points[:num_clusters], view_weights=np.full(len(_WIDTHS), 1 / len(_WIDTHS)),
      alpha=2.0, rates=1 / np.array(_WIDTHS) / steps**2, widths=_WIDTHS,
  )
  query = model.query()
  shares = {str(i): share for i, share in enumerate(np.array_split(points, num_clients))}
  nothing = {client_id: points[:0] for client_id in shares}
  limit = lambda _: _iteration(points, model.centers, model.rates, model.view_factors)
  with contextlib.ExitStack() as stack:
    local = stack.enter_context(runtime.LocalRuntime())
    all_points, no_points = (
        secure_sums.FederatedPoints(
            point_files.write_files(of, stack.enter_context(tempfile.TemporaryDirectory())),
            num_clusters,
        )
        for of in (shares, nothing)
    )
    cases: _Cases = {
        "multi-view round, 2,000 points, six views": (lambda _: all_points.totals(query), limit),
        "the same without points: TFF's dispatch": (lambda _: no_points.totals(query), limit),
    }
    yield cases, local.worker_pid


_GROUPS: dict[str, Callable[[str], ContextManager[tuple[_Cases, int | None]]]] = {
    "engine": _engine,
    "jax": _jax,
    "first_run": _first_run,
    "federated_kmeans": _federated_kmeans,
    "private_kmeans": _private_kmeans,
    "multi_view": _multi_view,
}

flags.DEFINE_list("only", list(_GROUPS), f"Comma-separated, of: {', '.join(_GROUPS)}.")
flags.DEFINE_enum("model", "cnn", ["cnn", "cnn_small"], "The model of the engine's cases.")
flags.DEFINE_integer("launches", 5, "Processes to launch for each group.", lower_bound=1)
flags.DEFINE_integer("repetitions", 5, "Turns in a process that are timed.", lower_bound=1)


def _forget_peak(pid: int) -> None:
  """Resets a process's peak of memory to what it holds now."""
  with open(f"/proc/{pid}/clear_refs", "w", encoding="ascii") as file:
    file.write("5")


def _peak_megabytes(pid: int) -> float:
  """Returns the most resident memory that a process had since `_forget_peak`."""
  with open(f"/proc/{pid}/status", encoding="ascii", errors="replace") as file:
    (peak,) = (line.split()[1] for line in file if line.startswith("VmHWM:"))
  return int(peak) * 1024 / 1e6


def measure(group: str, model: str, repetitions: int) -> dict[str, _Times]:
  """Times the cases of a group in this process."""
  flags.FLAGS.mark_as_parsed()  # In a new process, for the folder of environments.
  seconds: dict[_Call, list[float]] = {}
  megabytes: dict[_Call, float] = {}
  with _GROUPS[group](model) as (cases, pid):
    # The limit of several cases runs once in a turn.
    calls = dict.fromkeys(call for ours, limit in cases.values() for call in (limit, ours))
    for turn in (1,) if group == "first_run" else range(repetitions + 1):
      for call in calls:
        if pid is not None:
          _forget_peak(pid)
        start = time.perf_counter()
        call(turn)
        if turn:
          seconds.setdefault(call, []).append(time.perf_counter() - start)
        if pid is not None:
          megabytes[call] = max(megabytes.get(call, 0), _peak_megabytes(pid))
  medians = {call: statistics.median(of_call) for call, of_call in seconds.items()}
  return {
      name: _Times(medians[ours], medians[limit], megabytes.get(ours))
      for name, (ours, limit) in cases.items()
  }


def _in_new_process(call: Callable[..., Any], *arguments: Any) -> Any:
  context = multiprocessing.get_context("spawn")
  with futures.ProcessPoolExecutor(1, mp_context=context) as pool:
    return pool.submit(call, *arguments).result()


def _print(name: str, launches: list[_Times]) -> None:
  ours, limit = (statistics.median(times) for times in list(zip(*launches))[:2])
  ratios = [one.ours / one.limit for one in launches]
  spread = f"{statistics.median(ratios):.2f} ({min(ratios):.2f} - {max(ratios):.2f})"
  line = f"{name:52} {ours:8.3f} {limit:8.3f}   {spread:22}"
  if launches[0].megabytes is not None:
    line += f" {max(one.megabytes or 0 for one in launches):6.0f} MB"
  print(line.rstrip(), flush=True)


def main() -> None:
  values = flags.FLAGS
  with launch.input_errors():
    for group in values.only:
      validate.one_of(_GROUPS, only=group)
  print(f"{values.model}, {len(os.sched_getaffinity(0))} cores, {values.launches} launches")
  print(f"{'':52}  ours, s limit, s   ratio (lowest, highest)  worker")
  for group in values.only:
    launches = [
        _in_new_process(measure, group, values.model, values.repetitions)
        for _ in range(values.launches)
    ]
    for name in launches[0]:
      _print(name, [one[name] for one in launches])


if __name__ == "__main__":
  launch.run(main)
