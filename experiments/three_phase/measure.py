"""Measures a run: its three phases, with a progress bar."""

import os
import shutil
from typing import TYPE_CHECKING, Any

from clustering_basics import model_folder
from experiments.three_phase import data
from experiments.three_phase import group_recovery
from experiments.three_phase import profiles
from experiments.three_phase import results as results_lib
from experiments.three_phase import run_files
from fl_clustering import runtime
from fl_clustering.three_phase import checkpoint
from fl_clustering.three_phase import progress_bar
from fl_clustering.three_phase import run as run_lib
from fl_clustering.three_phase import saved_clusters
from fl_clustering.three_phase import summary as summary_lib

if TYPE_CHECKING:
  from experiment_shell import output_folder
  from fl_clustering.tasks import federated_task
  from fl_clustering.three_phase import config as config_lib


def run(
    config: "config_lib.ThreePhaseConfig",
    task: "federated_task.FederatedTask",
    folder: "output_folder.OutputFolder",
    reuse: str | None = None,
) -> dict[str, Any]:
  """Runs all three phases, from their checkpoints if there are any; returns the summary.

  Args:
    folder: The run's folder, which is started.
    reuse: The folder of another run whose stages are used where they fit.

  Raises:
    checkpoint.DamagedCheckpoint: If a checkpoint can't be read.
    divergence.TrainingDiverged: If a loss, a weight or a model's output is not finite.
    runtime.WorkerLost: If TFF's worker process ends.
  """
  folder.write_text("clients.csv", data.clients_text(task))
  checkpoints = checkpoint.Checkpoints(
      folder.join("checkpoints"), reuse and os.path.join(reuse, "checkpoints")
  )
  client_data = folder.join("client_data")
  os.makedirs(client_data, exist_ok=True)
  with run_files.RunFiles(folder, config) as files:
    with runtime.LocalRuntime(), progress_bar.ProgressBar() as bar:
      result = run_lib.run(config, task, client_data, checkpoints, [files, bar])
      recovery = group_recovery.recovery_rows(config, task, result)
    files.finish(task, result, recovery)
  if task.tables is not None:
    method = saved_clusters.most_accurate(config, result)
    saved = saved_clusters.of_result(method, result, task, config.options_for("model"))
    saved.save(folder.join(model_folder.MODEL))
    if len(saved.vectors) > 1:
      folder.write_text(results_lib.PROFILES, profiles.profiles_text(task, saved))
  # The clients' files serve training alone; the checkpoints hold the trained models.
  shutil.rmtree(client_data)
  return summary_lib.summarize(config, task, result)
