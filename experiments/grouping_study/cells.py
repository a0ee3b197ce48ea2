"""What a study measures: a cell is one method in one setting, for one seed and fold.

The cells of a group share the data and phase 1, and are measured in one run with checkpoints.
Its tables are written when all are measured or have failed; before that, they are not there.
"""

import collections
import csv
import io
import os
import shutil
from typing import TYPE_CHECKING, Any, Callable, Iterable, Mapping, NamedTuple, Sequence

from clustering_basics import atomic_file
from experiment_shell import finished_run
from experiment_shell import output_folder
from experiments.grouping_study import config as config_lib
from experiments.three_phase import data
from fl_clustering.engine import divergence
from fl_clustering.methods import registry as method_registry
from fl_clustering.tasks import partition
from fl_clustering.three_phase import checkpoint
from fl_clustering.three_phase import stages
from fl_clustering.three_phase import summary

if TYPE_CHECKING:
  from fl_clustering.engine import cost
  from fl_clustering.tasks import federated_task
  from fl_clustering.three_phase import config as run_config
  from fl_clustering.three_phase import result as result_lib

RESULTS = "results.csv"
ROUNDS = "rounds.csv"
# The columns that may read as numbers and are text.
TEXT_COLUMNS = ("setting", "method", "problem")

PRETRAIN = "pretrain"
# How the problem of a cell begins that ended its process.
PROCESS_ENDED = "the process ended"
KEYS = ("setting", "seed", "fold", "method")
VALIDATION = "validation_accuracy"
_SCORES = {
    "accuracy": ("clients", "accuracy", "mean"),
    "accuracy_sd": ("clients", "accuracy", "sd"),
    "accuracy_p10": ("clients", "accuracy", "p10"),
    "accuracy_best": ("clients", "accuracy", "max"),
    "share_at_target": ("clients", "share_at_target"),
    "recall": ("clients", "recall", "mean"),
    "pooled_accuracy": ("clients", "pooled_accuracy"),
    "new_clients_accuracy": ("new_clients", "accuracy", "mean"),
    "blended_accuracy": ("clients_blended", "accuracy", "mean"),
    "global_accuracy": ("global_mean", "accuracy"),
    "global_recall": ("global_mean", "recall"),
    "global_weighted_accuracy": ("global_weighted", "accuracy"),
    "global_weighted_recall": ("global_weighted", "recall"),
    "num_clusters": ("num_clusters",),
    "adjusted_rand_index": ("adjusted_rand_index",),
    "purity": ("purity",),
    "client_steps": ("cost", "client_steps"),
    "bytes_down": ("cost", "bytes_down"),
    "bytes_up": ("cost", "bytes_up"),
    VALIDATION: ("validation", "accuracy", "mean"),
}
VALUES = (*_SCORES, "problem")
_ROUND_VALUES = ("round", "accuracy", "client_steps", "bytes")
HEADERS = {RESULTS: (*KEYS, *VALUES), ROUNDS: (*KEYS, *_ROUND_VALUES)}


def methods_of(config: "run_config.ThreePhaseConfig") -> tuple[str, ...]:
  """Returns the methods and controls of every group of a study's runs, in the order of its rows.

  There is one more where a method has more client steps than FedAvg: its matched control.
  """
  return (PRETRAIN, *config.chosen_methods, *method_registry.CONTROLS, *config.personal)


def group_folder(study_folder: str, group: config_lib.Group) -> str:
  return os.path.join(study_folder, "cells", group.name)


def _has_tables(study_folder: str, group: config_lib.Group) -> bool:
  return os.path.exists(os.path.join(group_folder(study_folder, group), RESULTS))


def is_measured(study_folder: str, group: config_lib.Group) -> bool:
  """Returns whether a group's tables are there, and none of its cells ended its process.

  What ended the process may be gone when the study is resumed: another program that took the
  memory, or somebody who killed TFF's worker.

  Raises:
    ValueError: If a table can't be read.
  """
  if not _has_tables(study_folder, group):
    return False
  text = io.StringIO(read_tables(study_folder, group)[RESULTS])
  return not any(ended_process(row["problem"]) for row in csv.DictReader(text, restval=""))


def ended_process(problem: str) -> bool:
  """Returns whether a cell's `problem` is that it ended its process."""
  return problem.startswith(PROCESS_ENDED)


