"""What leaves a site, read from the bytes on the wire: docs/sites.md, "What leaves a site"."""

import collections

from absl.testing import absltest

from experiments import multi_view
from experiments.multiview import methods
from fl_clustering import load_model
from fl_clustering.kmeans import split_and_swap
from tests.distribution import site_bytes
from tests.experiment_shell import in_process

_NUM_CLUSTERS = 3
_NUM_ROUNDS = 2
# A fit by every rule, and that of the model.
_NUM_FITS = len(methods.RULES) + 1
# One of every fit, and the rule `regret` clusters every view alone.
_NUM_RESTARTS = _NUM_FITS + len(site_bytes.VIEWS)
_MOST_ROUNDS_FOR_CENTERS = 30


def _expected():
  """Returns how often every (type, shape) leaves a site, without the rounds for first centers."""
  d, num_views = site_bytes.NUM_COLUMNS, len(site_bytes.VIEWS)
  capacity = split_and_swap.largest_num_centers(_NUM_CLUSTERS)
  whole = {
      # How many numbers of every column, and how many points, are of which order of magnitude.
      (85 * d, 1): 2 * _NUM_FITS,
      (64, 1): _NUM_FITS,
      # Sums and squares of columns, the squares in two parts.
      (1, 3 * d): 3 * _NUM_FITS,
      # The number of points, and the sum of their squares in two parts.
      (capacity, 3): _NUM_RESTARTS,
      # Residuals, a kernel of every view and a count.
      (_NUM_CLUSTERS, d + num_views + 1): _NUM_RESTARTS * (_NUM_ROUNDS + 1),
      # Sums of points and of kernels, in two parts.
      (_NUM_CLUSTERS, 2 * (d + num_views)): _NUM_RESTARTS,
  }
  profiles = {(_NUM_CLUSTERS,): 1, (_NUM_CLUSTERS, d): 2}
  return {("int64", shape): times for shape, times in whole.items()} | {
      ("float64", shape): times for shape, times in profiles.items()
  }


class SiteBytesTest(site_bytes.ViewsTestCase):

  def test_multi_view(self):
    in_process.run_main(
        multi_view.main, *self.flags, f"--num_clusters={_NUM_CLUSTERS}", "--seeds=1", "--n_init=1",
        f"--num_rounds={_NUM_ROUNDS}",
    )
    width = 2 * site_bytes.NUM_COLUMNS + 2
    capacity = split_and_swap.largest_num_centers(_NUM_CLUSTERS)
    for values in self.values_by_site(load_model.load_model(self.output).scaling):
      found = collections.Counter(values)
      # Counts and residuals of clusters and of their upper halves, some with losses in two parts.
      num_rounds = sum(found.pop(("int64", (capacity, w)), 0) for w in (width, width + 2))
      self.assertBetween(num_rounds, 1, _MOST_ROUNDS_FOR_CENTERS * _NUM_RESTARTS)
      self.assertEqual(found, _expected())


if __name__ == "__main__":
  absltest.main()
