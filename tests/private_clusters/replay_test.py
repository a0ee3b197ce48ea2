"""Replays whole runs with the answers of another one: whose messages depend on a client's data?"""

import dataclasses
import functools
import math
import unittest

from absl.testing import absltest
from absl.testing import parameterized
import numpy as np

from bench import audited_clusters
from bench import watched_clusters
from fl_clustering import runtime
from fl_clustering.engine.tff import client_messages
from fl_clustering.private_clusters import releases as releases_lib
from tests import nightly

_SETTINGS = watched_clusters.SETTINGS


def setUpModule():
  unittest.addModuleCleanup(runtime.LocalRuntime().close)


# By day, beside a mixed one.
_FEW_CLIENTS = ("canary", "NaN", "no examples")


def _clients():
  mixed = {
      f"mixed {seed}": functools.partial(audited_clusters.mixed, seed)
      for seed in range(nightly.either(1, 100))
  }
  names = nightly.either(_FEW_CLIENTS, tuple(audited_clusters.CLIENTS))
  return {**{name: audited_clusters.CLIENTS[name] for name in names}, **mixed}


class ReplayTest(parameterized.TestCase):

  @parameterized.parameters(
      ("server's noise", 17), ("clients' shares, a quarter left out", 17), ("one cluster", 6)
  )
  def test_no_other_message_depends_on_a_client_and_its_own_costs_what_the_ledger_says(
      self, name, num_releases
  ):
    # By day, the clients' shares show the same: they come on top of the same messages.
    nightly.skip_by_day(self, not name.startswith("clients"))
    case = dataclasses.replace(audited_clusters.CASES[name], seed=1)
    run = watched_clusters.build_run(self.create_tempdir().full_path, case.settings)
    found = case.replayed(run, _clients())
    self.assertEqual(found.dependent, ())
    self.assertLessEqual(found.cost, 1, found.costly)
    self.assertGreater(found.cost, 1 - 1e-5)  # A client that pays less would show nothing.
    self.assertEqual(found.num_releases, num_releases)  # The mean, k-means, norms, rounds, report.

  def test_a_watched_run_is_a_run(self):
    run = watched_clusters.build_run(self.create_tempdir().full_path)
    watch = watched_clusters.watched(run, watched_clusters.Watch(_SETTINGS, 1))
    books = releases_lib.Releases(_SETTINGS.epsilon, _SETTINGS.delta, 1)
    plain = run.with_releases(books)
    *_, (_, public) = plain.states()
    report = plain.report(public)
    self.assertEqual(watch.ledger.releases, books.ledger.releases)
    noise = np.concatenate([
        ((answer.noisy - answer.others - answer.own) / answer.stds).ravel()
        for answer in watch.answers
    ])
    # As large as stated, within four standard errors of its variance.
    self.assertAlmostEqual(np.mean(noise**2), 1, delta=4 * math.sqrt(2 / len(noise)))
    counts = 2 * watch.answers[-1].noisy[1::2] / client_messages.STEPS
    np.testing.assert_array_equal(counts, report.counts[:-1])


if __name__ == "__main__":
  absltest.main()
