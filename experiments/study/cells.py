"""The study: does grouping clients help, which method does it best, and is the gain real?

A cell is a run of phase 1 and all methods, in one setting, for one seed and fold.  Where an option
is tuned, the cells of the tuning seeds come first, with a run for every candidate; the others have
a run for every candidate that a method has taken, with such methods alone.  A cell has checkpoints
until it is measured.
"""

import contextlib
import dataclasses
import os
import shutil
import tempfile
from typing import Any, Iterator, Mapping

from clustering_basics import atomic_file
from clustering_basics import validate
from experiment_shell import cell_processes
from experiment_shell import finished_run
from experiment_shell import launch
from experiment_shell import tidy_experiment
from experiment_shell import tidy_tables
from experiments.study import config as config_lib
from experiments.study import figures
from experiments.study import summary
from experiments.study import tuning
from experiments.three_phase_emnist import data as data_lib
from fl_clustering import runtime
from fl_clustering.engine import device_memory
from fl_clustering.engine import divergence
from fl_clustering.engine import engines
from fl_clustering.engine import participation
from fl_clustering.methods import registry as method_registry
from fl_clustering.tasks import federated_task
from fl_clustering.tasks import held_out
from fl_clustering.tasks import registry as task_registry
from fl_clustering.three_phase import checkpoint
from fl_clustering.three_phase import own_code
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


@dataclasses.dataclass(frozen=True)
class Part:
  """A run of a cell.

  Attributes:
    candidate: Of the option that is tuned, as files call it; None where none is.
    methods: The methods and controls whose numbers are those of this run; None: all.
  """

  candidate: str | None = None
  methods: tuple[str, ...] | None = None

  def has(self, method: str) -> bool:
    """Returns whether a method's numbers are those of this run; phase 1 goes with FedAvg."""
    if method == method_registry.PRETRAIN:
      method = method_registry.FEDAVG
    return self.methods is None or method in self.methods

  @property
  def names(self) -> set[str] | None:
    """What is trained in it; None: all.  FedAvg matched goes on where FedAvg ends."""
    if self.methods is None:
      return None
    is_matched = method_registry.FEDAVG_MATCHED in self.methods
    return {*self.methods, *([method_registry.FEDAVG] if is_matched else [])}


def load_task(
    config: config_lib.StudyConfig, data_dir: str | None, setting: str, seed: int, fold: int
) -> federated_task.FederatedTask:
  """Returns the data of a cell; ValueError if they can't be had, or have no rows to tune by."""
  tested = held_out.Fold(fold - 1, config.num_folds) if config.num_folds else None
  run = config.run_config(setting, seed)
  task = task_registry.load_task(run, data_dir, run, tested)
  data_lib.check_model(run, task.model)
  if config.tuned is None:
    return task
  validation, evaluated = task.clients.validation, participation.evaluated(run, len(task.clients))
  if validation is None or not validation.counts[evaluated].any():
    rule = (
        f"give some client of {held_out.MIN_TRAIN_TO_VALIDATE} training rows or more, on which "
        "models are evaluated, rows for validation"
    )
    raise validate.error("validation_share", rule, config.run.validation_share)
  return task


def cells(config: config_lib.StudyConfig, machine: Machine | None = None) -> list[dict[str, Any]]:
  """Returns what is measured; folds count from 1, and without folds there is number 0."""
  del machine
  return [
      {"setting": setting, "seed": seed, "fold": fold}
      for seeds in (config.seeds_to_tune, config.seeds)
      for setting in config.settings for seed in seeds
      for fold in (range(1, config.num_folds + 1) if config.num_folds else (0,))
  ]


def _num_first(config: config_lib.StudyConfig) -> int:
  return sum(cell["seed"] in config.seeds_to_tune for cell in cells(config))


def _lines(config: config_lib.StudyConfig) -> Iterator[str]:
  """Yields what the program prints of what it will run."""
  num_first = _num_first(config)
  if config.tuned is not None:
    yield (
        f"tuned: {config.tuned.name} of {', '.join(config.tuned.texts())}, by validation rows of "
        f"seeds {', '.join(map(str, config.seeds_to_tune))}: "
        f"{num_first * len(config.tuned.candidates):,} runs before the others"
    )
  yield f"runs: {len(cells(config)) - num_first:,}, one for every setting, seed and fold"


