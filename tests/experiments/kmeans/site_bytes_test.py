"""What leaves a site, read from the bytes on the wire: see docs/scaling.md, "What leaves a site"."""

import math
import os

from absl.testing import absltest
import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from experiments import federated_kmeans
from fl_clustering.workers import pool
from fl_clustering.workers import site_paths
from tests.experiment_shell import in_process
from tests.sites import site_bytes


_NUM_CLUSTERS = 3


@tff.tensorflow.computation(np.str_)
def _content(path):
  return tf.io.decode_raw(tf.io.read_file(path), tf.float64)


@tff.federated_computation(tff.FederatedType(np.str_, tff.CLIENTS))
def _contents(paths):
  return tff.federated_map(_content, paths)


class SiteBytesTest(site_bytes.TestCase):

  def test_a_row_on_the_wire_is_seen(self):
    names = [n for n in os.listdir(self.workers[0].folder) if n.endswith(".points")]
    with pool.Pool((self.relays[0].address,)):
      _contents([str(site_paths.SitePath(self.relays[0].address, name)) for name in names])
    # Some halves may be in two frames.
    num_halves = 2 * sum(site_bytes.CLIENTS[0].values())
    self.assertBetween(self.num_half_rows(), 0.9 * num_halves, num_halves)

  def test_sums(self):
    in_process.run_main(
        federated_kmeans.main, *self.flags, f"--num_clusters={_NUM_CLUSTERS}", "--standardize"
    )
    for values in self.values_by_site():
      # Profiles: counts, and sums and squares by column.
      profiles = [(_NUM_CLUSTERS,), *[(_NUM_CLUSTERS, site_bytes.NUM_COLUMNS)] * 2]
      self.assertEqual([shape for kind, shape in values if kind != "int64"], profiles)
      # Totals of groups of points.
      for kind, shape in values:
        self.assertLessEqual(math.prod(shape), 32 * 14, (kind, shape))

  def test_means(self):
    in_process.run_main(
        federated_kmeans.main, *self.flags, f"--num_clusters={_NUM_CLUSTERS}", "--algorithm=kfed"
    )
    means = "float32", (1, _NUM_CLUSTERS, site_bytes.NUM_COLUMNS)
    for values, clients in zip(self.values_by_site(), site_bytes.CLIENTS):
      # Once for the score of this number of clusters, and once for the result.
      self.assertEqual(values.count(means), 2 * len(clients))


if __name__ == "__main__":
  absltest.main()
