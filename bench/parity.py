"""Methods here beside their authors' programs, on the same clients and from the same models.

  bazel run bench:parity -- --output_dir=parity
  bazel run bench:parity -- --output_dir=parity --theirs=theirs.csv

The first makes a new folder, trains, and prints the accuracy and the adjusted Rand index of every
method and seed, which it also writes to `ours.csv`.  For each seed it writes what another program
must be given to run the same, `seed_0.npz` and so on:

*   `x`, uint8 images of shape (n, 28, 28), where 255 is ink and models here get [0, 1]; `y`, their
    labels; `client`, the number of the client that has an image; `is_test`, whether it is a test
    image of that client's.
*   `group`, every client's true group: four rotations of the 5,000 digits.
*   `first_model`, from which `fedavg`, `pacfl` and `cfl` start, float32 of shape (159010,), and
    `models`, from which `ifca` and `clove` start, (4, 159010): the weights (784, 200) and biases of
    the hidden layer, then the weights (200, 10) and biases of the output, each in C order.  The
    hidden layer has ReLU, and the loss is the cross-entropy of the softmax.

The second trains nothing and prints both sides.  `--theirs` is a table of the other programs'
results with the columns `method`, `seed`, `accuracy` and `adjusted_rand_index`, of which the last
may be empty.  The accuracy is the mean of the clients' shares of their own test images.
"""

from experiment_shell import launch  # First, for Ctrl-C while the others are imported.

import csv
import os
from typing import Any, Mapping, Sequence

from absl import flags
import numpy as np

from clustering_basics import randomness
from clustering_basics import validate
from experiment_shell import lazy_module
from experiment_shell import path_flag
from fl_clustering.methods import registry as method_registry
from fl_clustering.tasks import federated_task
from fl_clustering.tasks import registry as task_registry
from fl_clustering.three_phase import config as config_lib

metrics = lazy_module.LazyModule("fl_clustering.engine.metrics")
local_run = lazy_module.LazyModule("fl_clustering.local_run")

path_flag.define("output_dir", None, "Folder of the clients and of the results here.")
path_flag.define("theirs", None, "CSV file with the results of other programs, to compare with.")
_SEEDS = flags.DEFINE_integer("seeds", 3, "Seeds, from 0.", lower_bound=1)
_METHODS = flags.DEFINE_list("methods", ["clove", "ifca", "pacfl", "cfl"], "Methods to train.")
_NUM_CLIENTS = flags.DEFINE_integer("num_clients", 20, "Number of clients.", lower_bound=4)
_ROUNDS = flags.DEFINE_integer("rounds", 20, "Rounds of every method.", lower_bound=2)
_EPOCHS = flags.DEFINE_integer("client_epochs_per_round", 2, "Local epochs.", lower_bound=1)
_BATCH_SIZE = flags.DEFINE_integer("batch_size", 20, "Size of a local batch.", lower_bound=1)
_LEARNING_RATE = flags.DEFINE_float("learning_rate", 0.1, "Rate of the local SGD.")

_OF_TRAINING = (
    _SEEDS, _METHODS, _NUM_CLIENTS, _ROUNDS, _EPOCHS, _BATCH_SIZE, _LEARNING_RATE
)

_NUM_GROUPS = 4
_OURS = "ours.csv"
_COLUMNS = ("method", "seed", "accuracy", "adjusted_rand_index")

# From a method and a seed to the accuracy and the adjusted Rand index; the latter may be NaN.
Results = Mapping[tuple[str, int], tuple[float, float]]


def partition(task: federated_task.FederatedTask, seed: int) -> dict[str, np.ndarray]:
  """Returns what another program must be given, by name; see above."""
  parts: list[tuple[int, bool, Any]] = [
      (number, is_test, examples)
      for number, client in enumerate(task.clients)
      for is_test, examples in ((False, client.train), (True, client.test))
  ]
  of_methods = randomness.generator(seed, "grouping")
  return {
      "x": np.concatenate([examples.features[..., 0] for _, _, examples in parts]),
      "y": np.concatenate([examples.labels for _, _, examples in parts]).astype(np.int64),
      "client": np.repeat([number for number, _, _ in parts], [len(e) for _, _, e in parts]),
      "is_test": np.repeat([is_test for _, is_test, _ in parts], [len(e) for _, _, e in parts]),
      "group": np.array([client.group for client in task.clients]),
      "first_model": _vector(task, randomness.generator(seed, "initial_parameters")),
      "models": np.stack([_vector(task, of_methods) for _ in range(_NUM_GROUPS)]),
  }


def _vector(task: federated_task.FederatedTask, rng: np.random.Generator) -> np.ndarray:
  return np.concatenate([p.ravel() for p in task.model.initial_parameters(rng)])


