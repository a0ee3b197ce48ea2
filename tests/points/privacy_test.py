import math
from unittest import mock

from absl.testing import parameterized
import numpy as np

from dp_clustering import cluster_statistics
from dp_clustering import clustering_params
from dp_clustering import noise
from dp_clustering import sum_query
from fl_clustering.points import privacy

_POINT = {"epsilon": 1.0, "delta": 1e-6, "radius": 2.0}


class _OnlyNoise:
  """`FederatedPoints` of clients without points."""

  def __init__(self, num_clients):
    self._num_clients = num_clients

  def totals(self, query, draw_share=None, limits=None):
    if draw_share is None:
      return np.zeros(query.shape, np.int64)
    return sum(draw_share() for _ in range(self._num_clients))


def _query(num_groups=300, dim=4):
  return sum_query.SumQuery(
      cluster_statistics.ClippedResiduals(False),
      {"centers": np.zeros((num_groups, dim)), "clip_radii": np.ones((num_groups, 1))},
  )


class SettingsTest(parameterized.TestCase):

  @parameterized.parameters(
      ("epsilon", 0.0), ("epsilon", 1e-9), ("epsilon", 1e101), ("epsilon", math.inf),
      ("delta", 0.0), ("delta", 1.0), ("radius", -1.0), ("radius", 1e-300),
      ("trust", "clients"), ("min_clients", 0), ("min_clients", 2),
  )
  def test_bad_settings(self, name, value):
    with self.assertRaisesRegex(ValueError, f"`{name}`"):
      privacy.PointPrivacy(**{**_POINT, name: value})
    with self.assertRaisesRegex(ValueError, f"`{name}`"):
      privacy.ClientPrivacy(**{**_POINT, "max_points": 3, name: value})

  def test_ends_of_settings(self):
    for radius in (1e-100, 1e100):
      self.assertEqual(privacy.PointPrivacy(1.0, 1e-6, radius).radius, radius)
    with self.assertRaisesRegex(ValueError, "`min_clients`"):
      privacy.PointPrivacy(**_POINT, trust="none", min_clients=0)

  @parameterized.parameters(np.float16(300), np.float32(1e30), np.longdouble(2), np.int8(100))
  def test_narrow_numbers_are_widened(self, radius):
    settings = privacy.PointPrivacy(np.float16(1.0), np.float32(1e-6), radius)
    for value in (settings.epsilon, settings.delta, settings.radius):
      self.assertIs(type(value), float)
    # The square of the radius would overflow, and every row would be inside.
    rows = np.array([[1e200, 0.0], [math.inf, 1.0]])
    mapped = clustering_params.map_to_ball(rows, settings.radius)
    np.testing.assert_allclose(np.linalg.norm(mapped, axis=1), float(radius))

  @parameterized.parameters(0, 2**30 + 1, 10**400)
  def test_bad_number_of_points(self, max_points):
    privacy.ClientPrivacy(**_POINT, max_points=2**30)
    with self.assertRaisesRegex(ValueError, "`max_points`"):
      privacy.ClientPrivacy(**_POINT, max_points=max_points)
    if max_points == 0:  # It has no maximum.
      privacy.PointPrivacy(**_POINT, public_num_points=1)
      with self.assertRaisesRegex(ValueError, "`public_num_points`"):
        privacy.PointPrivacy(**_POINT, public_num_points=0)

  def test_neighbours_differ_in_a_point_or_in_a_client(self):
    for settings, relation in (
        (privacy.PointPrivacy(**_POINT), "add_or_remove_one"),
        (privacy.ViewPrivacy(1.0, 1e-6, (1.0,)), "add_or_remove_one"),
        (privacy.ClientPrivacy(**_POINT, max_points=1), "zero_out_one_client"),
    ):
      self.assertEqual(settings.unit_norm, 1)
      stated = privacy.guarantee(settings, mock.MagicMock(), 3)
      self.assertEqual(stated["neighboring_relation"], relation)

  def test_a_public_number_of_points_is_planned_with_and_others_are_not_known(self):
    def planned(settings):
      with mock.patch.object(privacy.refine, "planning_number", return_value=0.0) as number:
        privacy.planning_warnings(settings, 3, 2, num_clients=10)
      return [call.args[3::2] for call in number.call_args_list]

    self.assertEqual(planned(privacy.PointPrivacy(**_POINT, public_num_points=50)), [(50, 50)])
    self.assertEqual(planned(privacy.ClientPrivacy(**_POINT, max_points=4)), [(40, None)])
    self.assertEmpty(planned(privacy.PointPrivacy(**_POINT)))

  @parameterized.parameters(
      (privacy.PointPrivacy(**_POINT), 1, 1),
      (privacy.PointPrivacy(**_POINT, trust="none", min_clients=2), 2, 1),
      (privacy.ViewPrivacy(1.0, 1e-6, (1.0, 2.0)), 1, 0.8),
  )
  def test_rows_are_needed_for_all_noise_and_the_budget_of_the_centers(
      self, settings, growth, share
  ):
    with mock.patch.object(privacy.refine, "least_num_points", return_value=1) as least:
      line = privacy.rows_needed(settings, 3, 7, num_clients=8)
    least.assert_called_once_with(3, settings.mu * math.sqrt(share), 7, growth)
    self.assertIn(f" {privacy.refine.SMALL_NOISE / privacy.refine.LARGE_NOISE:g} of ", line)

  @parameterized.parameters((None, 10, 10**6), (5, 10**6, 10))
  def test_warnings_count_what_is_protected(self, points_per_client, num_clients, num_points):
    def warnings(num_clients, num_points):
      return privacy.budget_warnings(1.0, 1e-3, points_per_client, num_clients, num_points)

    self.assertNotEmpty(warnings(num_clients, num_points))
    self.assertEmpty(warnings(num_points, num_clients))

  def test_more_shares_than_clients(self):
    settings = privacy.PointPrivacy(**_POINT, trust="none", min_clients=4)
    privacy.noisy_totals(settings, _OnlyNoise(4), 4, noise.SeededNoise(0))
    with self.assertRaisesRegex(ValueError, "`min_clients`"):
      privacy.noisy_totals(settings, _OnlyNoise(3), 3, noise.SeededNoise(0))

  def test_how_many_shares_count(self):
    settings = privacy.PointPrivacy(**_POINT, trust="none")
    self.assertEqual(privacy.least_shares(settings, 3), 3)
    settings = privacy.ClientPrivacy(**_POINT, max_points=1, trust="none", min_clients=2)
    self.assertEqual(privacy.least_shares(settings, 3), 2)
    self.assertEqual(privacy.noise_factor(settings, 8), 2)
    settings = privacy.PointPrivacy(**_POINT)
    self.assertIsNone(privacy.least_shares(settings, 3))
    self.assertEqual(privacy.noise_factor(settings, 3), 1)

  def test_shares_that_are_too_small(self):
    settings = privacy.PointPrivacy(**_POINT, trust="none")
    totals = privacy.noisy_totals(settings, _OnlyNoise(10**6), 10**6, noise.SeededNoise(0))
    with self.assertRaisesRegex(ValueError, "`min_clients` must be smaller"):
      totals(1.0, _query(), {"residual_sums": 1000.0, "counts": 1e9})

  # Shares whose sum would overflow, noise that one client cannot share for it is too small, and
  # noise that is too large for anyone to be asked.
  @parameterized.parameters(
      ("none", None, _OnlyNoise(64), 1e6, 2.0**57.1, "larger"),
      ("none", 1, _OnlyNoise(64), 1e6, 2.0**54.1, "larger"),
      ("none", 1, _OnlyNoise(3), 31.0, 1e9, "smaller"),
      ("none", None, None, 1e6, 2.0**57.1, "larger"),
      ("server", None, None, 1e6, 2.0**57.1, "larger"),
  )
  def test_noise_that_can_not_be_drawn(self, trust, min_clients, points, sums, counts, how):
    settings = privacy.PointPrivacy(**_POINT, trust=trust, min_clients=min_clients)
    num_clients = 64 if isinstance(points, _OnlyNoise) and how == "larger" else 3
    totals = privacy.noisy_totals(settings, points, num_clients, noise.SeededNoise(0))
    with self.assertRaisesRegex(ValueError, f"`epsilon` must be {how}"):
      totals(1.0, _query(), {"residual_sums": sums, "counts": counts})

  @parameterized.parameters(
      ("server", None, 1e6, 2.0**57), ("none", 1, 1e6, 2.0**56), ("none", 1, 32.0, 1e6),
      ("none", 4, 64.0, 1e6),
  )
  def test_the_largest_noise_and_the_least_share_can_be_drawn(
      self, trust, min_clients, sums, counts
  ):
    settings = privacy.PointPrivacy(**_POINT, trust=trust, min_clients=min_clients)
    totals = privacy.noisy_totals(settings, _OnlyNoise(4), 4, noise.SeededNoise(0))
    totals(1.0, _query(), {"residual_sums": sums, "counts": counts})


