"""Times the training engine against plain TensorFlow, as ratios in one run.

  bazel run experiments/benchmarks:engine_benchmark -- --model=cnn_small

The limit is the same arithmetic without any framework: the examples in memory
as float tensors, one `tf.function` per client or model, called from as many
threads as there are cores, of one intra-op thread each.  Contestants take turns
within a process, and several processes are launched, because the same code
differs more from launch to launch than from call to call: what is printed is
the median over launches of a launch's median ratio, with the lowest and highest
launch.  Run it on a quiet machine.
"""

import concurrent.futures
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

from absl import flags
import numpy as np
import psutil

from experiments import launch
from fl_clustering.tasks import models
from fl_clustering.tasks import registry as task_registry

_MODEL = flags.DEFINE_enum("model", "cnn_small", list(models.MODELS), "The model.")
_LAUNCHES = flags.DEFINE_integer("launches", 5, "Processes to launch.", lower_bound=1)
_REPETITIONS = flags.DEFINE_integer(
    "repetitions", 5, "Turns of every contestant in a process, after a warm-up.",
    lower_bound=1)
_NUM_CLUSTERS = flags.DEFINE_integer(
    "num_clusters", 12, "Overlapping clusters of phase 2.", lower_bound=1)
_STOCK = flags.DEFINE_bool(
    "stock", True, "Whether TFF's own build_weighted_fed_avg takes part.")
_CHILD = flags.DEFINE_bool("child", False, "Internal: measure in this process.")

_SEED = 1
_NUM_MODELS = 20
_BATCH_SIZE = 20
_LEARNING_RATE = 0.1
# From the contestant to the limit it is compared with.
_LIMITS = {
    "FedAvg round": "limit of a FedAvg round",
    "FedAvg round, build_weighted_fed_avg": "limit of a FedAvg round",
    "phase 2 round": "limit of a phase 2 round",
    "evaluation of 20 models": "limit of an evaluation",
}


def _keras_model(tf, task):
  """Returns a Keras model of the same layers, for the stock road."""
  layers = tf.keras.layers
  shape = task.model.input_shape
  if task.model.name == "cnn":
    hidden = [
        layers.Conv2D(32, 3, activation="relu", input_shape=shape),
        layers.Conv2D(64, 3, activation="relu"),
        layers.MaxPool2D(2),
        layers.Dropout(0.25),
        layers.Flatten(),
        layers.Dense(128, activation="relu"),
        layers.Dropout(0.5),
    ]
  else:
    hidden = [
        layers.Conv2D(16, 3, activation="relu", input_shape=shape),
        layers.MaxPool2D(2),
        layers.Conv2D(32, 3, activation="relu"),
        layers.MaxPool2D(2),
        layers.Flatten(),
        layers.Dense(64, activation="relu"),
    ]
  return tf.keras.Sequential([*hidden, layers.Dense(task.num_classes)])


def _stock_round(tf, tff, task):
  """Returns a function that runs one round of `build_weighted_fed_avg`."""
  def model_fn():
    return tff.learning.models.from_keras_model(
        _keras_model(tf, task),
        loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        input_spec=(
            tf.TensorSpec([None, *task.model.input_shape]), tf.TensorSpec([None], tf.int32)
        ),
    )

  process = tff.learning.algorithms.build_weighted_fed_avg(
      model_fn, tff.learning.optimizers.build_sgdm(_LEARNING_RATE)
  )
  datasets = [
      tf.data.Dataset.from_tensor_slices((
          client.train.images.astype(np.float32) / 255,
          client.train.labels.astype(np.int32),
      )).batch(_BATCH_SIZE)
      for client in task.clients
  ]
  state = process.initialize()
  return lambda: process.next(state, datasets)


