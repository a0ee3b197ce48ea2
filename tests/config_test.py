import json
import types

from absl.testing import absltest
from absl.testing import parameterized

from fl_clustering.methods import registry as method_registry
from fl_clustering.three_phase import config as config_lib

_Config = config_lib.ThreePhaseConfig


class ThreePhaseConfigTest(parameterized.TestCase):

  def test_defaults_are_the_articles(self):
    config = _Config()
    self.assertEqual(
        (config.num_clients, config.pretrain_rounds, config.cluster_rounds), (100, 20, 20)
    )
    self.assertEqual((config.learning_rate, config.batch_size), (0.1, 20))
    self.assertEqual(
        config.methods, ("kmeans", "dynamic_distance", "hierarchical")
    )

  def test_options_of_chosen_groupings_are_completed(self):
    config = _Config(methods=("dynamic_distance",))
    self.assertEqual((config.distance_threshold, config.max_clusters), ("mean", 32))
    self.assertIsNone(config.num_clusters)
    self.assertIsNone(config.linkage)

  def test_number_of_clusters_is_at_most_the_number_of_clients(self):
    self.assertEqual(_Config(methods=("kmeans",)).num_clusters, 8)
    self.assertEqual(_Config(methods=("kmeans",), num_clients=5).num_clusters, 5)

  def test_every_option_of_a_choice_is_a_documented_setting(self):
    fields = _Config.__dataclass_fields__
    self.assertEqual(
        list(_Config.of_choices), ["partition", "model", "aggregator", "methods", "personal"]
    )
    for by_name in _Config.of_choices.values():
      for name in by_name:
        self.assertIn(name, fields)
        self.assertIn(f"    {name}: ", _Config.__doc__)

  def test_a_method_that_shares_an_option_shares_its_default(self):
    for users in _Config.of_choices["methods"].values():
      self.assertLen({option.stated_default() for option in users.values()}, 1)

  def test_options_follow_their_choice_in_json(self):
    names = list(_Config().to_json())
    self.assertEqual(names[3:6], ["partition", "dirichlet_alpha", "num_groups"])
    start = names.index("methods")
    self.assertEqual(names[start + 1 : start + 3], ["num_clusters", "representation"])
    self.assertCountEqual(names, _Config.__dataclass_fields__)

  def test_options_of_personal_models_are_completed(self):
    config = _Config(personal=("ditto", "apfl", "fedrep"), fedrep_head_epochs=4)
    self.assertEqual((config.ditto_lambda, config.apfl_alpha), (0.1, None))
    self.assertEqual(config.method_settings("fedrep").fedrep_head_epochs, 4)
    self.assertIsNone(config.mr_mtl_lambda)
    self.assertEqual(_Config(**json.loads(json.dumps(config.to_json()))), config)
    self.assertEqual(config.training_settings(), _Config().training_settings())
    self.assertEqual(config.chosen_methods, _Config().chosen_methods)
    self.assertEqual(config.repeats_of("ditto"), 0)

  def test_a_configuration_is_made_again_from_its_json(self):
    config = _Config(methods=("hierarchical",), distance_threshold="q0.3", seed=3)
    self.assertEqual(_Config(**json.loads(json.dumps(config.to_json()))), config)

  def test_no_groupings_leaves_the_controls(self):
    self.assertEqual(_Config(methods=()).methods, ())

  def test_a_method_gets_the_options_of_the_run(self):
    config = _Config(
        methods=tuple(method_registry.METHODS), representation="update", num_clusters=3,
        overlap_training="separate", distance_threshold="q0.2", linkage="complete",
        cfl_ratio=0.5, ifca_start="perturbed", pacfl_vectors=2,
    )
    for name in method_registry.METHODS:
      settings = config.method_settings(name)
      for option in config.options_of(name):
        self.assertEqual(getattr(settings, option), getattr(config, option), (name, option))
    self.assertEqual(config.method_settings("kmeans").representation, "update")
    self.assertEqual(config.method_settings("cfl").cfl_ratio, 0.5)

  def test_the_number_of_clusters_may_be_left_to_the_run(self):
    config = _Config(num_clusters="auto")
    self.assertTrue(config.chooses_num_clusters)
    self.assertEqual(config.num_clusters_criterion, "eigengap")
    self.assertEqual(_Config(**json.loads(json.dumps(config.to_json()))), config)
    found = config.with_num_clusters(3)
    self.assertEqual(found, _Config(num_clusters=3))
    self.assertEqual(found.method_settings("kmeans").num_clusters, 3)
    self.assertEqual(found.training_settings(), config.training_settings())

  def test_controls_may_be_named(self):
    config = _Config(methods=("fedavg", "kmeans"))
    self.assertEqual(config.chosen_methods, ("kmeans",))

  @parameterized.named_parameters(
      ("by_default_at_a_number", {}, "num_clusters", 8, None),
      ("at_a_number", {"num_clusters": 4}, "num_clusters", 4, None),
      ("at_a_distance", {"distance_threshold": "q0.3"}, "distance", None, "q0.3"),
      (
          "at_the_default_distance",
          {"hierarchical_cut": "distance"}, "distance", None, "mean",
      ),
  )
  def test_where_hierarchical_is_cut(self, given, cut, num_clusters, threshold):
    config = _Config(methods=("hierarchical",), **given)
    self.assertEqual(config.hierarchical_cut, cut)
    self.assertEqual(config.num_clusters, num_clusters)
    self.assertEqual(config.distance_threshold, threshold)

  @parameterized.named_parameters(
      ("threshold", {"distance_threshold": "q0.3"}, 8),
      ("both", {"distance_threshold": "q0.3", "num_clusters": 4}, 4),
  )
  def test_the_threshold_of_dynamic_distance_does_not_cut_hierarchical(self, given, number):
    config = _Config(methods=("hierarchical", "dynamic_distance"), **given)
    self.assertEqual(config.hierarchical_cut, "num_clusters")
    self.assertEqual((config.num_clusters, config.distance_threshold), (number, "q0.3"))

  def test_one_threshold_serves_both_groupings_if_that_is_asked_for(self):
    config = _Config(hierarchical_cut="distance", distance_threshold=1.5, num_clusters=4)
    self.assertEqual(config.methods, ("kmeans", "dynamic_distance", "hierarchical"))
    self.assertEqual((config.distance_threshold, config.num_clusters), (1.5, 4))

  def test_a_number_for_kmeans_leaves_the_threshold_to_hierarchical(self):
    config = _Config(
        methods=("kmeans", "hierarchical"), num_clusters=4, distance_threshold="q0.3"
    )
    self.assertEqual(config.hierarchical_cut, "distance")

  def test_the_options_of_a_given_partition_are_completed(self):
    for partition, options in (
        ("rotated", (4, None)), ("dirichlet", (None, 0.5)), ("natural", (None, None)),
        (None, (None, None)),
    ):
      config = _Config(partition=partition)
      self.assertEqual((config.num_groups, config.dirichlet_alpha), options)
      self.assertEqual(_Config(**config.to_json()), config)

  def test_the_models_options_are_completed(self):
    self.assertEqual(_Config(model="mlp").hidden_units, "200")
    self.assertEqual(_Config(model="mlp", hidden_units="30,20").options_for("model"),
                     {"hidden_units": "30,20"})
    self.assertIsNone(_Config(model="logistic").hidden_units)

  def test_a_task_of_the_callers_own_has_its_model(self):
    task = types.SimpleNamespace(all_clients=range(7), new_clients=range(2))
    config = _Config.for_task(task, methods=("kmeans",))
    self.assertEqual((config.num_clients, config.num_training_clients), (7, 5))
    self.assertEqual((config.dataset, config.model, config.num_clusters), (None, None, 5))
    self.assertEqual(_Config(**config.to_json()), config)

  def test_dp_is_completed(self):
    config = _Config(aggregator="dp")
    self.assertEqual((config.clipping_norm, config.noise_multiplier), (1.0, 1.0))
    self.assertAlmostEqual(config.dp_delta, 100**-1.1)

  @parameterized.named_parameters(
      ("batch_size", {"batch_size": 2**30}),
      ("client_epochs_per_round", {"client_epochs_per_round": 2**31 - 1}),
      ("grouping_epochs", {"grouping_epochs": 2**31 - 1}),
      ("rounds", {"pretrain_rounds": 100_000, "cluster_rounds": 100_000}),
      ("max_clusters", {"max_clusters": 10**30}),
      ("target_accuracy", {"target_accuracy": 1.0}),
      ("dp_of_one_client", {"aggregator": "dp", "num_clients": 1, "dp_delta": 1e-3}),
      ("smallest_delta", {"aggregator": "dp", "dp_delta": 5e-324}),
  )
  def test_accepts_extreme_values(self, given):
    config = _Config(**given)
    for name, value in given.items():
      self.assertEqual(getattr(config, name), value)

  @parameterized.named_parameters(
      ("dataset", {"dataset": "mnist"}, "`dataset` must be one of"),
      ("model", {"model": "vgg"}, "`model` must be one of"),
      ("partition", {"partition": "sorted"}, "`partition` must be one of"),
      ("aggregator", {"aggregator": "median"}, "`aggregator` must be one of"),
      ("grouping", {"methods": ("kmean",)}, "`methods` must be one of"),
      ("no_client_left", {"num_clients": 5, "num_new_clients": 5},
       r"`num_new_clients` must be an integer in \[0, 4\], got 5"),
      ("more_clusters_than_train", {"num_clients": 5, "num_new_clients": 2, "num_clusters": 4},
       r"`num_clusters` must be an integer in \[1, 3\], got 4"),
      ("more_per_round_than_train",
       {"num_clients": 5, "num_new_clients": 2, "clients_per_round": 4},
       r"`clients_per_round` must be an integer in \[1, 3\], got 4"),
      ("word", {"num_clusters": "many"}, "`num_clusters` must be an integer.*'many'"),
      ("automatic_for_none", {"methods": ("dynamic_distance",), "num_clusters": "auto"},
       "`num_clusters` must be given only where kmeans or .*, got 'auto' with methods=dyn"),
      ("criterion", {"num_clusters": "auto", "num_clusters_criterion": "elbow"},
       "`num_clusters_criterion` must be one of"),
      ("criterion_without_choice", {"num_clusters_criterion": "silhouette"},
       "`num_clusters_criterion` must be given only with num_clusters=auto"),
      ("repeats", {"control_repeats": -1}, "`control_repeats` must be an integer in"),
      ("one_repeat", {"control_repeats": 1}, "`control_repeats` must be 0 or at least 2, as one"),
      ("only_the_methods_repeats", {"control_repeats": 0, "method_repeats": 2},
       "`method_repeats` must be 0 with control_repeats=0"),
      ("twice", {"methods": ("kmeans", "kmeans")},
       "`methods` must name everything once, got 'kmeans,kmeans'"),
      ("personal", {"personal": ("ditto", "pfedme")},
       "`personal` must be one of .*ditto.*, got 'pfedme'"),
      ("personal_twice", {"personal": ("ditto", "apfl", "ditto")},
       "`personal` must name everything once, got 'ditto,apfl,ditto'"),
      ("ditto_lambda", {"personal": ("ditto",), "ditto_lambda": -1.0},
       r"`ditto_lambda` must be a number in \[0, 1e\+30\], got -1.0"),
      ("ditto_lambda_beyond_float32", {"personal": ("ditto",), "ditto_lambda": 1e39},
       r"`ditto_lambda` must be a number in \[0, 1e\+30\], got 1e\+39"),
      ("mr_mtl_lambda", {"personal": ("mr_mtl",), "mr_mtl_lambda": 1e39},
       r"`mr_mtl_lambda` must be a number in \[0, 1e\+30\], got 1e\+39"),
      ("apfl_alpha", {"personal": ("apfl",), "apfl_alpha": 1.1},
       r"`apfl_alpha` must be a number in \[0, 1\], got 1.1"),
      ("fedrep_head_epochs", {"personal": ("fedrep",), "fedrep_head_epochs": 0},
       "`fedrep_head_epochs` must be an integer in"),
      ("one_layer", {"personal": ("fedrep",), "model": "logistic"},
       "`model` must have a layer before the last.* for fedrep, got 'logistic'"),
      ("option_of_no_personal_model", {"ditto_lambda": 0.1},
       "`ditto_lambda` must be given only where ditto uses it, got 0.1 with personal=none"),
      ("option_of_another_personal_model", {"personal": ("ditto",), "apfl_alpha": 0.5},
       "`apfl_alpha` must be given only where apfl uses it, got 0.5 with personal=ditto"),
      ("clients", {"num_clients": 0}, r"`num_clients` must be .*\[1, 2147483647\], got 0"),
      ("too_many_clients", {"num_clients": 2**31}, "`num_clients` must be an integer in"),
      ("rounds", {"pretrain_rounds": 0}, r"`pretrain_rounds` must be .*\[1, 100000\]"),
      ("too_many_rounds", {"cluster_rounds": 100_001}, "`cluster_rounds` must be"),
      ("cluster_rounds", {"cluster_rounds": -1}, "`cluster_rounds` must be"),
      ("epochs", {"client_epochs_per_round": 0}, "`client_epochs_per_round` must be"),
      ("epochs_beyond_int32", {"client_epochs_per_round": 2**31},
       r"`client_epochs_per_round` must be an integer in \[1, 2147483647\]"),
      ("grouping_epochs_beyond_int32", {"grouping_epochs": 2**31},
       "`grouping_epochs` must be an integer in"),
      # A batch and a client's examples are added up as int32.
      ("batch_too_large", {"batch_size": 2**30 + 1},
       r"`batch_size` must be an integer in \[1, 1073741824\]"),
      (
          "more_per_round_than_clients",
          {"num_clients": 5, "clients_per_round": 6},
          r"`clients_per_round` must be an integer in \[1, 5\], got 6",
      ),
      (
          "more_evaluated_than_clients",
          {"num_clients": 5, "evaluated_clients": 6},
          r"`evaluated_clients` must be an integer in \[1, 5\], got 6",
      ),
      ("unknown_control", {"controls": ("fedavg", "fedprox")}, "`controls` must be one of fedavg"),
      ("control_twice", {"controls": ("fedavg", "fedavg")}, "`controls` must name everything once"),
      ("no_fedavg", {"controls": ("local",)}, "`controls` must hold fedavg, got 'local'"),
      ("method_that_is_no_control", {"controls": ("fedavg",), "methods": ("local",)},
       "`methods` must be one of"),
      ("sketch_of_all_pairs", {"methods": ("hierarchical",), "representation": "sketch"},
       "`representation` must be one of weights, update, normalized_update, got 'sketch'"),
      ("number_of_sketches", {"representation": "sketch", "num_clusters": "auto"},
       "`num_clusters` must need no weights"),
      ("epochs_for_sketches", {"methods": ("kmeans",), "representation": "sketch",
                               "grouping_epochs": 2}, "`grouping_epochs` must need no weights"),
      ("batch", {"batch_size": 0}, "`batch_size` must be"),
      ("rate", {"learning_rate": float("nan")}, "`learning_rate` must be a number"),
      ("rate_beyond_float32", {"learning_rate": 1e39},
       r"`learning_rate` must be a number in \[1e-30, 1e\+30\], got 1e\+39"),
      ("target", {"target_accuracy": 1.5}, r"`target_accuracy` must be .*\(0, 1\]"),
      ("target_zero", {"target_accuracy": 0.0}, r"`target_accuracy` must be .*\(0, 1\]"),
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
      ("dp_of_one_client", {"aggregator": "dp", "num_clients": 1},
       "`num_clients` must be >= 2 with aggregator=dp unless dp_delta is given"),
      ("no_noise", {"aggregator": "dp", "noise_multiplier": 1e-4},
       r"`noise_multiplier` must be a number in \[0.001, 1e\+06\]"),
      ("clipping_beyond_float32", {"aggregator": "clipped", "clipping_norm": 1e-300},
       "`clipping_norm` must be a number in"),
  )
  def test_refuses_bad_values(self, given, message):
    with self.assertRaisesRegex(ValueError, message):
      _Config(**given)

  @parameterized.named_parameters(
      ("linkage", {"methods": ("kmeans",), "linkage": "single"}, "`linkage` must"),
      ("threshold", {"methods": ("kmeans",), "distance_threshold": "mean"},
       "`distance_threshold` must"),
      ("max_clusters", {"methods": ("kmeans",), "max_clusters": 3},
       "`max_clusters` must"),
      ("num_clusters", {"methods": ("dynamic_distance",), "num_clusters": 3},
       "`num_clusters` must"),
      ("cut", {"methods": ("kmeans",), "hierarchical_cut": "distance"},
       "`hierarchical_cut` must"),
      ("number_where_cut_at_a_distance",
       {"methods": ("hierarchical",), "hierarchical_cut": "distance",
        "num_clusters": 3}, "`num_clusters` must"),
      ("threshold_and_number_for_one_grouping",
       {"methods": ("hierarchical",), "distance_threshold": "mean",
        "num_clusters": 3},
       "`num_clusters` must.*methods=hierarchical and hierarchical_cut=distance"),
      ("threshold_where_cut_at_a_number",
       {"methods": ("kmeans", "hierarchical"), "hierarchical_cut": "num_clusters",
        "distance_threshold": "mean"},
       "`distance_threshold` must.*hierarchical_cut=num_clusters"),
      ("representation", {"methods": (), "representation": "update"},
       "`representation` must"),
      ("hidden_units", {"hidden_units": "9"},
       "`hidden_units` must be given only where mlp uses it, got '9' with model=cnn_small"),
      ("hidden_width", {"model": "mlp", "hidden_units": "9,0"}, "`hidden_units` must be integers"),
      ("own_partition", {"dataset": None, "model": None, "partition": "iid"},
       "`partition` must be None for a task of your own"),
      ("own_model", {"dataset": None, "model": "mlp"},
       "`model` must be None for a task of your own"),
      ("own_option", {"dataset": None, "model": None, "num_groups": 2},
       "`num_groups` must be None for a task of your own"),
      ("clipping", {"clipping_norm": 1.0},
       "`clipping_norm` must be given only where clipped or dp uses it, got 1.0 .*=mean"),
      ("noise", {"aggregator": "clipped", "noise_multiplier": 1.0},
       "`noise_multiplier` must be given only where dp uses it"),
      ("groups", {"partition": "iid", "num_groups": 2}, "`num_groups` must"),
      ("alpha", {"partition": "iid", "dirichlet_alpha": 0.5}, "`dirichlet_alpha` must"),
  )
  def test_refuses_options_of_what_was_not_chosen(self, given, message):
    with self.assertRaisesRegex(ValueError, message):
      _Config(**given)


if __name__ == "__main__":
  absltest.main()
