"""Tests for experiments.kmeans.privacy_box."""

from unittest import mock

from absl.testing import absltest
import numpy as np

from experiments.kmeans import data
from experiments.kmeans import privacy_box
from fl_clustering.kmeans import FederatedKMeans
from fl_clustering.kmeans import kmeans_config
from fl_clustering.kmeans import rounds
from fl_clustering.points import privacy
from fl_clustering import runtime
from tests import nightly


def _differences(messages):
  """Returns the differences of sums whose counts differ by one, of one client's messages.

  Args:
    messages: A list of means (R, K, d) and counts (R, K).
  """
  means, counts = (
      np.concatenate([part.reshape(-1, *part.shape[2:]) for part in parts])
      for parts in zip(*messages)
  )
  means, counts = means[counts > 0].astype(np.float64), counts[counts > 0]
  larger, smaller = np.nonzero(counts[:, np.newaxis] - counts == 1)
  sums = means * counts[:, np.newaxis]
  return sums[larger] - sums[smaller]


class DifferencingTest(absltest.TestCase):

  @nightly.only
  def test_rows_stand_among_the_differences_of_means(self):
    self.enter_context(runtime.LocalRuntime())
    clients = data.load_table("wine", seed=0).points
    gathered, gather = [], rounds.Rounds.gather

    def record(self, *args):
      means = gather(self, *args)
      gathered.append((self.files.scaling, means.by_client))
      return means

    with mock.patch.object(rounds.Rounds, "gather", record):
      FederatedKMeans(8, "fkm_lloyd", random_state=0).fit(clients)
    num_found = 0
    for client_id, points in clients.items():
      rows = gathered[0][0].apply(points)
      found = _differences([by_client[client_id] for _, by_client in gathered])
      for row in rows:
        num_found += np.any(np.abs(found - row).max(axis=1) < 1e-3)
    # 61, with the processor that this was written on.
    self.assertGreater(num_found, 30)


class TextTest(absltest.TestCase):

  def test_every_algorithm_and_trust_has_a_text(self):
    self.assertCountEqual(privacy_box.LEAVES, kmeans_config.ALGORITHMS)
    self.assertCountEqual(privacy_box.TRUST, privacy.TRUST)


if __name__ == "__main__":
  absltest.main()
