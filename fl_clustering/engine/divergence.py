"""The error of a training whose numbers are no longer finite."""

from __future__ import annotations

import contextlib
from typing import Any, Iterator, Sequence, TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
  from fl_clustering.engine import participation


# What stands in a confusion matrix of outputs that are not finite.
NOT_FINITE = -1


class TrainingDiverged(RuntimeError):
  """A client's loss or weights, or a model's outputs, are no longer finite."""


def check_losses(
    losses: participation.ClientLosses, where: str, client_ids: Sequence[str]
) -> None:
  """Raises `TrainingDiverged` unless all losses are finite, given all clients' ids."""
  for place in np.flatnonzero(~np.isfinite(losses.values)):
    raise TrainingDiverged(
        f"the training loss is {losses.values[place]} in {where}, client "
        f"{client_ids[losses.clients[place]]!r}; a lower learning rate may help."
    )


def are_finite(confusions: np.ndarray) -> np.ndarray:
  """Returns whether all outputs were finite, of shape (...), from matrices (..., C, C)."""
  return confusions[..., 0, 0] != NOT_FINITE


def check_outputs(finite: Any, rows: str) -> None:
  """Raises `TrainingDiverged` unless a model's outputs for some rows are finite."""
  if not np.all(finite):
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
