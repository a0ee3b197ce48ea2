"""What a round is told by: confusion matrices as rows of metrics."""

import numpy as np

from fl_clustering import metrics as metrics_lib
from fl_clustering import stages


def rows(phase, method, cluster, round_num, metrics):
  """Returns the `stages.Row`s of a dict of metrics."""
  return [
      stages.Row(phase, method, cluster, round_num, metric, float(value))
      for metric, value in metrics.items()
  ]


def model_metrics(prefix, confusion):
  """Returns one model's metrics on one test set, from a matrix (C, C)."""
  return {
      f"{prefix}_accuracy": metrics_lib.accuracy(confusion),
      f"{prefix}_recall": metrics_lib.macro(metrics_lib.class_recall(confusion)),
      f"{prefix}_precision": metrics_lib.macro(metrics_lib.class_precision(confusion)),
  }


def client_metrics(confusions):
  """Returns how the clients fare together, from matrices (N, C, C)."""
  accuracy = metrics_lib.accuracy(confusions)
  return {
      "clients_accuracy_mean": accuracy.mean(),
      "clients_accuracy_p10": np.percentile(accuracy, 10),
      "clients_recall_mean": metrics_lib.macro(metrics_lib.class_recall(confusions)).mean(),
  }
