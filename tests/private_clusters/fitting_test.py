"""Tests of whole runs on a few clients of two kinds."""

import dataclasses
import math
import os
from unittest import mock

from absl.testing import parameterized
import numpy as np

from clustering_basics import agreement
from fl_clustering.engine import bounded_sums
from fl_clustering.engine import engines
from fl_clustering.engine import sketch
from fl_clustering.engine.jax import bounded_sums as of_jax
from fl_clustering.private_clusters import clients as clients_lib
from fl_clustering.private_clusters import fitting
from fl_clustering.private_clusters import grouping
from fl_clustering.private_clusters import plan
from fl_clustering.private_clusters import releases as releases_lib
from fl_clustering.private_clusters import slot_sums
from fl_clustering.private_clusters import training
from fl_clustering.tasks import examples as examples_lib
from fl_clustering.tasks import federated_task
from fl_clustering.tasks import models
from tests import drawn_seeds
from tests import nightly

_NUM_CLIENTS = 24
_KINDS = [place % 2 for place in range(_NUM_CLIENTS)]
_MODEL = models.build("logistic", (4,), 2, "float32")


def _clients(num_without_test=0):
  """Returns clients of two kinds, which name two classes the other way round.

  Args:
    num_without_test: How many, the first ones, have no examples for testing.
  """
  rng = np.random.default_rng(3)
  found = []
  for place, kind in enumerate(_KINDS):
    x = rng.normal(size=(40, 4)).astype(np.float32)
    y = (x[:, 0] + x[:, 1] > 0) ^ kind
    all_rows = examples_lib.Examples(x, y.astype(int))
    last = 30 if place < num_without_test else None
    found.append(federated_task.ClientData(
        f"{place:02d}", all_rows.take(slice(30)), all_rows.take(slice(30, last))
    ))
  return federated_task.PooledClients.of(found)


def _best(vectors):
  """Returns which of two linear models names most of each client's training examples rightly."""
  kinds = []
  for client in _clients():
    logits = client.train.features @ vectors[:, :8].reshape(2, 4, 2) + vectors[:, np.newaxis, 8:]
    kinds.append(int((logits.argmax(axis=2) == client.train.labels).mean(axis=1).argmax()))
  return np.array(kinds)


class ReportTest(parameterized.TestCase):

  @parameterized.parameters((0.75, 100, 3.0), (0.4, 60, 2.0))
  def test_stated_noise_is_that_of_many_draws(self, accuracy, count, std):
    exact = count * np.array([[accuracy - 0.5, 0.5], [accuracy - 0.7, 0.5]])
    stated = fitting.Report.of_sums(exact, std)
    np.testing.assert_allclose(stated.counts, [count, count, 2 * count])
    np.testing.assert_allclose(stated.accuracies, accuracy - np.array([0, 0.2, 0.1]))
    rng = np.random.default_rng(0)
    drawn = [
        fitting.Report.of_sums(exact + rng.normal(0, std, (2, 2)), std) for _ in range(5000)
    ]
    # The standard error is 1%; the delta method leaves out terms of higher order.
    for values, std_stated in (
        ([one.counts for one in drawn], stated.count_stds),
        ([one.accuracies for one in drawn], stated.accuracy_stds),
    ):
      np.testing.assert_allclose(np.std(values, axis=0), std_stated, rtol=0.05)

  def test_a_count_that_is_no_divisor_gives_no_accuracy(self):
    report = fitting.Report.of_sums(np.array([[0.1, 0.2], [-0.2, -3.0], [2.0, 4.0]]), 1.0)
    np.testing.assert_array_equal(np.isnan(report.accuracies), [True, True, False, False])
    np.testing.assert_array_equal(np.isnan(report.accuracy_stds), [True, True, False, False])


