"""Times the engines over the same work elsewhere, as ratios in one run.

  bazel run bench:speed
  bazel run bench:speed -- --only=engine --model=cnn_small --launches=3
  bazel run bench:speed -- --only=jax,first_run --model=cnn

Each case has a limit: the same arithmetic in plain TensorFlow; that of the engine in JAX, which has
an environment of its own, is the engine in TFF.  Cases and limits take turns within a process,
after a turn that is not timed.  Several processes are launched, because the same code differs more
from launch to launch than from call to call.  Printed are the medians over launches of a launch's
medians, and of their ratios, with the lowest and the highest launch.  The memory is the peak of
TFF's worker process as the kernel counts it, in any turn of any launch.  A first run is timed once
in a launch.  Run it on a quiet machine.
"""

from __future__ import annotations

from concurrent import futures
import contextlib
import functools
import multiprocessing
import os
import statistics
import sys
import tempfile
import time
from typing import Any, Callable, ContextManager, Iterator, NamedTuple

from absl import flags
import numpy as np
import tensorflow as tf

from bench import engine_calls
from bench import peer_environments
from bench import plain_tensorflow
from clustering_basics import validate
from experiment_shell import launch
from fl_clustering import runtime
from fl_clustering.engine import participation
from fl_clustering.engine import personalization
from fl_clustering.engine.tff import client_update
from fl_clustering.engine.tff import engine as engine_lib

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


_GROUPS: dict[str, Callable[[str], ContextManager[tuple[_Cases, int | None]]]] = {
    "engine": _engine,
    "jax": _jax,
    "first_run": _first_run,
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
