"""Replays whole runs with the answers of another one: what depends on a client's data?"""

import dataclasses
import functools
import math

from absl.testing import parameterized
import numpy as np

from bench import audited_clusters
from bench import watched_clusters
from fl_clustering.engine import bounded_sums
from fl_clustering.engine import engines
from fl_clustering.private_clusters import fitting
from fl_clustering.private_clusters import releases as releases_lib
from tests import nightly

_ENGINES = tuple(filter(engines.is_installed, engines.ENGINES))
# The mean, k-means, norms, rounds, report.
_NUM_RELEASES = {
    "server's noise": 17,
    "clients' shares, a quarter left out": 17,
    "one cluster": 6,
    "rounds over half of the clients": 17,
}
# By day, beside a mixed one.
_FEW_CLIENTS = ("canary", "NaN", "no examples")
# By day, of JAX; the others show the same: shares come on top of the same messages.
_FEW_CASES = ("one cluster", "rounds over half of the clients")


def setUpModule():
  if nightly.either(False, engines.TFF in _ENGINES):
    from tests import local_runtime

    local_runtime.use()


def _clients(engine):
  # Fewer of TFF, which takes nine times as long; its `client_messages_test` has thousands.
  num_mixed = nightly.either(1, 100 if engine == engines.JAX else 10)
  mixed = {
      f"mixed {seed}": functools.partial(audited_clusters.mixed, seed) for seed in range(num_mixed)
  }
  names = nightly.either(_FEW_CLIENTS, tuple(audited_clusters.CLIENTS))
  return {**{name: audited_clusters.CLIENTS[name] for name in names}, **mixed}


class ReplayTest(parameterized.TestCase):

  def _build(self, engine, settings):
    folder = self.create_tempdir().full_path
    return functools.partial(watched_clusters.build_sums, engine, folder, settings)

  @parameterized.product(engine=_ENGINES, name=tuple(audited_clusters.CASES))
  def test_nothing_else_depends_on_a_client_and_its_messages_cost_what_the_ledger_says(
      self, engine, name
  ):
    # By day, `engine/tff/client_messages_test` bounds TFF's messages, whatever a client holds.
    nightly.skip_by_day(self, engine == engines.TFF or name not in _FEW_CASES)
    case = dataclasses.replace(audited_clusters.CASES[name], seed=1)
    found = case.replayed(self._build(engine, case.settings), _clients(engine))
    self.assertEqual(found.dependent, ())
    self.assertLessEqual(found.cost, 1, found.costly)
    self.assertGreater(found.cost, 1 - 1e-5)  # A client that pays less would show nothing.
    self.assertEqual(found.num_releases, _NUM_RELEASES[name])

  @parameterized.product(engine=_ENGINES)
  def test_a_watched_run_is_a_run_in_which_the_server_gets_totals_alone(self, engine):
    nightly.skip_by_day(self, engine == engines.TFF)  # The watch asks either engine the same.
    settings = audited_clusters.PLANTED.settings
    sums = self._build(engine, settings)()
    watch = watched_clusters.Watch(settings, 1).play(sums)
    books = releases_lib.Releases(settings.epsilon, settings.delta, 1)
    plain = fitting.Run(settings, sums, 0, books)
    *_, (_, public) = plain.states()
    report = plain.report(public)
    self.assertEqual(watch.ledger.releases, books.ledger.releases)
    self.assertEqual(watch.num_unasked, 0)
    noise = np.concatenate([
        ((answer.noisy - answer.others - answer.own) / answer.stds).ravel()
        for answer in watch.answers
    ])
    # As large as stated, within four standard errors of its variance.
    self.assertAlmostEqual(np.mean(noise**2), 1, delta=4 * math.sqrt(2 / len(noise)))
    counts = 2 * watch.answers[-1].noisy[1::2] / bounded_sums.STEPS
    np.testing.assert_array_equal(counts, report.counts[:-1])