class FittingTest(parameterized.TestCase):

  @parameterized.product(engine=list(engines.ENGINES), clients_per_round=[None, _NUM_CLIENTS // 2])
  def test_finds_the_kinds_and_reports_those_with_test_rows_and_spends_the_budget(
      self, engine, clients_per_round
  ):
    # By day, `engine/bounded_sums_test` compares TFF's sums with JAX's.
    nightly.skip_by_day(self, engine == engines.TFF)
    settings = plan.PrivateClusters(2, 1e4, 1e-5, rounds=6, clients_per_round=clients_per_round)
    releases = releases_lib.Releases(1e4, 1e-5, 1)
    taken_part, cache = np.zeros(_NUM_CLIENTS, int), self.create_tempdir().full_path
    self.enter_context(mock.patch.dict(os.environ, {"XDG_CACHE_HOME": cache}))
    with clients_lib.opened(engine, settings, _MODEL, _clients(_NUM_CLIENTS // 2)) as sums:
      with mock.patch.object(sums, "total", wraps=sums.total) as total:
        run = fitting.Run(settings, sums, 0, releases)
        *_, (state, public) = run.states()
        report = run.report(public)
      scores = sums.scores(state.vectors, np.arange(_NUM_CLIENTS // 2, _NUM_CLIENTS), 1)

    self.assertEmpty(os.listdir(cache))  # Compiled programs would tell how many rows there are.
    np.testing.assert_allclose(report.counts, [6, 6, 12], atol=0.5)
    self.assertGreater(report.accuracies.min(), 0.85)
    self.assertAlmostEqual(report.accuracies[2], report.accuracies[:2].mean(), delta=0.05)
    # The public starts are the same in both engines, and so is the noise: so are the names.
    kinds = _best(state.vectors)
    self.assertEqual(agreement.adjusted_rand_index(kinds, _KINDS), 1.0)
    np.testing.assert_array_equal(scores.slots, kinds[_NUM_CLIENTS // 2:])
    ledger = releases.ledger
    self.assertBetween(ledger.mu_spent / ledger.mu, 1 - 1e-4, 1)
    names = [release.name for release in ledger.releases]
    self.assertEqual(names[0], "mean of sketches")
    self.assertEqual(names[-8:], ["histogram of norms", *(f"round {i + 1}" for i in range(6)),
                                  "report"])
    self.assertFalse(ledger.is_private)  # The noise is seeded.
    for call in total.call_args_list:
      if call.args[0] is bounded_sums.ROUND:
        taken_part[call.args[2]] += 1
    own_rounds = 3 if clients_per_round else 6
    self.assertEqual(taken_part.tolist(), [own_rounds] * _NUM_CLIENTS)
    # So each pays for its own rounds: the ledger's squares add up to the budget's for them alone.
    of_rounds = [release.mu for release in ledger.releases if release.name.startswith("round")]
    share = own_rounds * of_rounds[0] ** 2 / ledger.mu**2
    self.assertEqual((len(set(of_rounds)), round(share, 6)), (1, 0.75))

  def test_what_is_public_is_drawn_by_the_seed_and_the_quantile_is_the_settings(self):
    settings = plan.PrivateClusters(
        2, 8.0, 1e-5, rounds=6, clients_per_round=12, target_unclipped_quantile=0.8
    )
    model = models.build("mlp", (4,), 2, "float32", hidden_units="3")
    with (
        clients_lib.opened(engines.JAX, settings, model, _clients()) as sums,
        mock.patch.object(
            slot_sums.Door, "ask", lambda door, name, question, *args, **kwargs: np.zeros(
                sums.size(question)
            ),
        ),
        mock.patch.object(training, "first_clip_norm", return_value=1.0) as first,
        mock.patch.object(
            training.State, "next", autospec=True, side_effect=training.State.next
        ) as following,
        drawn_seeds.recorded() as seeds,
    ):
      run = fitting.Run(settings, sums, 7, releases_lib.Releases(8.0, 1e-5, 7))
      found = list(run.states())
    self.assertLen(found, 7)
    np.testing.assert_array_equal(found[0][0].sizes, [6, 6])  # Of the 12 clients of a round.
    self.assertEqual([public.is_locked for _, public in found], [True] * 2 + [False] * 5)
    self.assertEqual(seeds, {7})
    self.assertEqual(first.call_args.args[1], 0.8)
    self.assertEqual({call.args[2:5] for call in following.call_args_list}, {(12, 6, 0.8)})

  def test_only_a_model_of_one_layer_starts_from_zero(self):
    settings = plan.PrivateClusters(2, 8.0, 1e-5, rounds=6)
    # Two arrays of somebody's own model may be two layers without biases.
    for model, is_zero in ((_MODEL, True), (dataclasses.replace(_MODEL, layers=()), False)):
      sums = mock.Mock(model=model, num_clients=_NUM_CLIENTS)
      run = fitting.Run(settings, sums, 7, releases_lib.Releases(8.0, 1e-5, 7))
      self.assertEqual(not run._first_model().any(), is_zero)

  def test_the_answer_to_a_round_is_taken_apart(self):
    settings = plan.PrivateClusters(2, 8.0, 1e-5, rounds=1)
    answers = {bounded_sums.ROUND: np.arange(1.0, 24.0)}
    with (
        clients_lib.opened(engines.JAX, settings, _MODEL, _clients()) as sums,
        mock.patch.object(
            slot_sums.Door, "ask", lambda door, name, question, *args, **kwargs: answers.get(
                question, np.zeros(sums.size(question))
            ),
        ),
        mock.patch.object(
            training.State, "next", autospec=True, side_effect=training.State.next
        ) as following,
    ):
      list(fitting.Run(settings, sums, 0, releases_lib.Releases(8.0, 1e-5, 1)).states())
    found, slots = following.call_args.args[1], np.arange(1.0, 23.0).reshape(2, 11)
    np.testing.assert_array_equal(found.updates, slots[:, :10])
    np.testing.assert_allclose(found.counts, slots[:, 10] / bounded_sums.COUNT_WEIGHT)
    self.assertAlmostEqual(found.bits, 23 / bounded_sums.BIT_WEIGHT)

  def test_clients_compute_as_the_settings_say(self):
    settings = plan.PrivateClusters(3, 8.0, 1e-5, local_steps=7, learning_rate=0.25)
    clients = _clients()
    with (
        mock.patch.object(of_jax, "BoundedSums") as build,
        clients_lib.opened(engines.JAX, settings, _MODEL, clients),
    ):
      build.assert_called_once_with(_MODEL, 3, 7, 0.25, clients.train, clients.test)

  def test_sketches_are_centered_by_the_mean_that_is_released(self):
    settings = plan.PrivateClusters(2, 8.0, 1e-5)
    sums = mock.Mock(**{"num_clients": 5, "centered_sketches.side_effect": KeyError("stop")})
    door = mock.Mock(**{"ask.return_value": np.full(sketch.SIZE, 10.0)})
    with self.assertRaisesRegex(KeyError, "stop"):
      grouping.private_centers(settings, sums, door, mock.Mock(), 0)
    np.testing.assert_array_equal(sums.centered_sketches.call_args.args[0], [2] * sketch.SIZE)

  def test_without_noise_the_clip_norm_stays(self):
    settings = plan.PrivateClusters(2, math.inf, 1e-5, rounds=3)
    with clients_lib.opened(engines.JAX, settings, _MODEL, _clients()) as sums:
      run = fitting.Run(settings, sums, 0, releases_lib.Releases(math.inf, 1e-5, 1))
      states = [state for state, _ in run.states()]
    self.assertTrue(all(state.is_exact for state in states))
    self.assertLen({state.clip_norm for state in states}, 1)

  def test_stated_noise_is_that_of_all_shares(self):
    clients = _clients()
    sizes = {bounded_sums.SKETCH: 256, bounded_sums.NORM: 35, bounded_sums.ROUND: 23,
             bounded_sums.REPORT: 4}
    self.enter_context(mock.patch.object(
        slot_sums.Door, "ask",
        lambda door, name, question, *args, **kwargs: np.zeros(sizes[question]),
    ))

    def stated(**changes):
      settings = plan.PrivateClusters(2, 8.0, 1e-5, rounds=6, **changes)
      with clients_lib.opened(engines.JAX, settings, _MODEL, clients) as sums:
        run = fitting.Run(settings, sums, 0, releases_lib.Releases(8.0, 1e-5, 1))
        next_state = mock.create_autospec(training.State.next, side_effect=training.State.next)
        with mock.patch.object(training.State, "next", next_state):
          *_, (_, public) = run.states()
        return next_state.call_args.args[1].count_std, *run.report(public).count_stds

    expected = stated()
    budget = plan.PrivateClusters(2, 8.0, 1e-5, rounds=6).budget(_NUM_CLIENTS)
    of_report = 2 * bounded_sums.REPORT.sensitivity / budget.report
    np.testing.assert_allclose(expected, [
        bounded_sums.ROUND.sensitivity / budget.round_ / bounded_sums.COUNT_WEIGHT,
        of_report, of_report, math.sqrt(2) * of_report,
    ])
    self.assertEqual(stated(trust="none"), expected)
    self.assertEqual(stated(trust="none", min_clients=24), expected)
    found = np.array(stated(trust="none", min_clients=6))
    np.testing.assert_allclose(found / expected, math.sqrt(24 / 6))
    # A client pays for half of the rounds, in which half of the clients add a share.
    found = np.array(stated(trust="none", min_clients=6, clients_per_round=12))
    np.testing.assert_allclose(found / expected, [math.sqrt(12 / 6 / 2), *[math.sqrt(24 / 6)] * 3])
