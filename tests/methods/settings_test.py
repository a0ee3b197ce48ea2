"""Bad settings of methods and of what they group by; each names the argument."""

from absl.testing import parameterized
import numpy as np

from fl_clustering.methods import cfl
from fl_clustering.methods import client_weights
from fl_clustering.methods import dynamic_distance
from fl_clustering.methods import flux
from fl_clustering.methods import hierarchical
from fl_clustering.methods import ifca
from fl_clustering.methods import kmeans
from fl_clustering.methods import num_clusters
from fl_clustering.methods import pacfl


def _choose(**options):
  vectors = np.eye(4, dtype=np.float32)
  weights = client_weights.ClientWeights(np.arange(4), vectors, vectors[0])
  num_clusters.choose(weights, np.random.default_rng(0), **options)


class SettingsTest(parameterized.TestCase):

  @parameterized.parameters(
      (cfl.Cfl, "cfl_ratio", {"cfl_ratio": 0.0}), (cfl.Cfl, "cfl_gap", {"cfl_gap": 2.1}),
      (cfl.Cfl, "cfl_min_clients", {"cfl_min_clients": 2}),
      (dynamic_distance.DynamicDistance, "distance_threshold", {"distance_threshold": "far"}),
      (dynamic_distance.DynamicDistance, "max_clusters", {"max_clusters": 0}),
      (dynamic_distance.DynamicDistance, "representation", {"representation": "x"}),
      (flux.Flux, "flux_radius", {"flux_radius": -1.0}),
      (hierarchical.Hierarchical, "distance_threshold", {}),
      (hierarchical.Hierarchical, "distance_threshold",
       {"num_clusters": 2, "distance_threshold": "mean"}),
      (hierarchical.Hierarchical, "num_clusters", {"num_clusters": 0}),
      (hierarchical.Hierarchical, "distance_threshold", {"distance_threshold": "median"}),
      (hierarchical.Hierarchical, "linkage", {"num_clusters": 2, "linkage": "centroid"}),
      (hierarchical.Hierarchical, "metric", {"num_clusters": 2, "metric": "l3"}),
      (hierarchical.Hierarchical, "metric",
       {"num_clusters": 2, "linkage": "ward", "metric": "cosine"}),
      (hierarchical.Hierarchical, "representation", {"num_clusters": 2, "representation": "x"}),
      (ifca.Ifca, "ifca_restarts", {"num_clusters": 2, "ifca_restarts": 2}),
      (ifca.Ifca, "ifca_start", {"num_clusters": 2, "ifca_start": "best"}),
      (kmeans.KMeans, "num_clusters", {"num_clusters": 0}),
      (kmeans.KMeans, "num_clusters", {"num_clusters": 2.0}),
      (kmeans.KMeans, "representation", {"num_clusters": 2, "representation": "x"}),
      (pacfl.Pacfl, "pacfl_angle", {}),
      (pacfl.Pacfl, "pacfl_angle", {"num_clusters": 2, "pacfl_angle": 5.0}),
      (pacfl.Pacfl, "pacfl_cut", {"num_clusters": 2, "pacfl_cut": "angle"}),
      (pacfl.Pacfl, "pacfl_angle", {"pacfl_angle": 91.0}),
      (pacfl.Pacfl, "pacfl_vectors", {"num_clusters": 2, "pacfl_vectors": 0}),
      (pacfl.Pacfl, "pacfl_proximity", {"num_clusters": 2, "pacfl_proximity": "sum"}),
      (_choose, "max_k", {"max_k": 0}),
  )
  def test_refuses(self, build, name, options):
    with self.assertRaisesRegex(ValueError, f"^`{name}`"):
      build(**options)
