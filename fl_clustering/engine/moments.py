"""The moments of a model's outputs on a client's data, overall and within each label.

They describe how a client's data are distributed (Fenoglio et al., "FLUX: Efficient
Descriptor-Driven Clustered Federated Learning under Arbitrary Distribution Shifts", NeurIPS 2025).
"""

import numpy as np


def _of_rows(rows: np.ndarray) -> np.ndarray:
  if not len(rows):
    return np.full((2, rows.shape[1]), np.nan, np.float32)
  means = rows.mean(axis=0, dtype=np.float64).astype(np.float32)
  variances = np.square(rows - means).mean(axis=0, dtype=np.float64)
  return np.stack([means, np.sqrt(variances).astype(np.float32)])


def of_client(outputs: np.ndarray, labels: np.ndarray, num_labels: int) -> np.ndarray:
  """Returns the means and standard deviations of a client's outputs.

  Args:
    outputs: float32 of shape (n, d).
    labels: Of shape (n,).
    num_labels: Of so many labels they are returned, too.

  Returns:
    float32 of shape (1 + num_labels, 2, d): of all outputs, and then of those of each label; NaN
    without any.
  """
  parts = [outputs, *(outputs[labels == label] for label in range(num_labels))]
  # What is not finite is told by who asks.
  with np.errstate(invalid="ignore", over="ignore"):
    return np.stack(list(map(_of_rows, parts)))
