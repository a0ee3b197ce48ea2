"""The files of a three-phase run that are written while it runs and after its last phase."""

import csv
import os
import shutil
from typing import TYPE_CHECKING, Any, Iterable, Mapping, Sequence

import numpy as np
import tensorflow as tf

from experiment_shell import output_folder
from experiments.three_phase import results as results_lib
from fl_clustering.engine import metrics as metrics_lib
from fl_clustering.three_phase import pretraining
from fl_clustering.three_phase import scoring
from fl_clustering.three_phase import stages

if TYPE_CHECKING:
  from fl_clustering.engine import cost as cost_lib
  from fl_clustering.methods import client_weights as client_weights_lib
  from fl_clustering.methods import cluster_assignment
  from fl_clustering.tasks import federated_task
  from fl_clustering.three_phase import config as config_lib
  from fl_clustering.three_phase import result as result_lib

_EVALUATE = "evaluate"
# Most clusters of a method that TensorBoard shows.
_MOST_CHARTED = 100


def _metrics(confusions: np.ndarray) -> dict[str, Any]:
  """Returns the metrics of confusion matrices by name, the recalls of labels last."""
  recall = metrics_lib.class_recall(confusions)
  of_labels = {f"recall_class_{label}": recall[..., label] for label in range(recall.shape[-1])}
  return {**metrics_lib.model_metrics(confusions), **of_labels}


def _model_rows(
    method: str, kind: str, cluster: int | str, confusion: np.ndarray
) -> list[stages.Row]:
  """Returns the rows of one model on the global test set, from its confusion matrix."""
  metrics = _metrics(confusion)
  # A label without examples has no recall, for one.
  named = {f"{kind}_{name}": value for name, value in metrics.items() if not np.isnan(value)}
  return stages.metric_rows(_EVALUATE, method, cluster, "", named)


def _total_rows(method: str, cost: "cost_lib.Cost") -> list[stages.Row]:
  totals = {f"total_{name}": value for name, value in cost.by_name().items()}
  return stages.metric_rows(_EVALUATE, method, "", "", totals)


def evaluation_rows(result: "result_lib.ThreePhaseResult") -> list[stages.Row]:
  """Returns the rows of phase 3, and of phase 1's model, for `metrics.csv`."""
  rows = _model_rows(pretraining.STAGE, "global", "", result.pretrain.global_test)
  rows += _total_rows(pretraining.STAGE, result.pretrain.cost)
  for method, r in result.methods.items():
    for name, of_clusters in (("best", r.best_accuracy), ("validation", r.validation_accuracy)):
      for k, accuracy in enumerate(() if of_clusters is None else of_clusters):
        known = {} if np.isnan(accuracy) else {f"{name}_accuracy": float(accuracy)}
        rows += stages.metric_rows(_EVALUATE, method, k, "", known)
    rows += _model_rows(method, "global_mean", "", r.global_mean)
    rows += _model_rows(method, "global_weighted", "", r.global_weighted)
    tested = scoring.blended_on_global_test(len(r.best_accuracy))
    for k, confusion in zip(tested, r.global_blended):
      rows += _model_rows(method, "global_blended", k, confusion)
    rows += _total_rows(method, r.cost)
  return rows


def _cells(values: Iterable[Any]) -> list[Any]:
  """Returns values as cells, empty where a metric is undefined."""
  return ["" if np.isnan(value) else value for value in values]


def client_metrics_text(
    task: "federated_task.FederatedTask", result: "result_lib.ThreePhaseResult"
) -> str:
  """Returns `client_metrics.csv`: every client's metrics under every model it gets.

  A metric is empty where it is undefined.
  """
  rows: list[list[Any]] = []

  def add(
      phase: str, method: str, clients: Sequence["federated_task.ClientData"],
      clusters: Sequence[Sequence[int]] | None, confusions: np.ndarray | None,
  ) -> None:
    """Adds every client's row; which clusters each is in, None for none; nothing of None."""
    if confusions is None:
      return
    metrics = _metrics(confusions)
    for i, client in enumerate(clients):
      rows.append([
          phase,
          method,
          client.client_id,
          " ".join(map(str, clusters[i] if clusters else ())),
          len(client.test),
          *_cells(values[i] for values in metrics.values()),
      ])

  first = pretraining.STAGE
  add(first, first, task.clients, None, result.pretrain.clients)
  add(first, "own_weights", task.clients, None, result.pretrain.own_weights)
  for method, r in result.methods.items():
    clusters = [r.assignment.clusters_of(client_id) for client_id in task.client_ids]
    add("cluster", method, task.clients, clusters, r.clients)
    add(_EVALUATE, method, task.clients, clusters, r.clients_blended)
  if result.baseline is not None:
    name = results_lib.BASELINE
    add(name, name, task.clients, None, result.baseline)
  new = results_lib.NEW_CLIENTS
  add(new, first, task.new_clients, None, result.pretrain.new_clients)
  for method, r in result.methods.items():
    add(new, method, task.new_clients, r.new_client_clusters, r.new_clients)
  metrics = _metrics(result.pretrain.clients[:1])
  header = ["phase", "method", "client_id", "clusters", "num_test", *metrics]
  return output_folder.csv_text(header, rows)


