"""Tests of drop-outs: clients that don't answer add neither a message nor a share of the noise."""

from unittest import mock

from absl.testing import parameterized
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


def _sensitivity(scale):
  """Returns the sensitivity at which all shares together have noise of so many steps."""
  return scale * _MU / bounded_sums.STEPS


class DropOutTest(parameterized.TestCase):

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

  # Of four times as many clients as must answer, shares are twice as much noise as is stated.
  @parameterized.parameters(("none", 4, 16, 2), ("server", None, 16, 1))
  def test_the_largest_noise_is_that_of_all_who_may_answer(
      self, trust, min_clients, num_clients, of_all
  ):
    largest = _sensitivity(privacy.LARGEST_SCALE / of_all)
    _noise(num_clients, trust, min_clients, largest)
    with self.assertRaisesRegex(privacy.BudgetOutOfRange, "larger"):
      _noise(num_clients, trust, min_clients, 1.001 * largest)

  def test_the_least_share_of_the_noise(self):
    least = _sensitivity(2 * privacy.LEAST_SHARE_SCALE)  # Shared by four.
    _noise(4, min_clients=4, sensitivity=least)
    with self.assertRaisesRegex(privacy.BudgetOutOfRange, "smaller"):
      _noise(4, min_clients=4, sensitivity=0.999 * least)
    _noise(4, "server", None, 1e-9)  # There are no shares.

  def test_with_a_server_that_adds_the_noise_any_number_may_answer(self):
    found = _noise(1, trust="server", min_clients=None)
    self.assertAlmostEqual(np.std(found) * _MU, 1, delta=8 / np.sqrt(2 * _NUM_CELLS))
    np.testing.assert_array_equal(found * bounded_sums.STEPS % 1, 0)
