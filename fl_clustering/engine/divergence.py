"""The error of a training whose numbers are no longer finite."""

import contextlib
import math
from typing import Any, Iterator, Mapping

import numpy as np


class TrainingDiverged(RuntimeError):
  """A client's loss or weights, or a model's outputs, are no longer finite."""


def check_losses(losses: Mapping[str, float], where: str) -> None:
  """Raises `TrainingDiverged` unless all losses (by client id) are finite."""
  for client_id, loss in losses.items():
    if not math.isfinite(loss):
      raise TrainingDiverged(
          f"the training loss is {loss} in {where}, client {client_id!r}; "
          "a lower learning rate may help."
      )


def check_outputs(are_finite: Any, rows: str) -> None:
  """Raises `TrainingDiverged` unless a model's outputs for some rows are finite."""
  if not np.all(are_finite):
    raise TrainingDiverged(
        f"a model's outputs are not finite for the {rows}; a lower learning rate may help."
    )


@contextlib.contextmanager
def told(where: str) -> Iterator[None]:
  """Says where a `TrainingDiverged` was raised, before what it says."""
  try:
    yield
  except TrainingDiverged as e:
    raise TrainingDiverged(f"{where}: {e}") from e


def check_vector(vector: np.ndarray, where: str) -> None:
  """Raises `TrainingDiverged` unless the averaged weights are finite."""
  if not np.all(np.isfinite(vector)):
    raise TrainingDiverged(
        f"the averaged weights are not finite after {where}; "
        "a lower learning rate may help."
    )