class RunFiles(stages.RunObserver):
  """Writes the files of a run: `metrics.csv` and TensorBoard events after every round.

  A resumed run replays its rounds, so both start anew.
  """

  def __init__(
      self, folder: output_folder.OutputFolder, config: "config_lib.ThreePhaseConfig"
  ):
    """Starts the files."""
    self._folder = folder
    self._config = config
    self._metrics = open(
        folder.join("metrics.csv"), "w", encoding="utf-8", newline="", buffering=1
    )
    self._csv = csv.writer(self._metrics, lineterminator="\n")
    self._csv.writerow(stages.Row._fields)
    shutil.rmtree(folder.join("tensorboard"), ignore_errors=True)
    self._tensorboard: dict[str, Any] = {}
    self._rounds_before: dict[str, int] = {}

  def __enter__(self) -> "RunFiles":
    return self

  def __exit__(self, *unused_exception: object) -> None:
    self._metrics.close()

  def stage_started(self, stage: str, num_rounds: int, rounds_done: int) -> None:
    self._rounds_before[stage] = results_lib.rounds_before(
        stage, num_rounds, self._config.pretrain_rounds, self._config.cluster_rounds
    )

  def round_finished(self, stage: str, round_num: int, rows: Sequence[stages.Row]) -> None:
    # Repeats have nothing to tell.
    if not rows:
      return
    self._csv.writerows(rows)
    self._metrics.flush()
    if stage not in self._tensorboard:
      self._tensorboard[stage] = tf.summary.create_file_writer(
          self._folder.join(os.path.join("tensorboard", stage))
      )
    scalars = {row.metric: row.value for row in rows if row.cluster == ""}
    of_clusters = [row for row in rows if row.cluster != ""]
    # A chart for each of thousands of clients helps nobody, and takes longer than their training.
    if len({row.cluster for row in of_clusters}) <= _MOST_CHARTED:
      scalars.update(
          (f"cluster_{row.cluster}/{row.metric}", row.value) for row in of_clusters
      )
    with self._tensorboard[stage].as_default(self._rounds_before[stage] + round_num):
      for name, value in scalars.items():
        tf.summary.scalar(name, value)

  def clients_grouped(
      self, client_weights: "client_weights_lib.ClientWeights",
      assignments: Mapping[str, "cluster_assignment.ClusterAssignment"],
  ) -> None:
    client_weights.save(self._folder.join("client_weights.npz"))
    self._write_assignments(assignments)

  def _write_assignments(
      self, assignments: Mapping[str, "cluster_assignment.ClusterAssignment"]
  ) -> None:
    document = {
        name: {
            "clusters": [list(members) for members in assignment.clusters],
            "overlapping": assignment.overlapping,
            "warning": assignment.warning,
        }
        for name, assignment in assignments.items()
    }
    self._folder.write_text("assignments.json", output_folder.json_text(document))

  def finish(
      self, task: "federated_task.FederatedTask", result: "result_lib.ThreePhaseResult",
      recovery: Sequence[Mapping[str, Any]],
  ) -> None:
    """Writes the files that need the results of all phases.

    Args:
      recovery: What `group_recovery.recovery_rows` returned for it.
    """
    self._csv.writerows(evaluation_rows(result))
    self._folder.write_text("client_metrics.csv", client_metrics_text(task, result))
    # A method may have moved clients since they were grouped.
    self._write_assignments({
        name: result.methods[name].assignment for name in self._config.chosen_methods
    })
    if recovery:
      self._write_rows("group_recovery.csv", recovery)
    if result.num_clusters_choice is not None:
      self._write_rows("num_clusters.csv", result.num_clusters_choice.rows())

  def _write_rows(self, name: str, rows: Sequence[Mapping[str, Any]]) -> None:
    """Writes dicts with the same keys as a CSV file."""
    text = output_folder.csv_text(rows[0], [row.values() for row in rows])
    self._folder.write_text(name, text)