def train(
    task: federated_task.FederatedTask, seed: int
) -> dict[tuple[str, int], tuple[float, float]]:
  """Returns what the methods, and FedAvg of as many rounds, come to here."""
  chosen = tuple(_METHODS.value)
  options: dict[str, Any] = {}
  if set(chosen) & set(config_lib.OPTIONS["methods"]["num_clusters"]):
    options["num_clusters"] = _NUM_GROUPS
  if "ifca" in chosen:
    options["ifca_start"] = "random"
  config = config_lib.ThreePhaseConfig.for_task(
      task, methods=chosen, seed=seed, pretrain_rounds=1, cluster_rounds=_ROUNDS.value - 1,
      client_epochs_per_round=_EPOCHS.value, batch_size=_BATCH_SIZE.value,
      learning_rate=_LEARNING_RATE.value, control_repeats=0, method_repeats=0, **options,
  )
  found = local_run.run(config, task).methods
  return {
      (name, seed): (
          float(metrics.accuracy(found[name].clients).mean()),
          np.nan if found[name].adjusted_rand_index is None else found[name].adjusted_rand_index,
      )
      for name in (*chosen, method_registry.FEDAVG)
  }


def read(path: str, argument: str = "theirs") -> dict[tuple[str, int], tuple[float, float]]:
  """Returns the results in a CSV file.

  Raises:
    ValueError: If it has other columns, or a cell that is no number.
  """
  with open(path, encoding="utf-8", newline="") as file:
    reader = csv.DictReader(file)
    missing = [name for name in _COLUMNS if name not in (reader.fieldnames or ())]
    if missing:
      raise validate.error(argument, f"have the columns {', '.join(_COLUMNS)}", path)
    try:
      return {
          (row["method"], int(row["seed"])): (
              float(row["accuracy"]), float(row["adjusted_rand_index"] or "nan")
          )
          for row in reader
      }
    except ValueError as e:
      raise validate.error(argument, f"have numbers in line {reader.line_num}", path) from e


def _write(path: str, results: Results) -> None:
  with open(path, "w", encoding="utf-8", newline="") as file:
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(_COLUMNS)
    for (method, seed), (accuracy, index) in results.items():
      writer.writerow([method, seed, accuracy, "" if np.isnan(index) else index])


def compared(ours: Results, theirs: Results) -> list[str]:
  """Returns the means of both sides over the seeds that both have, a line per method."""
  if not theirs:
    raise validate.error("theirs", "have at least one row", 0)
  lines = [f"{'method':14}{'seeds':>6}{'accuracy: theirs':>18}{'ours':>7}{'points':>8}"
           f"{'ARI: theirs':>13}{'ours':>7}{'difference':>12}"]
  for method in dict.fromkeys(name for name, _ in theirs):
    cells = [cell for cell in theirs if cell[0] == method and cell in ours]
    if not cells:
      raise validate.error("theirs", "name methods and seeds that `output_dir` has", method)
    sides = np.array([[side[cell] for cell in cells] for side in (theirs, ours)])
    (accuracy, index), (our_accuracy, our_index) = sides.mean(axis=1)
    of_index = (f"{index:13.2f}{our_index:7.2f}{our_index - index:+12.2f}"
                if np.isfinite([index, our_index]).all() else f"{'-':>13}{'-':>7}{'-':>12}")
    lines.append(
        f"{method:14}{len(cells):6}{accuracy:18.3f}{our_accuracy:7.3f}"
        f"{100 * (our_accuracy - accuracy):+8.1f}{of_index}"
    )
  return lines


def _table(results: Results) -> Sequence[str]:
  return [
      f"{method:14}seed {seed}  accuracy {accuracy:.3f}"
      + ("" if np.isnan(index) else f"  ARI {index:.2f}")
      for (method, seed), (accuracy, index) in results.items()
  ]


def _measure(folder: str) -> None:
  with launch.input_errors():
    for name in _METHODS.value:
      validate.one_of(method_registry.METHODS, methods=name)
    validate.positive(learning_rate=_LEARNING_RATE.value)
    if os.path.exists(folder):
      raise validate.error("output_dir", "be a new folder", folder)
    os.makedirs(folder)
  results: dict[tuple[str, int], tuple[float, float]] = {}
  for seed in range(_SEEDS.value):
    with launch.input_errors():
      task = task_registry.load_task(
          dataset="digits", data_dir=None, num_clients=_NUM_CLIENTS.value, partition="rotated",
          num_groups=_NUM_GROUPS, model="mlp", seed=seed,
      )
    np.savez_compressed(os.path.join(folder, f"seed_{seed}.npz"), **partition(task, seed))
    found = train(task, seed)
    print("\n".join(_table(found)), flush=True)
    results.update(found)
    _write(os.path.join(folder, _OURS), results)


def main() -> None:
  folder, theirs = flags.FLAGS.output_dir, flags.FLAGS.theirs
  with launch.input_errors():
    if not folder:
      raise validate.error("output_dir", "name a folder", folder)
  if theirs is None:
    _measure(folder)
    return
  with launch.input_errors():
    for flag in _OF_TRAINING:
      if flag.present:
        raise validate.error(flag.name, "be left out with `theirs`, which trains nothing", flag.value)
    print("\n".join(compared(read(os.path.join(folder, _OURS), "output_dir"), read(theirs))))


if __name__ == "__main__":
  launch.run(main)