class ViewPrivacyTest(parameterized.TestCase):

  @parameterized.parameters(
      ("epsilon", 0.0), ("epsilon", float("inf")), ("delta", 0.0), ("view_norms", (1.0, -2.0)),
      ("view_norms", (1e-60,)), ("view_norms", ()), ("view_norms", 7.0), ("trust", "me"),
      ("min_clients", 3),
  )
  def test_refuses(self, name, value):
    settings = {"epsilon": 1.0, "delta": 1e-6, "view_norms": (1.0,), name: value}
    with self.assertRaisesRegex((TypeError, ValueError), f"`{name}`"):
      privacy.ViewPrivacy(**settings)

  def test_one_norm_per_view(self):
    settings = privacy.ViewPrivacy(1.0, 1e-6, (1, np.float16(2)))
    self.assertEqual([type(norm) for norm in settings.view_norms], [float, float])
    settings.check_views(2)
    with self.assertRaisesRegex(ValueError, "`view_norms`"):
      settings.check_views(3)

  def test_side_by_side_it_is_one_ball(self):
    settings = privacy.ViewPrivacy(0.5, 1e-7, (1.0, 20.0, 3.0), "none", 4)
    ball = privacy.PointPrivacy(0.5, 1e-7, 3**0.5, "none", 4)
    for name in ("epsilon", "delta", "radius", "trust", "min_clients", "unit_norm",
                 "points_per_client"):
      self.assertEqual(getattr(settings, name), getattr(ball, name), name)


