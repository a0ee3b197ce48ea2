"""Times the training engine against plain TensorFlow, as ratios in one run.

  bazel run bench:engine_benchmark -- --model=cnn_small

The limit is the same arithmetic without any framework: the examples in memory
as float tensors, one `tf.function` per client or model, called from as many
threads as there are cores, of one intra-op thread each.  Contestants take turns
within a process.  Several processes are launched, because the same code differs
more from launch to launch than from call to call.  The benchmark prints the median
over launches of a launch's median ratio, with the lowest and the highest launch.
Run it on a quiet machine.  The worker's memory is its peak as the kernel counts it,
which other programs do not change.  The worker is one process without children.
"""

from experiment_shell import launch  # First, for Ctrl-C while the others are imported.

import os
import statistics
import tempfile
from typing import Any, Callable, Sequence

from absl import flags
import numpy as np

from bench import harness
from experiment_shell import lazy_module
from fl_clustering.engine import participation
from fl_clustering.tasks import federated_task
from fl_clustering.tasks import models
from fl_clustering.tasks import registry as task_registry

client_files = lazy_module.LazyModule("fl_clustering.engine.client_files")
client_losses = lazy_module.LazyModule("fl_clustering.engine.client_losses")
client_update = lazy_module.LazyModule("fl_clustering.engine.client_update")
cluster_training = lazy_module.LazyModule("fl_clustering.engine.cluster_training")
contestant_process = lazy_module.LazyModule("bench.contest.contestant_process")
evaluation = lazy_module.LazyModule("fl_clustering.engine.evaluation")
federated_training = lazy_module.LazyModule("fl_clustering.engine.federated_training")
plain_rounds = lazy_module.LazyModule("bench.contest.plain_rounds")
runtime = lazy_module.LazyModule("fl_clustering.runtime")
tf = lazy_module.LazyModule("tensorflow")
tff_rounds = lazy_module.LazyModule("bench.contest.tff_rounds")

_MODEL = flags.DEFINE_enum("model", "cnn_small", list(models.MODELS), "The model.")
_REPETITIONS = flags.DEFINE_integer(
    "repetitions", 5, "Turns of every contestant in a process, after a warm-up.",
    lower_bound=1)
_NUM_CLUSTERS = flags.DEFINE_integer(
    "num_clusters", 12, "Overlapping clusters of phase 2.", lower_bound=1)
_STOCK = flags.DEFINE_bool(
    "stock", True, "Whether TFF's own build_weighted_fed_avg takes part.")

_SEED = 1
_NUM_MODELS = 20
_NUM_MODELS_TO_CHOOSE_FROM = 4
_BATCH_SIZE = 20
_LEARNING_RATE = 0.1
# From the contestant to the limit it is compared with.
_LIMITS = {
    "FedAvg round": "limit of a FedAvg round",
    "FedAvg round, build_weighted_fed_avg": "limit of a FedAvg round",
    "phase 2 round": "limit of a phase 2 round",
    # Plain TensorFlow holds the members' models in memory anyway.
    "phase 2 round, members' models too": "limit of a phase 2 round",
    "losses of 4 models": "limit of losses",
    "evaluation of 20 models": "limit of an evaluation",
}
# The contestants that compute in TFF's worker process, without TFF's own FedAvg.
_IN_WORKER = (
    "FedAvg round", "phase 2 round", "phase 2 round, members' models too",
    "losses of 4 models", "evaluation of 20 models",
)


def _clusters(client_ids: Sequence[str], rng: np.random.Generator) -> list[tuple[str, ...]]:
  """Returns overlapping clusters of 5 to 25 clients."""
  return [
      tuple(
          client_ids[i]
          for i in rng.choice(len(client_ids), rng.integers(5, 26), replace=False)
      )
      for _ in range(_NUM_CLUSTERS.value)
  ]


def _examples(examples: Any) -> tuple[np.ndarray, np.ndarray]:
  """Returns images, float32 in [0, 1], and int32 labels of a task's examples."""
  return examples.features.astype(np.float32) / 255, examples.labels.astype(np.int32)


