"""The metric by which methods are compared, and what it comes to at every client."""

from __future__ import annotations

import dataclasses
import math
from typing import Mapping, TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
  from fl_clustering.engine import objectives
  from fl_clustering.tasks import federated_task


@dataclasses.dataclass(frozen=True)
class Metric:
  """A metric by which methods are compared.

  Attributes:
    label: What readers call it.
    key: Its name among the metrics of tallies.
    is_loss: Whether less is better.
    bound: The largest difference that there can be.
  """

  label: str
  key: str
  is_loss: bool = False
  bound: float = 1.0


METRICS: Mapping[str, Metric] = {
    "accuracy": Metric("accuracy", "accuracy"),
    "balanced_accuracy": Metric("balanced accuracy", "recall"),
    "mse": Metric("mean squared error", "mse", is_loss=True, bound=math.inf),
}
ACCURACY, BALANCED_ACCURACY, MSE = METRICS


def metric_of(task: federated_task.FederatedTask) -> str:
  """Returns the metric by which a task's methods are compared.

  For rows of tables whose rarest class has less than half of its share among equally frequent
  classes, it is the balanced accuracy: whoever always predicts the frequent ones is accurate.
  """
  if task.is_regression:
    return MSE
  counts = task.train_label_counts
  if task.table_format is None or counts is None:
    return ACCURACY
  is_rare = counts.min() < counts.sum() / (2 * len(counts))
  return BALANCED_ACCURACY if is_rare else ACCURACY


def client_scores(
    name: str, objective: objectives.Objective, tallies: np.ndarray
) -> np.ndarray:
  """Returns a metric at every client, of shape (N,), from the clients' tallies, (N, ...)."""
  return objective.metrics(tallies)[METRICS[name].key]


def gains_between(name: str, scores: np.ndarray, control: np.ndarray) -> np.ndarray:
  """Returns by how much scores are better than the control's, whether more or less is better."""
  return control - scores if METRICS[name].is_loss else scores - control
