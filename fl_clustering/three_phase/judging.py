"""The metric by which methods are compared, and what it comes to at every client."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fl_clustering.engine import metrics as metrics_lib

if TYPE_CHECKING:
  from fl_clustering.tasks import federated_task

ACCURACY, BALANCED_ACCURACY = "accuracy", "balanced_accuracy"
# From a metric by which methods are compared to its name among those of `metrics.model_metrics`.
METRICS = {ACCURACY: "accuracy", BALANCED_ACCURACY: "recall"}


def metric_of(task: federated_task.FederatedTask) -> str:
  """Returns the metric by which a task's methods are compared.

  For rows of tables whose rarest class has less than half of its share among equally frequent
  classes, it is the balanced accuracy: whoever always predicts the frequent ones is accurate.
  """
  if task.tables is None:
    return ACCURACY
  counts = task.train_label_counts
  is_rare = counts.min() < counts.sum() / (2 * len(counts))
  return BALANCED_ACCURACY if is_rare else ACCURACY


def client_scores(metric: str, confusions: np.ndarray) -> np.ndarray:
  """Returns a metric at every client, of shape (N,), from the clients' matrices, (N, C, C)."""
  return metrics_lib.model_metrics(confusions)[METRICS[metric]]
