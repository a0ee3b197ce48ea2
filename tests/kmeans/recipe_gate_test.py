"""The default recipe against central k-means on the papers' data, over many seeds.

What is held to is the inertia, over that of scikit-learn with ten restarts on all
points: adjusted Rand indices differ by chance where the inertia does not.
"""

from absl.testing import parameterized

from clustering_basics import single_thread_kmeans
from experiments.federated_kmeans import data
from fl_clustering.kmeans import FederatedKMeans
from tests import nightly

_NUM_SEEDS = 20


class RecipeGateTest(parameterized.TestCase):

  def _check(self, draw, *settings):
    for seed in nightly.seeds(_NUM_SEEDS):
      clients = draw(*settings, seed)
      central = single_thread_kmeans.fit(
          clients.pooled_points, clients.num_clusters, n_init=10, random_state=seed
      )
      model = FederatedKMeans(clients.num_clusters, random_state=seed).fit(clients.points)
      self.assertLessEqual(model.inertia_, 1.01 * central.inertia_, f"seed {seed}")

  @parameterized.product(beta=[0.1, 1.0, 10.0], noise=[1.0, 1.5])
  def test_regular_grid(self, beta, noise):
    # By day, the most skewed clients with the most noise.
    nightly.skip_by_day(self, (beta, noise) != (0.1, 1.5))
    self._check(data.draw_grid, beta, 50, noise)

  @parameterized.parameters(1.0, 1.5)
  def test_extreme_split(self, noise):
    # By day, with the most noise.
    nightly.skip_by_day(self, noise == 1.0)
    self._check(data.draw_extreme, noise)