class HoldTest(parameterized.TestCase):

  @parameterized.parameters(
      ({"radius": 2.0}, [[1.2, 1.6, 0, 0], [0, 0, 0.6, 0.8]]),
      ({"radius": 2.0, "max_points": 1}, [[1.2, 1.6, 0, 0]]),
      # In units of the norms; the second view has two columns.
      ({"view_norms": (2.0, 10.0, 0.5)}, [[1, 0.4, 0, 0], [0, 0, 0.06, 1]]),
  )
  def test_rows_become_points_of_the_ball_in_steps(self, settings, expected):
    one = privacy.privacy_of(epsilon=1.0, delta=1e-6, **settings)
    rows = np.array([[3, 4, 0, 0], [0, 0, 0.6, 0.8]])
    held = privacy.hold({"a": rows}, (1, 2, 1), one)
    np.testing.assert_allclose(held.by_id["a"], expected, rtol=1e-12)
    np.testing.assert_array_equal(held.scaling.shift, 0)
    # Of 2^25 to the radius, which is the root of the number of views.
    np.testing.assert_allclose(held.scaling.factor, 2**25 / settings.get("radius", math.sqrt(3)))

  def test_without_privacy_rows_are_what_they_are(self):
    rows = np.array([[3, 4, 0], [0, 0, 1.0]])
    np.testing.assert_array_equal(privacy.hold({"a": rows}, (3,), None).by_id["a"], rows)

  def test_views_have_a_norm_each(self):
    one = privacy.ViewPrivacy(1.0, 1e-6, (2.0, 10.0))
    with self.assertRaisesRegex(ValueError, "`view_norms` must"):
      privacy.hold({"a": np.zeros((1, 3))}, (1, 1, 1), one)


class NoisyTotalsTest(parameterized.TestCase):

  @parameterized.named_parameters(
      ("by the server", {}, 1.0),
      ("by all clients", {"trust": "none"}, 1.0),
      # Five shares, of which two are enough.
      ("by some clients", {"trust": "none", "min_clients": 2}, math.sqrt(5 / 2)),
  )
  def test_the_noise_is_what_was_asked_for(self, options, expected):
    settings = privacy.PointPrivacy(**_POINT, **options)
    totals = privacy.noisy_totals(settings, _OnlyNoise(5), 5, noise.SeededNoise(1))
    parts = _query().split(totals(1.0, _query(), {"residual_sums": 1e6, "counts": 3e6}))
    # Of 1,200 and 300 draws: outside of 12% and 25% with a probability below 1e-8.
    self.assertBetween(parts["residual_sums"].std() / 1e6 / expected, 0.88, 1.12)
    self.assertBetween(parts["counts"].std() / 3e6 / expected, 0.75, 1.25)

  def test_every_client_draws_its_own_share(self):
    settings = privacy.PointPrivacy(**_POINT, trust="none")
    source = noise.SeededNoise(1)
    shares = []

    class _Recorder(_OnlyNoise):

      def totals(self, query, draw_share=None, limits=None):
        shares.extend(draw_share() for _ in range(2))
        return sum(shares)

    totals = privacy.noisy_totals(settings, _Recorder(2), 2, source)
    totals(1.0, _query(), {"residual_sums": 1e6, "counts": 1e6})
    correlation = np.corrcoef(*(share.ravel() for share in shares))[0, 1]
    # Of 1,500 pairs: 0.15 is 5.8 standard deviations.
    self.assertLess(abs(correlation), 0.15)

  @parameterized.parameters("server", "none")
  def test_clients_are_limited_to_mu_times_the_noise(self, trust):
    asked = []

    class _Recorder(_OnlyNoise):

      def totals(self, query, draw_share=None, limits=None):
        asked.append(limits)
        return super().totals(query, draw_share)

    stds = {"residual_sums": 1e6, "counts": 3e6}
    for settings in (
        privacy.ClientPrivacy(**_POINT, max_points=4, trust=trust),
        privacy.PointPrivacy(**_POINT, trust=trust),
    ):
      privacy.noisy_totals(settings, _Recorder(2), 2, noise.SeededNoise(0))(0.5, _query(), stds)
    self.assertEqual(asked, [{"residual_sums": 5e5, "counts": 1.5e6}, None])