def _contestants(
    task: federated_task.FederatedTask,
    directory: str,
    clusters: list[tuple[str, ...]],
    vectors: np.ndarray,
    num_cores: int,
) -> dict[str, Callable[[], Any]]:
  """Returns the contestants by name; the engine's and their limits alternate."""
  limit = plain_rounds.PlainTensorFlow(task.model, _BATCH_SIZE, _LEARNING_RATE, num_cores)
  limit.take_clients({one.client_id: _examples(one.train) for one in task.clients})
  test = list(map(tf.constant, _examples(task.global_test)))
  files = client_files.write_client_files(task, directory)
  options = client_update.LocalTraining(_BATCH_SIZE, _LEARNING_RATE)
  fedavg = federated_training.FedAvg(task, files, options, None, _SEED)
  training = cluster_training.ClusterTraining(task, files, options, _SEED)
  state = fedavg.initialize()
  ids = task.client_ids
  parameters = client_update.unflatten(task.model, state.vector)
  models_parameters = [client_update.unflatten(task.model, v) for v in vectors]
  requests = [evaluation.Request(i, files.global_test) for i in range(len(vectors))]
  starts = np.stack([state.vector] * len(clusters))
  round_ = participation.Round(1, ids, 1)
  return {
      "limit of a FedAvg round": lambda: limit.average(parameters, [ids]),
      "FedAvg round": lambda: fedavg.next(state, round_),
      "limit of a phase 2 round": lambda: limit.average(parameters, clusters),
      "phase 2 round": lambda: training.train(starts, clusters, round_),
      "phase 2 round, members' models too": lambda: training.train_members(
          starts, clusters, round_
      ),
      "limit of losses": lambda: limit.losses(
          models_parameters[:_NUM_MODELS_TO_CHOOSE_FROM]
      ),
      "losses of 4 models": lambda: client_losses.losses(
          task.model, files.train, vectors[:_NUM_MODELS_TO_CHOOSE_FROM], ids
      ),
      "limit of an evaluation": lambda: limit.confusions(models_parameters, *test),
      "evaluation of 20 models": lambda: evaluation.confusions(task.model, vectors, requests),
  }


def _build_stock(task: federated_task.FederatedTask) -> Callable[[], Any]:
  """Returns a round of TFF's own FedAvg."""
  process, data_set = tff_rounds.build_process(task.model, _BATCH_SIZE, _LEARNING_RATE)
  data_sets = [data_set(*_examples(one.train)) for one in task.clients]
  state = process.initialize()
  return lambda: process.next(state, data_sets)


def _measure(num_cores: int) -> dict[str, Any]:
  """Times every contestant in this process."""
  contestant_process.limit_threads(tf)
  task = task_registry.load_task(
      dataset="digits", data_dir=None, num_clients=100, partition="dirichlet",
      dirichlet_alpha=0.5, num_groups=None, model=_MODEL.value, seed=_SEED)
  rng = np.random.default_rng(_SEED)
  clusters = _clusters(task.client_ids, rng)
  vector = np.concatenate([p.ravel() for p in task.model.initial_parameters(rng)])
  vectors = vector + rng.normal(0, 0.01, (_NUM_MODELS, len(vector))).astype(np.float32)
  with tempfile.TemporaryDirectory() as directory, runtime.LocalRuntime(num_cores) as local:
    contestants = _contestants(task, directory, clusters, vectors, num_cores)
    seconds, megabytes = harness.take_turns(
        contestants, _REPETITIONS.value, pid=local.worker_pid
    )
    if _STOCK.value:
      # Apart from the others: its many threads and its memory would disturb them.
      stock = {"FedAvg round, build_weighted_fed_avg": _build_stock(task)}
      seconds.update(harness.take_turns(stock, _REPETITIONS.value)[0])
  return {
      "seconds": seconds,
      "peak_megabytes": megabytes,
      "memberships": sum(map(len, clusters)),
  }


def _print_results(runs: list[dict[str, Any]], num_cores: int) -> None:
  print(f"{_MODEL.value}, {num_cores} cores, {len(runs)} launches, "
        f"{_NUM_CLUSTERS.value} clusters with {runs[0]['memberships']} memberships")
  print(f"{'':38}  seconds   over the limit (lowest - highest launch)")
  for name in runs[0]["seconds"]:
    seconds = statistics.median(run["seconds"][name] for run in runs)
    line = f"{name:38} {seconds:8.3f}"
    if name in _LIMITS:
      ratios = [run["seconds"][name] / run["seconds"][_LIMITS[name]] for run in runs]
      line += f"   {harness.shown(ratios, 2)}"
    print(line)
  print("highest memory of the worker process (VmHWM) in any of "
        f"{_REPETITIONS.value + 1} turns of any launch")
  for name in _IN_WORKER:
    print(f"{name:38} {max(run['peak_megabytes'][name] for run in runs):8.0f} MB")


def main() -> None:
  num_cores = len(os.sched_getaffinity(0))
  harness.run(lambda: _measure(num_cores), lambda runs: _print_results(runs, num_cores))


if __name__ == "__main__":
  launch.run(main)
