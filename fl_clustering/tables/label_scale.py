"""How the real numbers that a regression learns are standardized."""

import dataclasses

import numpy as np


@dataclasses.dataclass(frozen=True)
class LabelScale:
  """The mean and the standard deviation, > 0, of the training labels, in the data's units."""

  mean: float
  deviation: float

  def standardized(self, labels: np.ndarray) -> np.ndarray:
    """Returns labels as models learn them, float64."""
    return (np.asarray(labels, np.float64) - self.mean) / self.deviation

  def in_units(self, outputs: np.ndarray) -> np.ndarray:
    """Returns standardized labels, or a model's outputs, in the data's units, float64."""
    return np.asarray(outputs, np.float64) * self.deviation + self.mean
