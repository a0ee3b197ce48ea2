"""Measures a run: its three phases, with a progress bar."""

import contextlib
import os
import shutil
from typing import TYPE_CHECKING, Any, Callable, Mapping, Sequence

import tqdm

from experiments.three_phase import data
from experiments.three_phase import group_recovery
from experiments.three_phase import profiles
from experiments.three_phase import results as results_lib
from experiments.three_phase import run_files
from fl_clustering import model_folder
from fl_clustering.three_phase import checkpoint
from fl_clustering.three_phase import run as run_lib
from fl_clustering.three_phase import saved_clusters
from fl_clustering.three_phase import stages
from fl_clustering.three_phase import summary as summary_lib

if TYPE_CHECKING:
  from experiment_shell import output_folder
  from fl_clustering import config as config_lib
  from fl_clustering.tasks import federated_task


class _ProgressBar(stages.RunObserver):
  """One bar per stage: round, loss, the clients' accuracy, time left."""

  def __init__(self) -> None:
    self._bar: Any = None
    self._rounds_done = 0

  def __enter__(self) -> "_ProgressBar":
    return self

  def __exit__(self, *unused_exception: object) -> None:
    self._close()

  def stage_started(self, stage: str, num_rounds: int, rounds_done: int) -> None:
    self._close()
    self._bar = tqdm.tqdm(
        desc=f"{stage:16}", total=num_rounds, initial=rounds_done, unit="round"
    )
    self._rounds_done = rounds_done

  def round_finished(self, stage: str, round_num: int, rows: Sequence[stages.Row]) -> None:
    values = {row.metric: row.value for row in rows if row.cluster == ""}
    losses = [row.value for row in rows if row.metric == "train_loss"]
    if losses:
      values["train_loss"] = sum(losses) / len(losses)
    shown = {"loss": "train_loss", "accuracy": "clients_accuracy_mean"}
    self._bar.set_postfix(
        {short: f"{values[name]:.3f}" for short, name in shown.items() if name in values},
        refresh=False,
    )
    # Rounds replayed from a checkpoint were counted at the start.
    if round_num > self._rounds_done:
      self._bar.update()
    if round_num == self._bar.total:
      # What follows may have a bar of its own.
      self._close()

  def _close(self) -> None:
    if self._bar is not None:
      self._bar.close()


def run(
    config: "config_lib.ThreePhaseConfig",
    task: "federated_task.FederatedTask",
    folder: "output_folder.OutputFolder",
    open_runtime: Callable[[], contextlib.AbstractContextManager],
    reuse: str | None = None,
    last_columns: Mapping[str, str] | None = None,
) -> dict[str, Any]:
  """Runs all three phases, from their checkpoints if there are any; returns the summary.

  Args:
    folder: The run's folder, which is started.
    reuse: The folder of another run whose stages are used where they fit.
    last_columns: As of `output_folder.csv_text`, for every table.

  Raises:
    checkpoint.DamagedCheckpoint: If a checkpoint can't be read.
    divergence.TrainingDiverged: If a client's loss is not finite.
    runtime.WorkerLost: If TFF's worker process ends.
  """
  folder.write_text("clients.csv", data.clients_text(task, last_columns))
  checkpoints = checkpoint.Checkpoints(
      folder.join("checkpoints"), reuse and os.path.join(reuse, "checkpoints")
  )
  client_data = folder.join("client_data")
  os.makedirs(client_data, exist_ok=True)
  with run_files.RunFiles(folder, config, last_columns) as files:
    with open_runtime(), _ProgressBar() as bar:
      result = run_lib.run(config, task, client_data, checkpoints, [files, bar])
      recovery = group_recovery.recovery_rows(config, task, result)
    files.finish(task, result, recovery)
  if task.table_format is not None:
    method = saved_clusters.most_accurate(config, task.model, result)
    saved = saved_clusters.of_result(method, result, task, config.model_options)
    saved.save(folder.join(model_folder.MODEL))
    # At sites, the profile of a small cluster would tell of its clients' rows.
    if len(saved.vectors) > 1 and not task.num_sites:
      folder.write_text(results_lib.PROFILES, profiles.profiles_text(task, saved))
  # The clients' files serve training alone; the checkpoints hold the trained models.
  shutil.rmtree(client_data)
  return summary_lib.summarize(config, task, result)
