"""What the engine needs for more and more clients: seconds, and memory of worker and program.

  bazel run bench:scaling_benchmark -- --data_dir=mnist --figure=scaling.png

Every client has the same number of MNIST's images, so that the work per client is the same.
Every step for every number of clients is measured in processes of its own, and compared with
the first number.  Times are medians over them, memory is the most of any.  It is the peak as the
kernel counts it; the program's is without what it held before.  Run it on a quiet machine.
"""

from experiment_shell import launch  # First, for Ctrl-C while the others are imported.

import os
import statistics
import tempfile
from typing import Any, Callable, Sequence

from absl import flags
import numpy as np

from bench import harness
from clustering_basics import atomic_file
from clustering_basics import randomness
from clustering_basics import validate
from experiment_shell import child_process
from experiment_shell import figure_style
from experiment_shell import lazy_module
from experiment_shell import output_folder
from experiment_shell import path_flag
from fl_clustering.engine import participation
from fl_clustering.tasks import federated_task
from fl_clustering.tasks import idx
from fl_clustering.tasks import models
from fl_clustering.tasks import own_clients

client_update = lazy_module.LazyModule("fl_clustering.engine.client_update")
engine_lib = lazy_module.LazyModule("fl_clustering.engine.engine")
evaluation = lazy_module.LazyModule("fl_clustering.engine.evaluation")
runtime = lazy_module.LazyModule("fl_clustering.runtime")

_STEPS = ("FedAvg round", "phase 2 round", "clients' own models", "evaluation")

flags.DEFINE_list(
    "num_clients", ["100", "400", "1000", "3383"],
    "Numbers of clients; all are compared with the first.")
flags.DEFINE_integer(
    "examples", 20, "Examples of a client, a fifth of them for testing.", lower_bound=5)
path_flag.define("data_dir", None, "Folder with MNIST's IDX files.")
flags.DEFINE_enum("model", "cnn_small", list(models.MODELS), "The model.")
flags.DEFINE_integer("repetitions", 3, "Turns of every step, after a warm-up.", lower_bound=1)
path_flag.define_output(
    "figure",
    "File for the figure, as PNG; its numbers come beside it, as CSV. Default: no figure.")

flags.DEFINE_enum("step", None, _STEPS, "Internal: the step to measure in this process.")

_SEED = 1
_NUM_CLUSTERS = 12
_BATCH_SIZE = 20
_LEARNING_RATE = 0.1


def _task(num_clients: int) -> federated_task.FederatedTask:
  """Returns the task, whose clients have different images."""
  images, examples = idx.load(flags.FLAGS.data_dir), flags.FLAGS.examples
  features = np.concatenate([images.pool.features, images.global_test.features])
  labels = np.concatenate([images.pool.labels, images.global_test.labels])
  if num_clients * examples > len(labels):
    raise validate.error(
        "num_clients", f"be at most {len(labels) // examples} with {examples} examples each",
        num_clients,
    )
  order = randomness.generator(_SEED, "images").permutation(len(labels))
  parts = np.split(order[: num_clients * examples], num_clients)
  return own_clients.task_from_arrays(
      {i: (features[part], labels[part]) for i, part in enumerate(parts)},
      flags.FLAGS.model, seed=_SEED, num_classes=10,
  )


def _calls(engine: Any, num_clients: int) -> Sequence[Callable[[], Any]]:
  """Returns a function for each of `_STEPS`, in their order."""
  rng = randomness.generator(_SEED, "models")
  vectors = engine.initial_vectors(_NUM_CLUSTERS, rng)
  clusters = tuple(tuple(engine.client_ids[k::_NUM_CLUSTERS]) for k in range(_NUM_CLUSTERS))
  round_ = participation.Round(1, engine.client_ids, 1)
  tests = [
      evaluation.Request(k, tuple(engine.files.test[c] for c in members))
      for k, members in enumerate(clusters)
  ]
  return (
      lambda: engine.train(vectors[:1], (engine.client_ids,), round_),
      lambda: engine.train(vectors, clusters, round_),
      lambda: engine.train_each(
          np.broadcast_to(vectors[0], (num_clients, vectors.shape[1])), engine.client_ids, round_
      ),
      lambda: engine.confusions(vectors, tests),
  )