class _Limit:
  """The same arithmetic in plain TensorFlow."""

  def __init__(self, tf, task, num_cores):
    model = task.model
    self._pool = concurrent.futures.ThreadPoolExecutor(num_cores)
    self._clients = {
        client.client_id: (
            tf.constant(client.train.images.astype(np.float32) / 255),
            tf.constant(client.train.labels.astype(np.int32)),
        )
        for client in task.clients
    }
    test_images = tf.constant(task.global_test.images.astype(np.float32) / 255)
    test_labels = tf.constant(task.global_test.labels.astype(np.int32))

    @tf.function(
        input_signature=[
            [tf.TensorSpec(shape) for shape in model.parameter_shapes.values()],
            tf.TensorSpec([None, *model.input_shape]),
            tf.TensorSpec([None], tf.int32),
        ]
    )
    def train(parameters, images, labels):
      for i in tf.range(0, tf.shape(labels)[0], _BATCH_SIZE):
        seed = tf.stack([i, 0]) if model.uses_dropout else None
        with tf.GradientTape() as tape:
          tape.watch(parameters)
          logits = model.logits(parameters, images[i : i + _BATCH_SIZE], seed)
          loss = tf.reduce_mean(
              tf.nn.sparse_softmax_cross_entropy_with_logits(
                  labels=labels[i : i + _BATCH_SIZE], logits=logits
              )
          )
        gradients = tape.gradient(loss, parameters)
        parameters = [p - _LEARNING_RATE * g for p, g in zip(parameters, gradients)]
      return parameters

    @tf.function(
        input_signature=[[tf.TensorSpec(s) for s in model.parameter_shapes.values()]]
    )
    def confusion(parameters):
      predicted = tf.argmax(model.logits(parameters, test_images, None), axis=1)
      return tf.math.confusion_matrix(test_labels, predicted, task.num_classes)

    self._train = train
    self._confusion = confusion

  def average(self, parameters, clusters):
    """Trains every member of every cluster; returns each cluster's average."""
    def train(client_id):
      images, labels = self._clients[client_id]
      return [p.numpy() for p in self._train(parameters, images, labels)], len(labels)

    # The largest first, so that no thread is left waiting.
    pairs = [(client_id, k) for k, members in enumerate(clusters) for client_id in members]
    pairs.sort(key=lambda pair: -len(self._clients[pair[0]][1]))
    sums = [[np.zeros(p.shape, np.float32) for p in parameters] for _ in clusters]
    totals = np.zeros(len(clusters))
    trained = self._pool.map(train, [client_id for client_id, _ in pairs])
    for (_, k), (result, num_examples) in zip(pairs, trained):
      for total, p in zip(sums[k], result):
        total += np.float32(num_examples) * p
      totals[k] += num_examples
    return [[p / total for p in parts] for parts, total in zip(sums, totals)]

  def confusions(self, models_parameters):
    return list(self._pool.map(lambda p: self._confusion(p).numpy(), models_parameters))


