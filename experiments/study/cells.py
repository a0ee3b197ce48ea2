"""The study: does grouping clients help, which method does it best, and is the gain real?

A cell is a run of phase 1 and all methods, in one setting, for one seed and fold.  It has
checkpoints until it is measured.
"""

import contextlib
import dataclasses
import os
import shutil
import tempfile
from typing import Any, Mapping

from experiment_shell import cell_processes
from experiment_shell import launch
from experiment_shell import tidy_experiment
from experiments.study import config as config_lib
from experiments.study import figures
from experiments.study import summary
from experiments.three_phase_emnist import data as data_lib
from fl_clustering import runtime
from fl_clustering.engine import device_memory
from fl_clustering.engine import divergence
from fl_clustering.engine import engines
from fl_clustering.methods import registry as method_registry
from fl_clustering.tasks import federated_task
from fl_clustering.tasks import held_out
from fl_clustering.tasks import registry as task_registry
from fl_clustering.three_phase import checkpoint
from fl_clustering.three_phase import progress_bar
from fl_clustering.three_phase import result as result_lib
from fl_clustering.three_phase import rows
from fl_clustering.three_phase import stages

_CHECKPOINTS = "checkpoints"
# What ends a method, while the others go on; in phase 1, it ends the cell.
_FAILURES = (divergence.TrainingDiverged, MemoryError, device_memory.DeviceFull)
_OF_ROUNDS = ("accuracy", "steps", "bytes")  # The metrics of every round that are kept.


@dataclasses.dataclass(frozen=True)
class Machine:
  """Where the data are, and how many cores a cell is measured with."""

  data_dir: str | None
  num_cores: int


def load_task(
    config: config_lib.StudyConfig, data_dir: str | None, setting: str, seed: int, fold: int
) -> federated_task.FederatedTask:
  tested = held_out.Fold(fold - 1, config.num_folds) if config.num_folds else None
  run = config.run_config(setting, seed)
  return task_registry.load_task(run, data_dir, run, tested)


def cells(config: config_lib.StudyConfig, machine: Machine | None = None) -> list[dict[str, Any]]:
  """Returns what is measured; folds count from 1, and without folds there is number 0."""
  del machine
  return [
      {"setting": setting, "seed": config.run.seed + number, "fold": fold}
      for setting in config.settings for number in range(config.num_seeds)
      for fold in (range(1, config.num_folds + 1) if config.num_folds else (0,))
  ]


def _load(
    config: config_lib.StudyConfig, stack: contextlib.ExitStack, *, data_dir: str | None,
    num_cores: int,
) -> tidy_experiment.Inputs:
  del stack
  # One of each setting; another seed can still fail, which is then a result.
  firsts = {cell["setting"]: cell for cell in reversed(cells(config))}
  fingerprints = {}
  for setting in config.settings:
    task = load_task(config, data_dir, **firsts[setting])
    fingerprints[setting] = task.fingerprint()
  return tidy_experiment.Inputs(
      Machine(data_dir, num_cores),
      identity={
          **data_lib.describe_own_methods(config.run),
          "clients": dict(task.row_digests or {}),
          "examples": fingerprints,
      },
      about={
          "data": task.source,
          "classes": task.num_classes,
          "clients": len(task.clients),
          "new clients": len(task.new_clients),
          "model": task.model.name,
          "parameters": task.num_parameters,
      },
      lines=(
          f"data: {task.source}",
          *filter(None, [data_lib.engine_line(config.run.engine)]),
          f"runs: {len(cells(config)):,}, one for every setting, seed and fold",
      ),
      processes=cell_processes.Processes(
          # As many threads whatever the number of processes, so the same sums.
          {
              "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1",
              "LOKY_MAX_CPU_COUNT": f"{num_cores}",
          },
          method_registry.modules_of_others(),
      ),
  )


def _run(
    config: config_lib.StudyConfig, machine: Machine, checkpoints: str, cell: Mapping[str, Any]
) -> tuple[result_lib.ThreePhaseResult, rows.Rounds]:
  # It takes long to import.
  from fl_clustering.three_phase import run as run_lib  # pylint: disable=g-import-not-at-top

  with launch.input_errors():  # Another seed's draw, or what has become of the files since.
    data_lib.check_engine(config.run.engine)
    task = load_task(config, machine.data_dir, **cell)
  rounds = rows.Rounds()
  observers: list[stages.RunObserver] = [rounds]
  with contextlib.ExitStack() as stack:
    # Elsewhere than what is written of the run, as these are the clients' examples.
    folder = stack.enter_context(tempfile.TemporaryDirectory())
    if config.run.engine == engines.TFF:
      stack.enter_context(runtime.LocalRuntime(machine.num_cores))
    if len(cells(config)) == 1:  # Where there are more, these are counted.
      observers.append(stack.enter_context(progress_bar.ProgressBar()))
    return run_lib.run(
        config.run_config(cell["setting"], cell["seed"]), task, folder,
        checkpoint.Checkpoints(checkpoints), observers, _FAILURES,
    ), rounds


def _measure(
    whole: tidy_experiment.Run, setting: str, seed: int, fold: int
) -> dict[str, list[dict[str, Any]]]:
  """Returns the scores of all methods, those after every round, and why methods failed."""
  config, cell = whole.config, {"setting": setting, "seed": seed, "fold": fold}
  checkpoints = os.path.join(whole.folder, _CHECKPOINTS, f"{setting}-seed{seed}-fold{fold}")
  try:
    result, rounds = _run(config, whole.data, checkpoints, cell)
  except checkpoint.DamagedCheckpoint:  # They can be made again.
    shutil.rmtree(checkpoints)
    result, rounds = _run(config, whole.data, checkpoints, cell)
  shutil.rmtree(checkpoints)
  return {
      tidy_experiment.RESULTS: list(rows.of_methods(result, config.run.target_accuracy)),
      summary.ROUNDS: [
          {name: value for name, value in row.items() if name != "cluster"}
          for row in rounds.rows(result) if row["cluster"] == "" and row["metric"] in _OF_ROUNDS
      ],
      summary.PROBLEMS: [
          {"method": name, "problem": " ".join(problem.split()), "metric": "failed", "value": 1}
          for name, problem in result.failures.items()
      ],
  }


EXPERIMENT = tidy_experiment.Experiment(
    name="study",
    title="Does grouping clients help?",
    keys={"setting": str, "seed": int, "fold": int},
    load=_load,
    cells=cells,
    measure=_measure,
    summarise=summary.summarise,
    headlines=summary.HEADLINES,
    tables=summary.TABLES,
    figures=figures.FIGURES,
    reading=summary.READING,
    tidy={
        tidy_experiment.RESULTS: {"method": str},
        summary.ROUNDS: {"method": str, "round": int},
        summary.PROBLEMS: {"method": str, "problem": str},
    },
    folders={_CHECKPOINTS: "where runs that were stopped go on"},
    versions_of=(
        "numpy", "scikit-learn", "scipy", "tensorflow", "tensorflow-federated", "jax"
    ),
    failures=(*_FAILURES, runtime.WorkerLost, launch.InputError),
)
