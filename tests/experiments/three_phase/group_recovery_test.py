"""Tests which settings are tried to recover known groups; nothing is trained."""

import types

from absl.testing import absltest
import numpy as np

from experiments.three_phase import group_recovery
from fl_clustering.methods import client_weights
from fl_clustering.three_phase import config as config_lib

_GROUPS = np.array([0, 1, 0, 1])


def _weights(spread):
  """Returns weights whose groups are on different sides by `spread`."""
  vectors = [[10 + i, spread * (1 if group else -1)] for i, group in enumerate(_GROUPS)]
  return client_weights.ClientWeights(
      np.arange(4), np.array(vectors, np.float32), np.array([10, 0], np.float32)
  )


def _rows(groupings, true_groups=_GROUPS, **settings):
  """Returns the rows, and the epochs for which clients would have been trained."""
  config = config_lib.ThreePhaseConfig(
      num_clients=4, num_clusters=2, methods=groupings, **settings
  )
  trained = []

  def local_weights(epochs):
    trained.append(epochs)
    return _weights(100 * epochs)

  result = types.SimpleNamespace(
      client_weights=_weights(0.01), local_weights=local_weights, num_clusters_choice=None
  )
  task = types.SimpleNamespace(true_groups=true_groups)
  return group_recovery.recovery_rows(config, task, result), trained


class GroupRecoveryTest(absltest.TestCase):

  def test_tries_every_representation_and_number_of_epochs(self):
    rows, trained = _rows(("kmeans", "hierarchical"), representation="update")
    self.assertEqual(trained, [1, 5])
    self.assertEqual(
        [(row["method"], row["epochs"], row["representation"]) for row in rows[::2]],
        [
            (grouping, epochs, representation)
            for grouping in ("kmeans", "hierarchical")
            for epochs in ("last round", 1, 5)
            for representation in ("weights", "update", "normalized_update")
        ],
    )
    used = [row for row in rows if row["used"]]
    self.assertEqual(
        {(row["epochs"], row["representation"]) for row in used},
        {("last round", "update")},
    )
    self.assertLen(used, 4)
    # Training tells the groups apart here, the last round does not.
    for row in rows:
      if row["epochs"] != "last round":
        self.assertEqual(row["value"], 1)
    self.assertEqual(rows[0]["metric"], "adjusted_rand_index")
    self.assertLess(rows[0]["value"], 1)

  def test_nothing_to_recover(self):
    self.assertEqual(_rows(("kmeans",), true_groups=None), ([], []))


if __name__ == "__main__":
  absltest.main()
