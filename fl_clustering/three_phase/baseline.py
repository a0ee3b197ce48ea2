"""What is reached without any feature: a client's most frequent class, or its mean."""

from __future__ import annotations

import dataclasses
from typing import Any, TYPE_CHECKING

import numpy as np

from fl_clustering.engine import objectives

if TYPE_CHECKING:
  from fl_clustering.tasks import federated_task


@dataclasses.dataclass(frozen=True, eq=False)
class Baseline:
  """The baseline on the test rows of the clients that train.

  Attributes:
    clients: Tallies, (N, ...).
  """

  clients: np.ndarray


def of_task(task: federated_task.FederatedTask) -> Baseline | None:
  """Returns the baseline of a task of tables; None of other data, or where sites keep labels."""
  if task.table_format is None or task.num_sites:
    return None
  objective = objectives.of(task.model)
  outputs = []
  for client in task.clients:
    train: Any = client.train.labels  # type: ignore[union-attr]
    test: Any = client.test.labels  # type: ignore[union-attr]
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
  return Baseline(tallies)
