"""Tests of drop-outs: clients that don't answer add neither a message nor a share of the noise."""

from unittest import mock

from absl.testing import absltest
import numpy as np

from fl_clustering.engine import bounded_sums
from fl_clustering.points import privacy
from fl_clustering.private_clusters import plan
from fl_clustering.private_clusters import releases as releases_lib
from fl_clustering.private_clusters import slot_sums

_NUM_CELLS = 4000
_MU = 0.5


class _Silent:
  """Clients that all send zeros, and their shares."""

  def size(self, unused_question):
    return _NUM_CELLS

  def total(self, unused_question, unused_public, unused_clients, shares=()):
    return sum(shares, np.zeros(_NUM_CELLS, np.int64))


def _noise(num_clients, trust="none", min_clients=5, sensitivity=1.0, sums=None):
  """Returns the noise of a release that asks so many clients, who all send zeros."""
  settings = plan.PrivateClusters(2, 8.0, 1e-5, trust=trust, min_clients=min_clients)
  books = releases_lib.Releases(8.0, 1e-5, noise_seed=3)
  question = bounded_sums.Question("zeros", sensitivity, None)
  return slot_sums.Door(sums or _Silent(), books, settings).ask(
      "round 1", question, None, np.arange(num_clients), _MU
  )


class DropOutTest(absltest.TestCase):

  def test_min_clients_add_all_the_noise_that_the_ledger_states(self):
    # Eight standard deviations of a standard deviation that is estimated from so many cells.
    margin = 8 / np.sqrt(2 * _NUM_CELLS)
    for num_clients in (5, 20):
      expected = np.sqrt(num_clients / 5) / _MU
      self.assertAlmostEqual(
          np.std(_noise(num_clients)) / expected, 1, delta=margin, msg=num_clients
      )

  def test_fewer_are_refused_before_anything_is_asked(self):
    sums = mock.Mock(_Silent)
    with self.assertRaisesRegex(ValueError, "`min_clients`"):
      _noise(4, sums=sums)
    sums.total.assert_not_called()

  def test_noise_that_is_too_small_to_share_or_too_large_is_refused(self):
    for sensitivity, should_be in ((1e-9, "smaller"), (1e30, "larger")):
      with self.assertRaisesRegex(privacy.BudgetOutOfRange, should_be):
        _noise(5, sensitivity=sensitivity)

  def test_with_a_server_that_adds_the_noise_any_number_may_answer(self):
    found = _noise(1, trust="server", min_clients=None)
    self.assertAlmostEqual(np.std(found) * _MU, 1, delta=8 / np.sqrt(2 * _NUM_CELLS))
    np.testing.assert_array_equal(found * bounded_sums.STEPS % 1, 0)
