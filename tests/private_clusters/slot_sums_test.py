"""Tests of drop-outs: clients that don't answer add neither a message nor a share of the noise."""

from absl.testing import absltest
import numpy as np

from fl_clustering.points import privacy
from fl_clustering.engine.tff import client_messages
from fl_clustering.private_clusters import releases as releases_lib
from fl_clustering.private_clusters import slot_sums

_NUM_CELLS = 4000


def _door(num_clients, trust="none", min_clients=5):
  books = releases_lib.Releases(8.0, 1e-5, noise_seed=3)
  return slot_sums.Door([{}] * num_clients, books, trust, min_clients)


def _noise(door, sensitivity=1.0):
  """Returns the noise of a release of mu 1/2, whose clients all send zeros."""
  total = lambda unused_public, clients: sum(client["share"] for client in clients)
  return door.ask("round 1", total, None, _NUM_CELLS, sensitivity=sensitivity, mu=0.5)


class DropOutTest(absltest.TestCase):

  def test_min_clients_add_all_the_noise_that_the_ledger_states(self):
    # Eight standard deviations of a standard deviation that is estimated from so many cells.
    margin = 8 / np.sqrt(2 * _NUM_CELLS)
    for num_clients in (5, 20):
      expected = 2 * np.sqrt(num_clients / 5)
      self.assertAlmostEqual(
          np.std(_noise(_door(num_clients))) / expected, 1, delta=margin, msg=num_clients
      )

  def test_fewer_are_refused_before_anything_is_asked(self):
    with self.assertRaisesRegex(ValueError, "`min_clients`"):
      _door(4)

  def test_noise_that_is_too_small_to_share_or_too_large_is_refused(self):
    for sensitivity, should_be in ((1e-9, "smaller"), (1e30, "larger")):
      with self.assertRaisesRegex(privacy.BudgetOutOfRange, should_be):
        _noise(_door(5), sensitivity)

  def test_with_a_server_that_adds_the_noise_any_number_may_answer(self):
    found = _noise(_door(1, trust="server", min_clients=None))
    self.assertAlmostEqual(np.std(found) / 2, 1, delta=8 / np.sqrt(2 * _NUM_CELLS))
    np.testing.assert_array_equal(found * client_messages.STEPS % 1, 0)


if __name__ == "__main__":
  absltest.main()
