import dataclasses
import math
from unittest import mock

from absl.testing import absltest
from absl.testing import parameterized
import numpy as np

from clustering_basics import randomness
from dp_clustering import ledger as ledger_lib
from dp_clustering import noise as noise_lib
from dp_clustering import point_grid
from dp_clustering import privacy_calculator
from fl_clustering.multiview import model as model_lib
from fl_clustering.multiview import multiview_config
from fl_clustering.multiview import private_fit
from fl_clustering.multiview import server_step
from fl_clustering.multiview import sums as sums_lib
from fl_clustering.points import given_clients
from fl_clustering.points import privacy as privacy_lib
from fl_clustering.points import secure_sums
from tests import nightly

_WIDTHS = (3, 4)
_NORMS = (7.0, 0.7)
_NUM_CLUSTERS = 3


def _views(num_points=1500, seed=0):
  """Returns two views of three clusters; some rows are outside the balls."""
  rng = np.random.default_rng(seed)
  clusters = rng.integers(_NUM_CLUSTERS, size=num_points)
  return [
      norm * (0.8 * np.eye(3, width)[clusters] + 0.2 * rng.standard_normal((num_points, width)))
      for norm, width in zip(_NORMS, _WIDTHS)
  ]


def _split(views, num_clients):
  return {f"site {i}": [view[i::num_clients] for view in views] for i in range(num_clients)}


def _config(epsilon=1.0, rule="equal", num_rounds=3, **privacy):
  return multiview_config.MultiViewConfig(
      _NUM_CLUSTERS, view_weights=rule, n_init=1, num_rounds=num_rounds, tol=0.0,
      standardize=False,
      privacy=privacy_lib.ViewPrivacy(epsilon, 1e-6, _NORMS, **privacy),
  )


def _pooled_totals(points, held):
  """Returns a function that answers queries about points in one place, in NumPy."""

  def totals(self, query, draw_share=None, limits=None):
    del self, draw_share, limits
    rows = np.rint(held.scaling.apply(points))
    groups, values = query.kind.contributions(np, rows, query.arrays)
    answer = np.zeros(query.shape, np.int64)
    np.add.at(answer, groups, np.trunc(values).astype(np.int64))
    return answer

  return totals


class _RecordedNoise(noise_lib.SeededNoise):
  """Seeded noise that remembers what was drawn."""

  def __init__(self, seed):
    super().__init__(seed)
    self.draws = []

  def discrete_gaussian(self, shape, scale):
    self.draws.append((shape, scale))
    return super().discrete_gaussian(shape, scale)


class _Case(parameterized.TestCase):

  def _held(self, clients):
    tables = given_clients.tables_of(clients, has_views=True)
    points, widths = given_clients.points_of(tables, is_private=True)
    privacy = privacy_lib.ViewPrivacy(1.0, 1e-6, _NORMS)
    return widths, privacy_lib.hold(points.by_id, widths, privacy)

  def _fit(self, clients, config=None, noise=None):
    widths, held = self._held(clients)
    noise = noise or noise_lib.SeededNoise(0)
    return private_fit.fit(config or _config(), held, widths, noise)