def _load(
    config: config_lib.StudyConfig, stack: contextlib.ExitStack, *, data_dir: str | None,
    num_cores: int,
) -> tidy_experiment.Inputs:
  del stack
  # One of each setting; another seed can still fail, which is then a result.
  firsts = {cell["setting"]: cell for cell in reversed(cells(config))}
  fingerprints, warnings = {}, dict[str, None]()
  for setting in config.settings:
    task = load_task(config, data_dir, **firsts[setting])
    fingerprints[setting] = task.fingerprint()
    where = f"{setting}, seed {firsts[setting]['seed']}"
    warnings |= dict.fromkeys(
        f"{where}: {text}" if text in task.warnings else text
        for text in data_lib.warnings(config.run, task)
    )
  return tidy_experiment.Inputs(
      Machine(data_dir, num_cores),
      identity={
          **own_code.described((*config.run.methods, *config.run.personal), config.run.model),
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
      warnings=tuple(warnings),
      lines=(
          f"data: {task.source}",
          *filter(None, [data_lib.engine_line(config.run.engine)]),
          *_lines(config),
      ),
      processes=cell_processes.Processes(
          # As many threads whatever the number of processes, so the same sums; `NPROC` is XLA's.
          {
              "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "NPROC": "1",
              "LOKY_MAX_CPU_COUNT": f"{num_cores}",
          },
          own_code.modules(),
      ),
  )


def _run(
    config: config_lib.StudyConfig, machine: Machine, checkpoints: str, cell: Mapping[str, Any],
    part: Part, least_steps: int,
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
    try:
      return run_lib.run(
          config.run_config(cell["setting"], cell["seed"], part.candidate), task, folder,
          checkpoint.Checkpoints(checkpoints), observers, _FAILURES, only=part.names,
          least_steps=least_steps,
      ), rounds
    except run_lib.TooLarge as e:
      raise launch.InputError(f"{e}") from e


def _resumed(
    config: config_lib.StudyConfig, machine: Machine, checkpoints: str, *arguments: Any
) -> tuple[result_lib.ThreePhaseResult, rows.Rounds]:
  """Returns what `_run` does, from the checkpoints unless they are damaged."""
  try:
    return _run(config, machine, checkpoints, *arguments)
  except checkpoint.DamagedCheckpoint:  # They can be made again.
    shutil.rmtree(checkpoints)
    return _run(config, machine, checkpoints, *arguments)


def _parts(whole: tidy_experiment.Run, setting: str, seed: int) -> list[Part]:
  """Returns the runs of a cell; FedAvg matched is in the last one, and matches all others."""
  tuned = whole.config.tuned
  if tuned is None:
    return [Part()]
  if seed in whole.config.seeds_to_tune:
    return [Part(candidate) for candidate in tuned.texts()]
  chosen = tidy_tables.read(
      finished_run.FinishedRun(whole.folder), tidy_tables.file_name(tuning.CHOSEN), tuning.COLUMNS
  )
  fedavg, matched = method_registry.FEDAVG, method_registry.FEDAVG_MATCHED
  takers = tuning.takers(chosen, setting)
  if not any(matched in methods for methods in takers.values()):
    # No run for tuning needed it; one that is reported may.
    takers = {
        candidate: (*methods, matched) if fedavg in methods else methods
        for candidate, methods in takers.items()
    }
  return sorted([Part(*one) for one in takers.items()], key=lambda part: part.has(matched))


def _tuning_rows(
    config: config_lib.StudyConfig, part: Part, result: result_lib.ThreePhaseResult,
    rounds: rows.Rounds,
) -> Iterator[rows.Row]:
  """Yields what a run says of its candidate, for all methods and controls."""
  num_more = max((
      row["round"] for row in rounds.rows(result)
      if row["method"] == method_registry.FEDAVG_MATCHED
  ), default=0)
  num_rounds = {
      name: config.run.pretrain_rounds + config.run.cluster_rounds
      + (num_more if name == method_registry.FEDAVG_MATCHED else 0)
      for name in result.methods
  }
  for row in rows.of_methods(result, config.run.target_accuracy):
    if row["method"] in num_rounds and row["metric"] in tuning.METRICS:
      yield {tuning.CANDIDATE: part.candidate, **row}
  for name, number in num_rounds.items():
    yield {
        tuning.CANDIDATE: part.candidate, "method": name, "metric": tuning.NUM_ROUNDS,
        "value": number,
    }


def _results(
    config: config_lib.StudyConfig, part: Part, result: result_lib.ThreePhaseResult
) -> Iterator[rows.Row]:
  for row in rows.of_methods(result, config.run.target_accuracy):
    if part.has(row["method"]):
      yield row


def _rounds(
    part: Part, result: result_lib.ThreePhaseResult, rounds: rows.Rounds
) -> Iterator[rows.Row]:
  for row in rounds.rows(result):
    if row["cluster"] == "" and row["metric"] in _OF_ROUNDS and part.has(row["method"]):
      yield {name: value for name, value in row.items() if name != "cluster"}


def _problem(config: config_lib.StudyConfig, part: Part, why: str) -> str:
  where = "" if config.tuned is None else f"{config.tuned.name}={part.candidate}: "
  return where + " ".join(why.split())


def _measure(
    whole: tidy_experiment.Run, setting: str, seed: int, fold: int
) -> dict[str, list[rows.Row]]:
  """Returns the scores of all methods, those after every round, and why methods failed."""
  config, cell = whole.config, {"setting": setting, "seed": seed, "fold": fold}
  folder = os.path.join(whole.folder, _CHECKPOINTS, f"{setting}-seed{seed}-fold{fold}")
  is_tuning = seed in config.seeds_to_tune
  found: dict[str, list[rows.Row]] = {name: [] for name in EXPERIMENT.tidy}
  most_steps = 0
  for part in _parts(whole, setting, seed):
    checkpoints = os.path.join(folder, part.candidate or "")
    try:
      result, rounds = _resumed(config, whole.data, checkpoints, cell, part, most_steps)
    except divergence.TrainingDiverged as e:
      if part.candidate is None:
        raise
      # In phase 1; with another candidate it may not.
      failures: Mapping[str, str] = dict.fromkeys(part.methods or config.trained, f"{e}")
    else:
      failures = result.failures
      most_steps = max([most_steps, *(one.cost.steps for one in result.methods.values())])
      if is_tuning:
        found[tuning.TUNING] += _tuning_rows(config, part, result, rounds)
      else:
        found[tidy_experiment.RESULTS] += _results(config, part, result)
        found[summary.ROUNDS] += _rounds(part, result, rounds)
    for name, why in failures.items():
      # FedAvg may be there for its matched control alone, which then can't go on from it.
      method = name if part.has(name) else method_registry.FEDAVG_MATCHED
      failed = {"method": method, "metric": tuning.FAILED, "value": 1}
      found[summary.PROBLEMS].append({**failed, "problem": _problem(config, part, why)})
      if is_tuning:
        found[tuning.TUNING].append({**failed, tuning.CANDIDATE: part.candidate})
  if os.path.exists(folder):  # Where no method has a candidate, there is no run.
    shutil.rmtree(folder)
  return found


def _finish(run: tidy_experiment.Run, tidy: Mapping[str, Any]) -> None:
  """Writes which candidates are taken, once the tuning seeds are measured."""
  config = run.config
  if config.tuned is not None:
    chosen = tuning.choose(
        tidy[tuning.TUNING], config.tuned, config.settings, summary.methods(config.to_json()),
        len(config.seeds_to_tune) * (config.num_folds or 1),
    )
    path = os.path.join(run.folder, tidy_tables.file_name(tuning.CHOSEN))
    atomic_file.write_text(path, chosen.to_csv(index=False))


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
        tuning.TUNING: {tuning.CANDIDATE: str, "method": str},
    },
    optional=(tuning.TUNING,),
    files={tidy_tables.file_name(tuning.CHOSEN): "all candidates, and which are taken (tuning)"},
    read={tuning.CHOSEN: tuning.COLUMNS},
    finish=_finish,
    num_first=_num_first,
    folders={_CHECKPOINTS: "where runs that were stopped go on"},
    versions_of=(
        "numpy", "scikit-learn", "scipy", "tensorflow", "tensorflow-federated", "jax"
    ),
    failures=(*_FAILURES, runtime.WorkerLost, launch.InputError),
)
