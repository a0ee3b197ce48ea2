import functools

from absl.testing import absltest
from absl.testing import parameterized
import numpy as np
import tensorflow_federated as tff

from fl_clustering.three_phase import config as config_lib
from tests import local_runtime

_LENGTH = 200_000

setUpModule = local_runtime.use


@functools.cache
def _process(length, settings):
  """Returns the process of the `dp` aggregator, which takes long to build."""
  config = config_lib.ThreePhaseConfig(aggregator="dp", **dict(settings))
  factory = config.build_aggregator().build(config.clients_per_round or config.num_clients)
  # Without weights: all clients count alike.
  assert isinstance(factory, tff.aggregators.UnweightedAggregationFactory)
  return factory.create(tff.TensorType(np.float32, [length]))


def _aggregate(updates, **settings):
  """Returns what the `dp` aggregator makes of one round's updates."""
  process = _process(len(updates[0]), tuple(settings.items()))
  return process.next(process.initialize(), list(updates)).result


class PrivateAggregatorTest(parameterized.TestCase):
  """The sensitivity and the noise that `Dp.guarantee` accounts for."""

  def test_the_sum_is_divided_by_the_number_that_take_part(self):
    updates = np.random.default_rng(0).normal(size=(3, 50)).astype(np.float32)
    clipped = 0.5 * updates / np.linalg.norm(updates, axis=1, keepdims=True)
    for settings in ({"num_clients": 3}, {"num_clients": 9, "clients_per_round": 3}):
      result = _aggregate(updates, clipping_norm=0.5, noise_multiplier=1e-3, **settings)
      # Noise of standard deviation 0.5e-3 / 3; six of them.
      np.testing.assert_allclose(result, clipped.sum(axis=0) / 3, atol=1e-3)

  @parameterized.parameters(0.1, 10.0, 1e4)
  def test_a_client_moves_the_sum_by_the_clipping_norm_at_most(self, scale):
    rng = np.random.default_rng(1)
    updates = rng.normal(size=(4, 50)).astype(np.float32)
    updates[2] *= scale
    without = updates.copy()
    without[2] = 0
    settings = {"num_clients": 4, "clipping_norm": 2.0, "noise_multiplier": 1e-3}
    moved = 4 * (_aggregate(updates, **settings) - _aggregate(without, **settings))
    expected = min(2.0, np.linalg.norm(updates[2]))
    # The noise of both, 2e-3 in each of 50 places, has norm 0.02 and hardly ever 0.03.
    self.assertAlmostEqual(np.linalg.norm(moved), expected, delta=0.03)

  @parameterized.parameters(np.nan, np.inf, -np.inf)
  def test_an_update_that_is_not_finite_counts_as_zero(self, value):
    updates = np.ones((4, 50), np.float32)
    without = updates.copy()
    without[1] = 0
    updates[1, 7] = value
    settings = {"num_clients": 4, "clipping_norm": 2.0, "noise_multiplier": 1e-3}
    moved = 4 * (_aggregate(updates, **settings) - _aggregate(without, **settings))
    self.assertLess(np.linalg.norm(moved), 0.03)

  # Squares of these norms overflow or vanish in float32.
  @parameterized.parameters((1e20, 2.0), (3e38, 2.0), (1e-8, 1e-9), (1e30, 1e-9))
  def test_updates_of_any_norm_are_clipped(self, size, clipping_norm):
    updates = np.zeros((2, 50), np.float32)
    updates[0, 3] = size
    result = _aggregate(updates, num_clients=2, clipping_norm=clipping_norm, noise_multiplier=1e-3)
    self.assertAlmostEqual(2 * np.linalg.norm(result) / clipping_norm, 1, delta=0.05)

  def test_clipping_norms_that_float32_cannot_square_are_refused(self):
    for clipping_norm in (1e-10, 1e10):
      with self.assertRaisesRegex(ValueError, "`clipping_norm`"):
        config_lib.ThreePhaseConfig(aggregator="dp", clipping_norm=clipping_norm)

  def test_noise_on_the_sum(self):
    zeros = np.zeros((4, _LENGTH), np.float32)
    settings = {"num_clients": 4, "clipping_norm": 0.5, "noise_multiplier": 3.0}
    noise = 4 * _aggregate(zeros, **settings)
    # Five relative standard errors 1 / sqrt(2 n), 0.8%: once in 10^6 runs by chance.
    self.assertAlmostEqual(np.std(noise) / 1.5, 1, delta=5 / np.sqrt(2 * _LENGTH))
    self.assertGreater(np.abs(noise - 4 * _aggregate(zeros, **settings)).max(), 1)


if __name__ == "__main__":
  absltest.main()