def _measure(num_cores):
  """Times every contestant in this process; returns a dict for JSON."""
  # pylint: disable=g-import-not-at-top
  import tensorflow as tf

  tf.config.threading.set_intra_op_parallelism_threads(1)
  tf.config.threading.set_inter_op_parallelism_threads(num_cores)
  import tensorflow_federated as tff

  from fl_clustering import client_files
  from fl_clustering import client_update
  from fl_clustering import cluster_training
  from fl_clustering import evaluation
  from fl_clustering import federated_training
  from fl_clustering import runtime
  # pylint: enable=g-import-not-at-top

  task = task_registry.load_task(
      dataset="digits", data_dir=None, num_clients=100, partition="dirichlet",
      dirichlet_alpha=0.5, num_groups=None, model=_MODEL.value, seed=_SEED)
  rng = np.random.default_rng(_SEED)
  ids = task.client_ids
  clusters = [
      tuple(ids[i] for i in rng.choice(len(ids), rng.integers(5, 26), replace=False))
      for _ in range(_NUM_CLUSTERS.value)
  ]
  parameters = task.model.initial_parameters(rng)
  vector = np.concatenate([p.ravel() for p in parameters])
  vectors = vector + rng.normal(0, 0.01, (_NUM_MODELS, len(vector))).astype(np.float32)
  limit = _Limit(tf, task, num_cores)
  constants = [tf.constant(p) for p in parameters]
  model_constants = [client_update.unflatten(task.model, v) for v in vectors]

  with tempfile.TemporaryDirectory() as directory, runtime.LocalRuntime(num_cores) as local:
    files = client_files.write_client_files(task, directory)
    options = client_update.LocalTraining(_BATCH_SIZE, _LEARNING_RATE)
    fedavg = federated_training.FedAvg(task, files, options, None, _SEED)
    training = cluster_training.ClusterTraining(task, files, options, _SEED)
    evaluator = evaluation.Evaluation(task.model)
    state = fedavg.initialize()
    requests = [
        evaluation.Request(i, files.global_test) for i in range(_NUM_MODELS)
    ]
    starts = np.stack([vector] * len(clusters))
    contestants = {
        "limit of a FedAvg round": lambda: limit.average(constants, [ids]),
        "FedAvg round": lambda: fedavg.next(state, ids, 1, 1),
        "limit of a phase 2 round": lambda: limit.average(constants, clusters),
        "phase 2 round": lambda: training.next(starts, clusters, ids, 1, 1),
        "limit of an evaluation": lambda: limit.confusions(model_constants),
        "evaluation of 20 models": lambda: evaluator.confusions(vectors, requests),
    }
    seconds = {name: [] for name in contestants}
    worker = psutil.Process(local.worker_pid)
    memory = {}
    for turn in range(_REPETITIONS.value + 1):
      for name, call in contestants.items():
        start = time.perf_counter()
        call()
        if turn:
          seconds[name].append(time.perf_counter() - start)
        memory[name] = worker.memory_info().rss
    if _STOCK.value:
      # Apart from the others: its many threads and its memory would disturb them.
      stock = _stock_round(tf, tff, task)
      seconds["FedAvg round, build_weighted_fed_avg"] = []
      for turn in range(_REPETITIONS.value + 1):
        start = time.perf_counter()
        stock()
        if turn:
          seconds["FedAvg round, build_weighted_fed_avg"].append(
              time.perf_counter() - start)
  return {
      "seconds": {name: statistics.median(values) for name, values in seconds.items()},
      "worker_megabytes": memory["phase 2 round"] / 1e6,
      "memberships": sum(map(len, clusters)),
  }


def _launch_child():
  environment = {**os.environ, "BUILD_WORKING_DIRECTORY": os.getcwd()}
  result = subprocess.run(
      [sys.executable, *sys.argv, "--child"],
      check=False, stdout=subprocess.PIPE, env=environment)
  if result.returncode:
    raise launch.RunFailed(f"a measuring process ended with code {result.returncode}.")
  return json.loads(result.stdout)


def main():
  num_cores = len(os.sched_getaffinity(0))
  if _CHILD.value:
    print(json.dumps(_measure(num_cores)))
    return
  runs = [_launch_child() for _ in range(_LAUNCHES.value)]
  print(f"{_MODEL.value}, {num_cores} cores, {len(runs)} launches, "
        f"{_NUM_CLUSTERS.value} clusters with {runs[0]['memberships']} memberships")
  print(f"{'':38}  seconds   over the limit (lowest - highest launch)")
  for name in runs[0]["seconds"]:
    seconds = statistics.median(run["seconds"][name] for run in runs)
    line = f"{name:38} {seconds:8.3f}"
    if name in _LIMITS:
      ratios = [run["seconds"][name] / run["seconds"][_LIMITS[name]] for run in runs]
      line += f"   {statistics.median(ratios):.2f} ({min(ratios):.2f} - {max(ratios):.2f})"
    print(line)
  memory = max(run["worker_megabytes"] for run in runs)
  print(f"worker's memory after phase 2 rounds: at most {memory:.0f} MB")


if __name__ == "__main__":
  launch.run(main)
