"""The files of a three-phase run that are written while it runs and after its last phase."""

import asyncio
import csv
import os
import shutil

import numpy as np
import tensorflow_federated as tff

from experiment_shell import output_folder
from fl_clustering import metrics as metrics_lib
from fl_clustering import pretraining
from fl_clustering import stages


def _evaluation_rows(result):
  """Returns the rows of phase 3, and of phase 1's model, for `metrics.csv`."""
  rows = []
  evaluated = [("pretrain", "global", [("", result.pretrain.global_test)])]
  for method, r in result.methods.items():
    for k, accuracy in enumerate(r.best_accuracy):
      rows.append(("evaluate", method, k, "", "best_accuracy", float(accuracy)))
    evaluated += [
        (method, "global_mean", [("", r.global_mean)]),
        (method, "global_weighted", [("", r.global_weighted)]),
        (method, "global_blended", enumerate(r.global_blended)),
    ]
  for method, kind, confusions in evaluated:
    for cluster, confusion in confusions:
      recall = metrics_lib.class_recall(confusion)
      metrics = {
          **metrics_lib.model_metrics(confusion),
          # A label without examples has no recall.
          **{f"recall_class_{c}": v for c, v in enumerate(recall) if not np.isnan(v)},
      }
      rows += [
          ("evaluate", method, cluster, "", f"{kind}_{name}", float(value))
          for name, value in metrics.items()
      ]
  return rows


def _client_metrics_text(task, result):
  """Returns `client_metrics.csv`: every client's metrics under every model it gets."""
  tables = [
      ("pretrain", "pretrain", None, result.pretrain.clients),
      ("pretrain", "own_weights", None, result.pretrain.own_weights),
  ]
  for method, r in result.methods.items():
    tables.append(("cluster", method, r.assignment, r.clients))
    tables.append(("evaluate", method, r.assignment, r.clients_blended))
  header = ["phase", "method", "client_id", "clusters", "num_test"]
  header += ["accuracy", "recall", "precision"]
  header += [f"recall_class_{label}" for label in range(task.num_classes)]
  rows = []
  for phase, method, assignment, confusions in tables:
    metrics = metrics_lib.model_metrics(confusions)
    class_recall = metrics_lib.class_recall(confusions)
    for i, client in enumerate(task.clients):
      clusters = assignment.clusters_of(client.client_id) if assignment else ()
      rows.append([
          phase,
          method,
          client.client_id,
          " ".join(map(str, clusters)),
          len(client.test),
          *(values[i] for values in metrics.values()),
          *("" if np.isnan(v) else v for v in class_recall[i]),
      ])
  return output_folder.csv_text(header, rows)


class RunFiles(stages.RunObserver):
  """Writes the files of a run: `metrics.csv` and TensorBoard events after every round.

  A resumed run replays its rounds, so both start anew.
  """

  def __init__(self, folder):
    """Starts the files in an `OutputFolder`."""
    self._folder = folder
    self._metrics = open(
        folder.join("metrics.csv"), "w", encoding="utf-8", newline="", buffering=1
    )
    self._csv = csv.writer(self._metrics, lineterminator="\n")
    self._csv.writerow(stages.Row._fields)
    shutil.rmtree(folder.join("tensorboard"), ignore_errors=True)
    self._tensorboard = {}
    self._pretrain_rounds = 0

  def __enter__(self):
    return self

  def __exit__(self, *unused_exception):
    self._metrics.close()

  def stage_started(self, stage, num_rounds, rounds_done):
    if stage == pretraining.STAGE:
      self._pretrain_rounds = num_rounds
    self._tensorboard[stage] = tff.program.TensorBoardReleaseManager(
        self._folder.join(os.path.join("tensorboard", stage))
    )

  def round_finished(self, stage, round_num, rows):
    self._csv.writerows(rows)
    self._metrics.flush()
    # All methods go on where pretraining ended.
    step = round_num + (0 if stage == pretraining.STAGE else self._pretrain_rounds)
    scalars = {
        row.metric if row.cluster == "" else f"cluster_{row.cluster}/{row.metric}": row.value
        for row in rows
    }
    asyncio.run(self._tensorboard[stage].release(scalars, step))

  def clients_grouped(self, client_weights, assignments):
    client_weights.save(self._folder.join("client_weights.npz"))
    self._write_assignments(assignments)

  def _write_assignments(self, assignments):
    document = {
        name: {
            "clusters": [list(members) for members in assignment.clusters],
            "overlapping": assignment.overlapping,
            "warning": assignment.warning,
        }
        for name, assignment in assignments.items()
    }
    self._folder.write_text("assignments.json", output_folder.json_text(document))

  def finish(self, config, task, result, recovery):
    """Writes the files that need the results of all phases.

    Args:
      config: The run's `ThreePhaseConfig`.
      task: Its `FederatedTask`.
      result: Its `ThreePhaseResult`.
      recovery: What `group_recovery.recovery_rows` returned for it.
    """
    self._csv.writerows(_evaluation_rows(result))
    self._folder.write_text("client_metrics.csv", _client_metrics_text(task, result))
    # A method may have moved clients since they were grouped.
    self._write_assignments({
        name: result.methods[name].assignment for name in config.methods
    })
    if recovery:
      header, rows = recovery[0], [row.values() for row in recovery]
      self._folder.write_text("group_recovery.csv", output_folder.csv_text(header, rows))
