"""What is reached without any feature: a client's most frequent class, or its mean.

Probabilities are the shares of the classes in the client's training rows, with one more row of each
class (Laplace's rule of succession), so that none is zero.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import numpy as np

from fl_clustering.engine import objectives
from fl_clustering.three_phase import judging

if TYPE_CHECKING:
  from fl_clustering.tasks import federated_task


@dataclasses.dataclass(frozen=True, eq=False)
class Baseline:
  """The baseline on the test rows of the clients that train.

  Attributes:
    clients: Tallies, (N, ...).
    outputs: The metrics of its outputs; None for a regression.
  """

  clients: np.ndarray
  outputs: judging.OutputMetrics | None


def of_task(task: federated_task.FederatedTask) -> Baseline | None:
  """Returns the baseline of a task of tables; None of other data."""
  if task.table_format is None:
    return None
  objective = objectives.of(task.model)
  outputs = []
  for client in task.clients:
    train, test = client.train.labels, client.test.labels
    if task.is_regression:
      output = np.array([train.mean(dtype=np.float64)], np.float32)
    else:
      output = np.log(1 + np.bincount(train, minlength=task.num_classes)).astype(np.float32)
    outputs.append((test, np.broadcast_to(output, (len(test), len(output)))))
  # In TensorFlow, as models are judged.
  tallies = np.concatenate([
      np.asarray(objective.tallies(
          labels.astype(np.float32 if task.is_regression else np.int32), output,
          np.zeros(len(labels), np.int32), 1,
      )) for labels, output in outputs
  ])
  of_outputs = None if task.is_regression else judging.output_metrics(outputs)
  return Baseline(tallies, of_outputs)
