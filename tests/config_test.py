import json

from absl.testing import absltest
from absl.testing import parameterized

from fl_clustering import config as config_lib

_Config = config_lib.ThreePhaseConfig


class ThreePhaseConfigTest(parameterized.TestCase):

  def test_defaults_are_the_articles(self):
    config = _Config()
    self.assertEqual(
        (config.num_clients, config.pretrain_rounds, config.cluster_rounds), (100, 20, 20)
    )
    self.assertEqual((config.learning_rate, config.batch_size), (0.1, 20))
    self.assertEqual(
        config.groupings, ("kmeans", "dynamic_distance", "hierarchical")
    )

  def test_options_of_chosen_groupings_are_completed(self):
    config = _Config(groupings=("dynamic_distance",))
    self.assertEqual((config.distance_threshold, config.max_clusters), ("mean", 32))
    self.assertIsNone(config.num_clusters)
    self.assertIsNone(config.linkage)

  def test_number_of_clusters_is_at_most_the_number_of_clients(self):
    self.assertEqual(_Config(groupings=("kmeans",)).num_clusters, 8)
    self.assertEqual(_Config(groupings=("kmeans",), num_clients=5).num_clusters, 5)

  def test_json_round_trip(self):
    config = _Config(groupings=("hierarchical",), distance_threshold="q0.3", seed=3)
    document = json.loads(json.dumps(config.to_json()))
    self.assertEqual(_Config.from_json(document), config)

  def test_no_groupings_leaves_the_controls(self):
    self.assertEqual(_Config(groupings=()).groupings, ())

  @parameterized.named_parameters(
      ("by_default_at_a_number", {}, "clusters", 8, None),
      ("at_a_number", {"num_clusters": 4}, "clusters", 4, None),
      ("at_a_distance", {"distance_threshold": "q0.3"}, "distance", None, "q0.3"),
      (
          "at_the_default_distance",
          {"hierarchical_cut": "distance"}, "distance", None, "mean",
      ),
  )
  def test_where_hierarchical_is_cut(self, given, cut, num_clusters, threshold):
    config = _Config(groupings=("hierarchical",), **given)
    self.assertEqual(config.hierarchical_cut, cut)
    self.assertEqual(config.num_clusters, num_clusters)
    self.assertEqual(config.distance_threshold, threshold)

  def test_threshold_and_number_serve_different_groupings(self):
    config = _Config(
        groupings=("dynamic_distance", "hierarchical"),
        num_clusters=4,
        distance_threshold="q0.3",
    )
    self.assertEqual(config.hierarchical_cut, "clusters")

  def test_dp_is_completed(self):
    config = _Config(aggregator="dp")
    self.assertEqual((config.clipping_norm, config.noise_multiplier), (1.0, 1.0))
    self.assertAlmostEqual(config.dp_delta, 100**-1.1)

  @parameterized.named_parameters(
      ("dataset", {"dataset": "mnist"}, "`dataset` must be one of"),
      ("model", {"model": "vgg"}, "`model` must be one of"),
      ("partition", {"partition": "sorted"}, "`partition` must be one of"),
      ("aggregator", {"aggregator": "median"}, "`aggregator` must be one of"),
      ("grouping", {"groupings": ("kmean",)}, "`groupings` must be one of"),
      ("control", {"groupings": ("fedavg",)}, "`groupings` must be one of"),
      ("twice", {"groupings": ("kmeans", "kmeans")}, "`groupings` must name every"),
      ("clients", {"num_clients": 0}, "`num_clients` must be an integer >= 1, got 0"),
      ("rounds", {"pretrain_rounds": 0}, "`pretrain_rounds` must be an integer >= 1"),
      ("cluster_rounds", {"cluster_rounds": -1}, "`cluster_rounds` must be"),
      ("epochs", {"client_epochs_per_round": 0}, "`client_epochs_per_round` must be"),
      (
          "more_per_round_than_clients",
          {"num_clients": 5, "clients_per_round": 6},
          r"`clients_per_round` must be an integer in \[1, 5\], got 6",
      ),
      ("batch", {"batch_size": 0}, "`batch_size` must be"),
      ("rate", {"learning_rate": float("nan")}, "`learning_rate` must be a finite"),
      ("target", {"target_accuracy": 1.5}, r"`target_accuracy` must be .*\(0, 1\)"),
      ("seed", {"seed": -1}, "`seed` must be an integer >= 0, got -1"),
      (
          "more_clusters_than_clients",
          {"num_clients": 5, "num_clusters": 6},
          r"`num_clusters` must be an integer in \[1, 5\], got 6",
      ),
      ("threshold", {"distance_threshold": "q1.5"}, "`distance_threshold` must"),
      ("max_clusters", {"max_clusters": 0}, "`max_clusters` must"),
      ("linkage", {"linkage": "ward", "metric": "cosine"}, "`metric` must|`linkage` must"),
      ("representation", {"representation": "loss"}, "`representation` must be one of"),
      ("grouping_epochs", {"grouping_epochs": 0}, "`grouping_epochs` must be"),
      ("alpha", {"partition": "dirichlet", "dirichlet_alpha": 0.0}, "`dirichlet_alpha` must"),
      ("delta", {"aggregator": "dp", "dp_delta": 1.0}, r"`dp_delta` must be .*\(0, 1\)"),
  )
  def test_refuses_bad_values(self, given, message):
    with self.assertRaisesRegex(ValueError, message):
      _Config(**given)

  @parameterized.named_parameters(
      ("linkage", {"groupings": ("kmeans",), "linkage": "single"}, "`linkage` must"),
      ("threshold", {"groupings": ("kmeans",), "distance_threshold": "mean"},
       "`distance_threshold` must"),
      ("max_clusters", {"groupings": ("kmeans",), "max_clusters": 3},
       "`max_clusters` must"),
      ("num_clusters", {"groupings": ("dynamic_distance",), "num_clusters": 3},
       "`num_clusters` must"),
      ("cut", {"groupings": ("kmeans",), "hierarchical_cut": "distance"},
       "`hierarchical_cut` must"),
      ("number_where_cut_at_a_distance",
       {"groupings": ("hierarchical",), "hierarchical_cut": "distance",
        "num_clusters": 3}, "`num_clusters` must"),
      ("threshold_and_number_for_one_grouping",
       {"groupings": ("hierarchical",), "distance_threshold": "mean",
        "num_clusters": 3}, "`distance_threshold` must"),
      ("representation", {"groupings": (), "representation": "update"},
       "`representation` must"),
      ("clipping", {"clipping_norm": 1.0}, "`clipping_norm` must not be given"),
      ("noise", {"aggregator": "clipped", "noise_multiplier": 1.0},
       "`noise_multiplier` must not be given"),
      ("groups", {"partition": "iid", "num_groups": 2}, "`num_groups` must"),
      ("alpha", {"partition": "iid", "dirichlet_alpha": 0.5}, "`dirichlet_alpha` must"),
  )
  def test_refuses_options_of_what_was_not_chosen(self, given, message):
    with self.assertRaisesRegex(ValueError, message):
      _Config(**given)


if __name__ == "__main__":
  absltest.main()
