"""Accuracy, recall and precision from confusion matrices.

Confusion matrices have shape (..., num_classes, num_classes) with true labels as
rows and predicted labels as columns.  Macro averages are over the labels
present, that is, those with examples.
"""

import numpy as np


def accuracy(confusion: np.ndarray) -> np.ndarray:
  """Returns the share of examples predicted right, of shape (...); NaN without any."""
  return _divide(np.trace(confusion, axis1=-2, axis2=-1), confusion.sum(axis=(-2, -1)))


def model_metrics(confusion: np.ndarray) -> dict[str, np.ndarray]:
  """Returns the accuracy and the macro-averaged recall and precision, each of shape (...)."""
  return {
      "accuracy": accuracy(confusion),
      "recall": macro(class_recall(confusion)),
      "precision": macro(class_precision(confusion)),
  }


def client_metrics(confusions: np.ndarray) -> dict[str, np.floating]:
  """Returns a round's metrics over all clients, from matrices (N, C, C)."""
  metrics = model_metrics(confusions)
  return {
      "accuracy": metrics["accuracy"].mean(),
      "accuracy_p10": np.percentile(metrics["accuracy"], 10),
      "recall": metrics["recall"].mean(),
  }


def class_recall(confusion: np.ndarray) -> np.ndarray:
  """Returns the recall of every label; NaN for a label without examples."""
  return _divide(np.diagonal(confusion, axis1=-2, axis2=-1), confusion.sum(axis=-1))


def class_precision(confusion: np.ndarray) -> np.ndarray:
  """Returns the precision of every label present; NaN for a label without examples.

  A label that is present but never predicted has precision 0.
  """
  correct = np.diagonal(confusion, axis1=-2, axis2=-1)
  predicted = np.maximum(confusion.sum(axis=-2), 1)
  return np.where(confusion.sum(axis=-1) > 0, correct / predicted, np.nan)


def macro(per_class: np.ndarray) -> np.ndarray:
  """Returns the mean over the labels present (those not NaN), of shape (...)."""
  return np.nanmean(per_class, axis=-1)


def _divide(numerator: np.ndarray, denominator: np.ndarray) -> np.ndarray:
  present = denominator > 0
  return np.where(present, numerator / np.where(present, denominator, 1), np.nan)