def _measure(num_clients: int, step: str) -> dict[str, float]:
  """Measures a step in this process."""
  task = _task(num_clients)
  training = client_update.LocalTraining(_BATCH_SIZE, _LEARNING_RATE)
  with tempfile.TemporaryDirectory() as folder, runtime.LocalRuntime() as local:
    engine = engine_lib.Engine(task, folder, training, _SEED)
    call = dict(zip(_STEPS, _calls(engine, num_clients)))[step]
    child_process.forget_peak(os.getpid())
    before = child_process.peak_megabytes(os.getpid())
    seconds, _ = harness.take_turns({step: call}, flags.FLAGS.repetitions)
    program = child_process.peak_megabytes(os.getpid()) - before
    return {
        "seconds": seconds[step],
        "worker": child_process.peak_megabytes(local.worker_pid),
        "program": program * 1e6 / task.num_parameters / num_clients,
    }


def _in_launches(number: str, step: str) -> dict[str, float]:
  """Returns the medians of times, and the highest memory, of a step of so many clients."""
  runs = harness.measured(f"--num_clients={number}", f"--step={step}")
  return {
      "num_clients": int(number),
      "seconds": statistics.median(run["seconds"] for run in runs),
      "worker": max(run["worker"] for run in runs),
      "program": max(run["program"] for run in runs),
  }


def _print_rows(rows_of_steps: dict[str, list[dict[str, float]]]) -> None:
  print(f"{'':20} {'clients':>8} {'seconds':>8} {'ms per client':>14} {'worker':>8} "
        f"{'program: bytes per':>19}   over the first number:")
  print(f"{'':61} {'parameter and client':>19}   time per client, worker")
  for step, rows in rows_of_steps.items():
    first = rows[0]
    for row in rows:
      per_client, of_first = (1000 * r["seconds"] / r["num_clients"] for r in (row, first))
      print(f"{step:20} {row['num_clients']:8,} {row['seconds']:8.2f} {per_client:14.2f} "
            f"{row['worker']:5.0f} MB {row['program']:20.1f}   {per_client / of_first:.2f}  "
            f"{row['worker'] / first['worker']:.2f}")


def _draw(rows_of_steps: dict[str, list[dict[str, float]]], path: str) -> None:
  """Draws seconds and the worker's memory over the number of clients."""
  with figure_style.style():
    figure = figure_style.new_figure(3.4)
    axes = figure_style.panel_grid(figure, 2)
    for (step, rows), color in zip(rows_of_steps.items(), figure_style.METHOD_COLORS.values()):
      numbers = [row["num_clients"] for row in rows]
      for panel, key in zip(axes, ("seconds", "worker")):
        panel.plot(
            numbers, [row[key] for row in rows], color=color, marker="o", markersize=4, label=step
        )
    axes[0].set(xscale="log", yscale="log", xlabel="clients", ylabel="seconds")
    axes[1].set(xscale="log", xlabel="clients", ylabel="worker's peak memory, MB", ylim=(0, None))
    for panel in axes:
      panel.grid(axis="y")
      panel.set_xticks(numbers, [f"{number:,}" for number in numbers])
      panel.minorticks_off()
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=4)
    figure_style.set_title(
        figure, f"{flags.FLAGS.model}, {flags.FLAGS.examples} images per client",
        "What a step of all clients takes: time, and memory of the worker",
    )
    figure_style.save(figure, path)


def _write_numbers(rows_of_steps: dict[str, list[dict[str, float]]], path: str) -> None:
  columns = ("num_clients", "seconds", "worker", "program")
  rows = [
      [step, *(row[column] for column in columns)]
      for step, rows in rows_of_steps.items() for row in rows
  ]
  header = ("step", "num_clients", "seconds", "worker_mb", "program_bytes_per_parameter_and_client")
  atomic_file.write_text(path, output_folder.csv_text(header, rows))


def main() -> None:
  numbers = flags.FLAGS.num_clients
  with launch.input_errors():
    if not numbers or not all(number.isdecimal() and int(number) > 1 for number in numbers):
      raise validate.error("num_clients", "be numbers above 1", ",".join(numbers))
    if flags.FLAGS.data_dir is None:
      raise validate.error("data_dir", "name the folder with MNIST's IDX files", None)
    if harness.is_launched():
      harness.answer(_measure(int(numbers[0]), flags.FLAGS.step))
      return
    _task(max(map(int, numbers)))
  rows_of_steps = {
      step: [_in_launches(number, step) for number in numbers] for step in _STEPS
  }
  _print_rows(rows_of_steps)
  if flags.FLAGS.figure is not None:
    _draw(rows_of_steps, flags.FLAGS.figure)
    _write_numbers(rows_of_steps, os.path.splitext(flags.FLAGS.figure)[0] + ".csv")


if __name__ == "__main__":
  launch.run(main)
