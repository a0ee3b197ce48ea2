"""Agreement between two partitions, given as the cluster or class of every point.

These are scikit-learn's scores, without its warnings.  With many small clusters, scikit-learn takes
the labels for the values of a regression problem and warns.
"""

import warnings

import numpy as np


def _score(name: str, labels: np.ndarray, others: np.ndarray) -> float:
  # Here, since scikit-learn takes a second to import.
  from sklearn import metrics  # pylint: disable=g-import-not-at-top

  with warnings.catch_warnings():
    warnings.filterwarnings("ignore", "The number of unique classes is greater", UserWarning)
    return float(getattr(metrics, name)(labels, others))


def adjusted_rand_index(labels: np.ndarray, others: np.ndarray) -> float:
  """Returns the adjusted Rand index (Hubert and Arabie 1985): at most 1, about 0 by chance."""
  return _score("adjusted_rand_score", labels, others)


def normalized_mutual_information(labels: np.ndarray, others: np.ndarray) -> float:
  """Returns the mutual information over the mean of the two entropies, in [0, 1]."""
  return _score("normalized_mutual_info_score", labels, others)