def _key(group: config_lib.Group, method: str) -> tuple[str, int, int | None, str]:
  return group.setting, group.seed, group.fold, method


def failed_row(group: config_lib.Group, method: str, problem: str) -> list:
  """Returns the row of a cell that failed; `problem` says why."""
  return [*_key(group, method), *[None] * len(_SCORES), " ".join(problem.split())]


def failed_rows(
    config: config_lib.StudyConfig, group: config_lib.Group, problem: str
) -> list[list]:
  """Returns the rows of a group all of whose cells failed, for the same reason."""
  return [failed_row(group, method, problem) for method in methods_of(config.run)]


def write_tables(
    study_folder: str, group: config_lib.Group, rows: Iterable[Sequence],
    rounds: Iterable[Sequence] = (),
) -> None:
  """Writes a group's rows of `results.csv` and of `rounds.csv`, as `write_texts` does."""
  tables = {ROUNDS: rounds, RESULTS: rows}
  write_texts(study_folder, group, {
      name: output_folder.csv_text(HEADERS[name], lines) for name, lines in tables.items()
  })


def read_tables(study_folder: str, group: config_lib.Group) -> dict[str, str]:
  """Returns the tables of a group, as text by name.

  Raises:
    ValueError: If a table can't be read.
  """
  texts = {}
  for name, header in HEADERS.items():
    path = os.path.join(group_folder(study_folder, group), name)
    try:
      with open(path, encoding="utf-8") as file:
        texts[name] = file.read()
    except (OSError, UnicodeError) as e:
      raise finished_run.DamagedFile(path, e) from e
    if not texts[name].startswith(output_folder.csv_text(header, [])):
      raise finished_run.DamagedFile(path, "its columns are not those of a study's table")
    if not texts[name].endswith("\n") or "\0" in texts[name]:
      raise finished_run.DamagedFile(path, "a line of it is not complete")
  return texts


def write_texts(study_folder: str, group: config_lib.Group, texts: Mapping[str, str]) -> None:
  """Writes a group's tables, and removes its checkpoints if it is measured with them.

  Args:
    texts: The tables as text by name, as of `read_tables`.
  """
  folder = group_folder(study_folder, group)
  os.makedirs(folder, exist_ok=True)
  # The results are last, since they say that the group is measured.
  for name in (ROUNDS, RESULTS):
    atomic_file.write_text(os.path.join(folder, name), texts[name])
  if is_measured(study_folder, group):
    remove_leftovers(study_folder, group)


def remove_leftovers(study_folder: str, group: config_lib.Group) -> None:
  """Removes what a measured group no longer needs."""
  folder = group_folder(study_folder, group)
  for name in ("checkpoints", "client_data"):
    shutil.rmtree(os.path.join(folder, name), ignore_errors=True)


def write_joined(config: config_lib.StudyConfig, study_folder: str) -> None:
  """Writes the study's tables from those that groups have, in the study's order."""
  for name, header in HEADERS.items():
    text = [output_folder.csv_text(header, [])]
    for group in config.groups:
      if _has_tables(study_folder, group):
        path = os.path.join(group_folder(study_folder, group), name)
        with open(path, encoding="utf-8") as file:
          text += file.readlines()[1:]
    atomic_file.write_text(os.path.join(study_folder, name), "".join(text))


def load_task(
    config: config_lib.StudyConfig, group: config_lib.Group, data_dir: str | None
) -> "federated_task.FederatedTask":
  return data.load(config.run_config(group), data_dir, None, config.fold(group))


class _Round(NamedTuple):
  """A round: its number, the clients' mean accuracy, and what it cost."""

  number: int
  accuracy: float
  client_steps: float
  bytes: float


def _score(found: Any, path: Sequence[str]) -> float | None:
  """Returns a number of a method's summary; None where it has none."""
  for name in path:
    if found is None or name not in found:
      return None
    found = found[name]
  return found


