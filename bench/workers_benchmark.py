"""Times several workers on this machine against one, as ratios in one run.

  bazel run bench:workers_benchmark -- --model=cnn_small

Every worker has one core.  With as many workers as this machine has cores, the ratio says
what is lost to the division of the work: to messages, to waiting for the slowest, and to what
the program does alone.  The numbers of workers take turns within a process, and several
processes are launched, as in `engine_benchmark`.  Run it on a quiet machine.
"""

from experiment_shell import launch  # First, for Ctrl-C while the others are imported.

import contextlib
import functools
import os
import statistics
import subprocess
import tempfile
from typing import Any, Callable

from absl import flags
import numpy as np
import portpicker

from bench import harness
from experiment_shell import lazy_module
from fl_clustering.distribution import announcement
from fl_clustering.distribution import worker_process
from fl_clustering.engine import participation
from fl_clustering.tasks import federated_task
from fl_clustering.tasks import models
from fl_clustering.tasks import registry as task_registry

client_update = lazy_module.LazyModule("fl_clustering.engine.client_update")
engine_lib = lazy_module.LazyModule("fl_clustering.engine.engine")
evaluation = lazy_module.LazyModule("fl_clustering.engine.evaluation")
pool = lazy_module.LazyModule("fl_clustering.distribution.pool")
tff = lazy_module.LazyModule("tensorflow_federated")

_MODEL = flags.DEFINE_enum("model", "cnn_small", list(models.MODELS), "The model.")
_NUM_CLIENTS = flags.DEFINE_integer("num_clients", 100, "Number of clients.", lower_bound=2)
_REPETITIONS = flags.DEFINE_integer(
    "repetitions", 5, "Turns of every number of workers in a process, after a warm-up.",
    lower_bound=1)
_NUM_WORKERS = flags.DEFINE_integer(
    "num_workers", None, "Workers to compare with one. Default: the number of cores.",
    lower_bound=2)

_SEED = 1
_NUM_MODELS = 20


def _start_on_core(core: int, port: int, folder: str) -> subprocess.Popen:
  """Returns the process of a worker that has one core, whatever it starts on it."""
  cores = os.sched_getaffinity(0)
  os.sched_setaffinity(0, {core})  # A new process starts with the cores of this one.
  try:
    return worker_process.start(port, 1, folder)
  finally:
    os.sched_setaffinity(0, cores)


def _start_workers(number: int, stack: contextlib.ExitStack) -> list[str]:
  """Returns the addresses of new workers of one core, which end with `stack`."""
  addresses, cores = [], sorted(os.sched_getaffinity(0))
  for i in range(number):
    folder = stack.enter_context(tempfile.TemporaryDirectory())
    announcement.write(folder, num_cores=1)
    port = portpicker.pick_unused_port()
    process = _start_on_core(cores[i % len(cores)], port, folder)
    stack.callback(process.wait)
    stack.callback(process.kill)
    addresses.append(f"127.0.0.1:{port}")
  return addresses


def _work(task: federated_task.FederatedTask, directory: str) -> dict[str, Callable[[], Any]]:
  """Returns what clients are asked, functions by name."""
  training = client_update.LocalTraining(batch_size=20, learning_rate=0.1)
  engine = engine_lib.Engine(task, directory, training, _SEED)
  vectors = engine.initial_vectors(_NUM_MODELS, np.random.default_rng(_SEED))
  round_ = participation.Round(1, task.client_ids, 1)
  requests = [evaluation.Request(i, engine.files.global_test) for i in range(_NUM_MODELS)]
  return {
      "FedAvg round": lambda: engine.train(vectors[:1], (task.client_ids,), round_),
      "evaluation of 20 models": lambda: engine.confusions(vectors, requests),
  }


def _with_workers(workers: Any, call: Callable[[], Any]) -> None:
  with tff.framework.get_context_stack().install(workers.context):
    call()


def _measure(num_workers: int) -> dict[str, list[float]]:
  """Times every number of workers in this process; returns their seconds in each work."""
  task = task_registry.load_task(
      dataset="digits", data_dir=None, num_clients=_NUM_CLIENTS.value, partition="dirichlet",
      dirichlet_alpha=0.5, num_groups=None, model=_MODEL.value, seed=_SEED)
  with contextlib.ExitStack() as stack:
    work = _work(task, stack.enter_context(tempfile.TemporaryDirectory()))
    pools = [
        stack.enter_context(pool.Pool(_start_workers(number, stack)))
        for number in (1, num_workers)
    ]
    contestants = {
        f"{name} {i}": functools.partial(_with_workers, workers, call)
        for name, call in work.items() for i, workers in enumerate(pools)
    }
    seconds, _ = harness.take_turns(contestants, _REPETITIONS.value)
  return {name: [seconds[f"{name} {i}"] for i in range(len(pools))] for name in work}


def _print_results(runs: list[dict[str, list[float]]], num_workers: int) -> None:
  print(f"{_MODEL.value}, {_NUM_CLIENTS.value} clients, workers of one core each, "
        f"{len(runs)} launches")
  print(f"{'':26}  1 worker  {num_workers} workers  times as fast (lowest - highest launch)")
  for name in runs[0]:
    one, several = (statistics.median(run[name][i] for run in runs) for i in (0, 1))
    ratios = [run[name][0] / run[name][1] for run in runs]
    print(f"{name:26} {one:7.3f} s {several:8.3f} s   {harness.shown(ratios, 2)}")


def main() -> None:
  num_workers = _NUM_WORKERS.value or max(2, len(os.sched_getaffinity(0)))
  harness.run(lambda: _measure(num_workers), lambda runs: _print_results(runs, num_workers))


if __name__ == "__main__":
  launch.run(main)
