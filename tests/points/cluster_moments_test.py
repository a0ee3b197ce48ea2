"""Tests for fl_clustering.points.cluster_moments."""

import dataclasses

from absl.testing import absltest
import numpy as np
import tensorflow as tf

from fl_clustering import runtime
from fl_clustering.points import cluster_moments
from fl_clustering.points import point_files
from fl_clustering.points import scaling


def _by_border(query, points):
  return tf.where(points[:, 0] > query["border"][0], 2, 0)


class ClusterMomentsTest(absltest.TestCase):

  def test_sums_are_those_of_all_clients(self):
    self.enter_context(runtime.LocalRuntime())
    rng = np.random.default_rng(0)
    clients = {name: rng.standard_normal((n, 2)) for name, n in (("a", 5), ("b", 9))}
    files = point_files.write_files(clients, self.create_tempdir().full_path)
    scale = scaling.Scaling(np.array([1.0, 0.0]), np.array([2.0, 3.0]))
    origins = rng.standard_normal((3, 2))
    found = cluster_moments.sums(
        dataclasses.replace(files, scaling=scale), origins, _by_border, border=np.array([-1.5])
    )
    points = scale.apply(np.concatenate(list(clients.values())))
    clusters = np.where(points[:, 0] > -1.5, 2, 0)
    for k in range(3):
      residuals = points[clusters == k] - origins[k]
      self.assertEqual(found["counts"][k], len(residuals))
      np.testing.assert_allclose(found["sums"][k], residuals.sum(axis=0), rtol=1e-12)
      np.testing.assert_allclose(found["squares"][k], (residuals**2).sum(axis=0), rtol=1e-12)
    self.assertEqual(found["counts"][1], 0)
    self.assertGreater(found["counts"][0], 5)
    self.assertBetween(found["counts"][2], 1, 4)
    self.assertTrue(found["sums"][2].any())
    least = cluster_moments.sums(
        dataclasses.replace(files, scaling=scale), origins, _by_border, 5, border=np.array([-1.5])
    )
    np.testing.assert_array_equal(least["counts"], found["counts"])
    for name in ("sums", "squares"):
      np.testing.assert_array_equal(least[name][2], 0)
      np.testing.assert_array_equal(least[name][0], found[name][0])


if __name__ == "__main__":
  absltest.main()
