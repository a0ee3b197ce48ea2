"""Agreement between two partitions: scikit-learn's scores, without its warnings.

With many small clusters, scikit-learn takes the labels for the values of a regression problem
and warns.
"""

import contextlib
import warnings


@contextlib.contextmanager
def _without_warnings():
  with warnings.catch_warnings():
    warnings.filterwarnings("ignore", "The number of unique classes is greater", UserWarning)
    yield


def adjusted_rand_index(labels, others):
  """Returns the adjusted Rand index (Hubert and Arabie 1985): at most 1, about 0 by chance.

  Args:
    labels: The cluster or class of every point, of shape (n,).
    others: The same of the other partition.
  """
  # Here, since scikit-learn takes a second to import.
  from sklearn import metrics  # pylint: disable=g-import-not-at-top

  with _without_warnings():
    return float(metrics.adjusted_rand_score(labels, others))


def normalized_mutual_information(labels, others):
  """Returns the mutual information over the mean of the two entropies, in [0, 1].

  Args:
    labels: The cluster or class of every point, of shape (n,).
    others: The same of the other partition.
  """
  from sklearn import metrics  # pylint: disable=g-import-not-at-top

  with _without_warnings():
    return float(metrics.normalized_mutual_info_score(labels, others))
