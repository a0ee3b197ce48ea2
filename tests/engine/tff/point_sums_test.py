"""Sums of points through TFF, which have the bits of those in one process of NumPy."""

import functools

from absl.testing import parameterized
import numpy as np
import tensorflow as tf
import tensorflow.experimental.numpy as tnp

from dp_clustering import cluster_statistics
from fl_clustering.engine.tff import point_files
from fl_clustering.kmeans import sum_kinds
from fl_clustering.points import grid_scaling
from fl_clustering.points import secure_sums
from tests import local_runtime
from tests import nightly
from tests.points import sample_queries

_CAPACITY = 8

setUpModule = local_runtime.use


class BothWaysTest(parameterized.TestCase):
  """The contract of `secure_sums.ClientPoints`: the same bits in this process and through TFF.

  Multi-view k-means, whose sums have kernels, computes in NumPy alone.
  """

  def _both(self, parts):
    """Returns clients with these points in this process, and as TFF's."""
    clients = {str(index): part for index, part in enumerate(parts)}
    yield secure_sums.hold(clients)
    yield point_files.write_files(clients, self.create_tempdir().full_path)

  def _check(self, parts, ask):
    in_process, through_tff = map(ask, self._both(parts))
    self.assertEqual(in_process.dtype, np.int64)
    np.testing.assert_array_equal(in_process, through_tff)

  @parameterized.parameters(
      *((name, None) for name in sample_queries.queries() if "kernels" not in name),
      ("excesses", sample_queries.LIMITS),
      ("clipped", {name: sample_queries.LIMITS[name] for name in ("residual_sums", "counts")}),
  )
  def test_every_kind_of_query(self, name, limits):
    query = sample_queries.queries()[name]

    def ask(has_shares, clients):
      draw = functools.partial(np.random.default_rng(3).integers, -(2**60), 2**60, query.shape)
      points = secure_sums.FederatedPoints(sample_queries.in_steps(clients), _CAPACITY)
      return points.totals(query, draw if has_shares else None, limits)

    # A client without points, one of few, and some of more than a block.  The sum of all shares
    # leaves the modulus.
    parts = np.split(sample_queries.points(), [0, 7, 2600])
    # By day, `point_files_test` fits without shares, too.
    for has_shares in nightly.either((True,), (False, True)):
      self._check(parts, functools.partial(ask, has_shares))

  @parameterized.product(
      question=[
          grid_scaling.ColumnExponents(), grid_scaling.ColumnMoments(),
          grid_scaling.NormExponents(),
      ],
      size=[1.0, 2.0**20, 1e100, 1e-100, 1e-310],
  )
  def test_every_question_of_the_grid(self, question, size):
    rng = np.random.default_rng(4)
    # Powers of two are edges between exponents.
    powers = 2.0 ** rng.integers(-30, 30, (3000, 3)) * rng.choice([-1, 0, 1], (3000, 3))
    points = size * np.concatenate([powers, powers + 1e-9, rng.standard_normal((3000, 3))])
    if not isinstance(question, grid_scaling.ColumnExponents):
      bits = 30 if isinstance(question, grid_scaling.ColumnMoments) else 20
      points = np.clip(points * 2.0**bits, -(2.0**bits), 2.0**bits)
    self._check(np.split(points, [1, 4000]), lambda clients: clients.total(question, {}))


class LibrariesTest(parameterized.TestCase):
  """What is rounded is rounded alike by NumPy and by TensorFlow."""

  @parameterized.parameters((1, 1), (5, 3), (96, 43), (1, 4097))
  def test_what_is_kept_within_limits(self, *shape):
    rng = np.random.default_rng(0)
    # So large that the integers show every bit of a factor.
    limits = 2.0 ** rng.uniform(54, 55, shape[1])
    for size in [2.0**20] + 20 * [2.0**58]:
      totals = np.rint(size * rng.standard_normal(shape)).astype(np.int64)
      np.testing.assert_array_equal(
          secure_sums.within_limits(np, totals, limits),
          secure_sums.within_limits(tnp, tf.constant(totals), tf.constant(limits)).numpy(),
      )

  @parameterized.named_parameters(
      # Half a unit in the last place of the square decides how this excess is truncated.
      ("squares", cluster_statistics.ClippedResiduals(True), np.full((64, 1), 26193683.0),
       {"centers": [[0.0]], "clip_radii": [[45151793.11723978]]}),
      # A wide column, and one within a single cell of the grid.
      ("fine_sums", sum_kinds.FineSums(),
       np.rint(np.random.default_rng(0).uniform(-1, 1, (300, 2)) * 2.0**52),
       {"centers": [[-(2.0**24), 0.0], [2.0**20, 0.0], [2.0**25, 3.0]],
        "cells": 3 * [[2.0**-27, 2.0**-60]]}),
  )
  def test_contributions(self, kind, points, arrays):
    expected = kind.contributions(np, points, {name: np.array(a) for name, a in arrays.items()})
    arrays = {name: tf.constant(array, tf.float64) for name, array in arrays.items()}
    found = kind.contributions(tnp, tf.constant(points), arrays)
    for part, own in zip(found, expected, strict=True):
      np.testing.assert_array_equal(part.numpy(), own)
