"""What leaves a site, read from the bytes on the wire: docs/sites.md, "What leaves a site"."""

import os

from absl.testing import absltest
import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from experiments import federated_kmeans
from fl_clustering import load_model
from fl_clustering.distribution import pool
from fl_clustering.distribution import site_paths
from fl_clustering.kmeans import split_and_swap
from tests.distribution import site_bytes
from tests.experiment_shell import in_process


_NUM_CLUSTERS = 3
# Rounds of a fit from sums.
_MOST_ROUNDS = 38


def _totals():
  """Returns the shapes of the totals of which k-means from sums asks."""
  d, capacity = site_bytes.NUM_COLUMNS, split_and_swap.largest_num_centers(_NUM_CLUSTERS)
  # Orders of magnitude, and sums and squares of columns.
  of_all = {(85 * d, 1), (64, 1), (1, 3 * d)}
  # Number and squares of points; counts and residuals of clusters and of their upper halves, also
  # with losses in two parts; sums in two parts; residuals and silhouettes.
  of_centers = {(capacity, width) for width in (3, 2 * d + 2, 2 * d + 4, 2 * d + 1, d + 2)}
  return of_all | of_centers


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

  def _values_of_run(self, *arguments):
    """Returns the values that left each site in a run."""
    in_process.run_main(
        federated_kmeans.main, *self.flags, f"--num_clusters={_NUM_CLUSTERS}", *arguments
    )
    return self.values_by_site(load_model.load_model(self.output).scaling)

  def test_sums(self):
    for values in self._values_of_run("--standardize"):
      # Profiles: counts, and sums and squares by column.
      profiles = [(_NUM_CLUSTERS,), *[(_NUM_CLUSTERS, site_bytes.NUM_COLUMNS)] * 2]
      self.assertEqual([shape for kind, shape in values if kind != "int64"], profiles)
      self.assertLessEqual({shape for kind, shape in values if kind == "int64"}, _totals())
      # For the score of this number of clusters, and for the result.
      self.assertLessEqual(len(values) - len(profiles), 2 * _MOST_ROUNDS)

  def test_means(self):
    num_columns = site_bytes.NUM_COLUMNS
    expected = {
        "sums over the site": {("float64", ()), ("float64", (num_columns,)), ("float32", (1,))},
        "positions of answers": {("int32", ())},
        "a client's means and their counts": {
            ("float32", (1, _NUM_CLUSTERS, num_columns)), ("float32", (1, _NUM_CLUSTERS))
        },
        "profiles": {("float64", (_NUM_CLUSTERS,)), ("float64", (_NUM_CLUSTERS, num_columns))},
    }
    means = "float32", (1, _NUM_CLUSTERS, num_columns)
    for values, clients in zip(self._values_of_run("--algorithm=kfed"), site_bytes.CLIENTS):
      self.assertEqual(set(values), set.union(*expected.values()))
      # Once for the score of this number of clusters, and once for the result.
      self.assertEqual(values.count(means), 2 * len(clients))


if __name__ == "__main__":
  absltest.main()