class PrivateFitTest(_Case):

  @parameterized.parameters("equal", "mvkm")
  def test_equals_pooled_numpy_bit_for_bit_however_points_are_split(self, rule):
    config = _config(rule=rule)
    clients = _split(_views(), 4)
    _, held = self._held(clients)
    points = privacy_lib.in_balls(np.concatenate(_views(), axis=1), _NORMS, _WIDTHS)
    with mock.patch.object(
        secure_sums.FederatedPoints, "totals", _pooled_totals(points, held)
    ):
      pooled = self._fit(clients, config)
    order = np.random.default_rng(1).permutation(1500)
    shuffled = [view[order] for view in _views()]
    nobody = {"nobody": [view[:0] for view in shuffled]}
    for others in (clients, _split(shuffled, 1), {**_split(shuffled, 7), **nobody}):
      found, expected = self._fit(others, config).model.on_grid, pooled.model.on_grid
      np.testing.assert_array_equal(found.centers, expected.centers)
      np.testing.assert_array_equal(found.view_weights, expected.view_weights)

  def test_public_starts_are_by_the_seed_and_weights_by_alpha(self):
    config = dataclasses.replace(_config(rule="mvkm", num_rounds=1), seed=7, alpha=3.0)
    rule = multiview_config.VIEW_WEIGHTS["mvkm"]
    weigh = mock.Mock(wraps=rule.weigh)
    with (
        mock.patch.dict(multiview_config.VIEW_WEIGHTS, mvkm=dataclasses.replace(rule, weigh=weigh)),
        mock.patch.object(private_fit.randomness, "generator", wraps=randomness.generator) as drawn,
    ):
      fit = self._fit(_split(_views(), 4), config)
    self.assertEqual({call.args[2] for call in weigh.call_args_list}, {3.0})
    self.assertEqual(fit.model.on_grid.alpha, 3.0)
    self.assertIn(mock.call(7, "private first centers"), drawn.call_args_list)

  def test_the_noise_is_infinite_where_a_cluster_may_have_no_points(self):
    for num_points, epsilon, is_known in ((30, 0.1, False), (1500, 8.0, True)):
      fit = self._fit(_split(_views(num_points), 4), _config(epsilon))
      self.assertTrue(np.all(np.isfinite(fit.noise.noise_sd) == is_known), fit.noise.noise_sd)

  def test_the_budget_is_spent_and_no_more(self):
    for num_rounds in (1, 6):
      fit = self._fit(_split(_views(), 4), _config(0.7, num_rounds=num_rounds))
      self.assertAlmostEqual(
          fit.ledger.mu_spent, privacy_calculator.gaussian_mu(0.7, 1e-6), places=6
      )
      self.assertEqual(fit.privacy_spent["num_rounds"], len(fit.ledger.releases))
      kernel_rounds = [r for r in fit.ledger.releases if r.name.startswith("kernel")]
      self.assertLen(kernel_rounds, num_rounds)
      self.assertLen(fit.history, num_rounds)
      with self.assertRaises(RuntimeError):
        fit.ledger.record("another release", 0.1, 1.0, 10.0)
      for release in kernel_rounds:
        # The counts weigh half: two views add a half, and the count a quarter.
        self.assertAlmostEqual(release.sensitivity, math.sqrt(0.75))
        self.assertEqual(release.std, release.sensitivity / release.mu)

  @parameterized.parameters(
      ("server", None, 1, 1.0), ("none", None, 4, 0.5), ("none", 1, 4, 1.0)
  )
  def test_the_noise_in_the_ledger_is_drawn_for_every_release(
      self, trust, min_clients, num_shares, part
  ):
    noise = _RecordedNoise(0)
    config = _config(trust=trust, min_clients=min_clients)
    fit = self._fit(_split(_views(), 4), config, noise)
    draws = noise.draws[-3 * 3 * num_shares :]
    for release in fit.ledger.releases[-3:]:
      for _ in range(num_shares):
        (sums, excesses, counts), draws = draws[:3], draws[3:]
        self.assertEqual([shape for shape, _ in (sums, excesses, counts)], [(3, 7), (3, 2), (3, 1)])
        np.testing.assert_allclose(
            [scale for _, scale in (sums, excesses, counts)],
            part * point_grid.CONTRIBUTION_STEPS * release.std * np.array([1, 1, 2]),
        )
    np.testing.assert_allclose(
        fit.noise.count_sd, 2 * part * math.sqrt(num_shares) * release.std
    )

  @parameterized.parameters(("none", 1, 2.0), ("none", 4, 1.0), ("server", None, 1.0))
  def test_moves_are_shrunk_by_the_noise_of_all_shares(self, trust, min_clients, factor):
    with mock.patch.object(private_fit, "next_model", wraps=private_fit.next_model) as next_model:
      fit = self._fit(_split(_views(), 4), _config(trust=trust, min_clients=min_clients))
    _, _, std, *_, noise_factor, _ = next_model.call_args.args
    self.assertAlmostEqual(std, fit.ledger.releases[-1].std)
    self.assertAlmostEqual(noise_factor, factor)

  # Seeded: with 30, the ratios are 1.08 and 0.99.
  def test_whole_fits_vary_by_the_noise_that_they_state(self):
    clients, fits = _split(_views(), 3), []
    config = _config(epsilon=8.0)
    for seed in range(nightly.either(30, 60)):
      fits.append(self._fit(clients, config, noise_lib.SeededNoise(seed)).noise)
    centers = np.array([fit.centers for fit in fits])
    # A cluster has another number in each.
    order = np.linalg.norm(centers[:, :, np.newaxis] - centers[0], axis=3).argmin(axis=1)
    centers = np.take_along_axis(centers, order[:, :, np.newaxis], axis=1)
    sd = np.take_along_axis(np.array([fit.noise_sd for fit in fits]), order[:, :, np.newaxis], 1)
    for place in sums_lib.columns(_WIDTHS):
      ratio = math.sqrt(centers[..., place].var(axis=0).mean() / (sd[..., place] ** 2).mean())
      self.assertBetween(ratio, 0.8, 1.2)


class HeldTest(_Case):

  def test_what_the_clients_hold_is_in_the_balls_and_on_the_grid(self):
    clients = _split(_views(), 4)
    _, held = self._held(clients)
    raw = np.concatenate(_views(), axis=1)
    points = held.scaling.apply(privacy_lib.in_balls(raw, _NORMS, _WIDTHS))
    steps = point_grid.POINT_STEPS / math.sqrt(2)
    for place in sums_lib.columns(_WIDTHS):
      norms = np.linalg.norm(points[:, place], axis=1)
      self.assertAlmostEqual(norms.max() / steps, 1.0)
    inside = np.linalg.norm(raw[:, :3], axis=1) < 6.9
    np.testing.assert_allclose(points[inside, :3], raw[inside, :3] / 7 * steps)
    scaled = model_lib.norm_scaling(_NORMS, _WIDTHS).apply(raw)
    np.testing.assert_allclose(points[inside, :3], scaled[inside, :3])
    # Bandwidths are one over the square of the norm.
    np.testing.assert_allclose(self._fit(clients).model.on_grid.rates, [steps**-2] * 2)