def _round_rows(
    group: config_lib.Group, method: str, curve: Sequence[_Round], total: "cost.Cost | None"
) -> list[list]:
  """Returns the rows of a method's rounds; costs are those of everything until then.

  Args:
    method: The method, or `pretrain`.
    total: The cost after the last round; None for phase 1, which starts from nothing.
  """
  steps = bytes_ = 0.0
  if total is not None:
    steps = total.client_steps - sum(one.client_steps for one in curve)
    bytes_ = total.bytes_down + total.bytes_up - sum(one.bytes for one in curve)
  rows = []
  for one in curve:
    steps += one.client_steps
    bytes_ += one.bytes
    rows.append([*_key(group, method), one.number, one.accuracy, int(steps), int(bytes_)])
  return rows


class _Observer(stages.RunObserver):
  """Tells of every stage that begins, and keeps the methods' `curves`."""

  def __init__(self, tell: Callable[[str], None]):
    self.curves: dict[str, list[_Round]] = collections.defaultdict(list)
    self._tell = tell

  def stage_begins(self, stage: str) -> None:
    self._tell(stage)

  def round_finished(self, stage: str, round_num: int, rows: Sequence[stages.Row]) -> None:
    values = {row.metric: row.value for row in rows if row.cluster == ""}
    self.curves[stage].append(_Round(
        round_num, values["clients_accuracy_mean"], values["client_steps"],
        values["bytes_down"] + values["bytes_up"],
    ))


def _rows(
    config: config_lib.StudyConfig, group: config_lib.Group,
    result: "result_lib.ThreePhaseResult", curves: Mapping[str, Sequence[_Round]],
) -> tuple[list[list], list[list]]:
  target = config.run.target_accuracy
  summaries = {
      PRETRAIN: summary.pretrain_summary(result.pretrain, target),
      **{
          name: summary.method_summary(of_method, target)
          for name, of_method in result.methods.items()
      },
  }
  summaries[PRETRAIN]["global_mean"] = summaries[PRETRAIN]["global"]
  rows, rounds = [], []
  for method in dict.fromkeys([*methods_of(config.run), *summaries, *result.failures]):
    if method in result.failures:
      rows.append(failed_row(group, method, result.failures[method]))
      continue
    scores = (_score(summaries[method], path) for path in _SCORES.values())
    rows.append([*_key(group, method), *scores, None])
    total = None if method == PRETRAIN else result.methods[method].cost
    rounds += _round_rows(group, method, curves[method], total)
  return rows, rounds


def _measure(
    config: config_lib.StudyConfig, group: config_lib.Group, task: "federated_task.FederatedTask",
    study_folder: str, failed: Mapping[str, str], tell: Callable[[str], None],
) -> tuple[list[list], list[list]]:
  from fl_clustering.three_phase import run as run_lib  # pylint: disable=g-import-not-at-top

  folder = group_folder(study_folder, group)
  client_data = os.path.join(folder, "client_data")
  os.makedirs(client_data, exist_ok=True)
  observer = _Observer(tell)
  try:
    result = run_lib.run(
        config.run_config(group), task, client_data,
        checkpoint.Checkpoints(os.path.join(folder, "checkpoints")), [observer],
        tolerated=(divergence.TrainingDiverged, MemoryError), failed=failed,
    )
  except (divergence.TrainingDiverged, MemoryError) as e:
    # Phase 1 failed, from which everything goes on.
    return failed_rows(config, group, f"{e}" or type(e).__name__), []
  return _rows(config, group, result, observer.curves)


def measure_group(
    config: config_lib.StudyConfig, group: config_lib.Group, data_dir: str | None,
    study_folder: str, failed: Mapping[str, str], tell: Callable[[str], None],
) -> None:
  """Measures the cells of a group and writes its tables; TFF's context must be set.

  Args:
    failed: Why methods failed that are not to be tried again, by name.
    tell: A function that is called with the name of every stage as it begins.

  Raises:
    ValueError: If the data are missing or damaged.
  """
  tell("data")
  try:
    task = load_task(config, group, data_dir)
  except partition.TooFewExamples as e:
    # Another seed's draw can do.
    write_tables(study_folder, group, failed_rows(config, group, str(e)))
    return
  try:
    tables = _measure(config, group, task, study_folder, failed, tell)
  except checkpoint.DamagedCheckpoint:
    # They are those of this group alone, and can be made again.
    remove_leftovers(study_folder, group)
    tables = _measure(config, group, task, study_folder, failed, tell)
  write_tables(study_folder, group, *tables)