class NextModelTest(parameterized.TestCase):

  def _next(self, residual_sums, kernel_weights, std, weigh=None, noise_factor=1.0):
    model = server_step.MultiViewModel(
        np.zeros((2, 7)), np.full(2, 0.5), 2.0, np.array([1e-10, 4e-10]), _WIDTHS
    )
    sums = server_step.KernelStatistics(
        np.asarray(residual_sums, float), np.asarray(kernel_weights, float), np.full(2, 100.0)
    )
    after, self.noise_sd = private_fit.next_model(
        model, sums, std, weigh or (lambda costs: np.full(2, 0.5)), noise_factor,
        np.array([[7e3] * 7, [1.0] * 7]),
    )
    return after

  def test_moves_like_noise_are_shrunk_to_nothing(self):
    sums = np.full((2, 7), 10.0)
    for std, noise_factor in ((11.0, 1.0), (5.5, 2.0)):
      after = self._next(sums, np.full((2, 2), 100.0), std, noise_factor=noise_factor)
      np.testing.assert_array_equal(after.centers, np.zeros((2, 7)))
    after = self._next(sums, np.full((2, 2), 100.0), 10 / math.sqrt(2))
    np.testing.assert_allclose(after.centers[0], [5e3] * 3 + [2.5e3] * 4, rtol=1e-3)
    # Half of the move is kept, and half of what was there: of noise, the root of their squares.
    noise = np.array([1e5 / math.sqrt(2) / 10] * 3 + [5e4 / math.sqrt(2) / 10] * 4)
    # Where nothing was there, all of the move is noise: twice as much, squared, as on average.
    np.testing.assert_allclose(self.noise_sd[1], noise / math.sqrt(2), rtol=1e-3)
    # But no move is that is far larger than noise: the 95% quantile, of tables of chi squared.
    self._next(100 * sums, np.full((2, 2), 100.0), 10 / math.sqrt(2))
    of_views = [7.815 / 3] * 3 + [9.488 / 4] * 4
    np.testing.assert_allclose(self.noise_sd[1], noise * np.sqrt(of_views), rtol=1e-3)

  # Of 20,000 centers: a ratio is right to a hundredth.
  @parameterized.product(before=(0.1, 1.0, 5.0), moved=(0.0, 5.0), width=(1, 3))
  def test_the_noise_after_three_rounds_is_as_large_as_stated(self, before, moved, width):
    rng, shape = np.random.default_rng(0), (20_000, width)
    model = server_step.MultiViewModel(
        1e4 * (moved + before * rng.standard_normal(shape)), np.ones(1), 2.0, np.array([1e-12]),
        (width,),
    )
    noise_sd = np.full(shape, 1e4 * before)
    weights = np.full((len(noise_sd), 1), 100.0)
    for _ in range(3):
      # The means are zero.  Residuals are sums of 100, in units of the bandwidth, which is 1e6.
      residuals = rng.standard_normal(shape) - 100 * model.centers / 1e6
      sums = server_step.KernelStatistics(residuals, weights, np.ones(1))
      model, noise_sd = private_fit.next_model(
          model, sums, 1.0, lambda costs: np.ones(1), 1.0, noise_sd
      )
    ratio = math.sqrt((model.centers**2).mean() / (noise_sd**2).mean())
    self.assertBetween(ratio, 0.9, 1.15)

  def test_a_center_with_hardly_any_points_stays(self):
    after = self._next(np.full((2, 7), 1e3), [[100, 1.9], [0.5, -3.0]], 1.0)
    self.assertTrue(np.all(after.centers[0, :3] > 0))
    np.testing.assert_array_equal(after.centers[0, 3:], np.zeros(4))
    np.testing.assert_array_equal(after.centers[1], np.zeros(7))

  def test_centers_stay_in_the_ball_and_costs_are_never_negative(self):
    costs_seen = []

    def weigh(costs):
      costs_seen.append(costs)
      return np.full(2, 0.5)

    after = self._next(np.full((2, 7), 1e9), [[10, 300], [10, 300]], 1.0, weigh)
    self.assertLess(np.linalg.norm(after.centers, axis=1).max(), point_grid.POINT_STEPS + 3)
    np.testing.assert_array_equal(costs_seen, [[180, 0]])


class NoisyStatisticsTest(absltest.TestCase):

  def test_a_budget_that_is_spent_stops_the_round_before_anyone_is_asked(self):
    ledger = ledger_lib.Ledger(1.0, 1e-6, noise_lib.SeededNoise(0))
    model = server_step.MultiViewModel(np.zeros((2, 7)), np.full(2, 0.5), 2.0, np.ones(2), _WIDTHS)
    ask = mock.Mock()
    with self.assertRaises(ledger_lib.PrivacyBudgetExceeded):
      private_fit.noisy_statistics(ask, ledger, model, 5.0, "round")
    ask.assert_not_called()
