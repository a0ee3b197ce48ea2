import json
import types
from unittest import mock

from absl.testing import parameterized

from fl_clustering.engine import engines
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
    self.assertEqual(config.methods, ("kmeans", "dynamic_distance", "hierarchical"))

  @parameterized.parameters(*engines.ENGINES)
  def test_the_engine_is_one_that_is_installed(self, name):
    with mock.patch.object(engines, "is_installed", name.__eq__):
      self.assertEqual(_Config().engine, name)

  def test_options_of_chosen_groupings_are_completed(self):
    config = _Config(methods=("dynamic_distance",))
    self.assertEqual((config.distance_threshold, config.max_clusters), ("mean", 32))
    self.assertIsNone(config.num_clusters)
    self.assertIsNone(config.linkage)

  def test_every_option_of_a_choice_is_a_documented_setting(self):
    fields = _Config.__dataclass_fields__
    self.assertEqual(list(_Config.of_choices), ["partition", "model", "methods", "personal"])
    for by_name in _Config.of_choices.values():
      for name in by_name:
        self.assertIn(name, fields)
        self.assertIn(f"    {name}: ", _Config.__doc__)

  def test_options_follow_their_choice_in_json(self):
    names = list(_Config().to_json())
    place = names.index("partition")
    self.assertEqual(names[place + 1 : place + 3], ["dirichlet_alpha", "num_groups"])
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
    self.assertEqual(config.methods, _Config().methods)
    self.assertEqual(config.repeats_of("ditto"), 0)

  def test_phase_1_is_the_same_whatever_follows(self):
    config = _Config(
        methods=("ifca",), cluster_rounds=9, control_repeats=5, method_repeats=4,
        target_accuracy=0.9,
    )
    self.assertEqual(config.training_settings(), _Config().training_settings())

  def test_phase_1_follows_from_all_settings_that_train_it(self):
    usual = _Config().training_settings()
    (other_engine,) = {*engines.ENGINES} - {usual["engine"]}
    for name, value in (
        ("seed", 1), ("batch_size", 7), ("learning_rate", 0.2), ("client_epochs_per_round", 2),
        ("clients_per_round", 3), ("evaluated_clients", 9), ("pretrain_rounds", 5),
        ("grouping_epochs", 2), ("engine", other_engine), ("model", "mlp"), ("num_clients", 50),
    ):
      self.assertNotEqual(_Config(**{name: value}).training_settings(), usual, name)

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
    self.assertEqual(_Config(**json.loads(json.dumps(config.to_json()))), config)
    found = config.with_num_clusters(3)
    self.assertEqual(found, _Config(num_clusters=3))
    self.assertEqual(found.method_settings("kmeans").num_clusters, 3)
    self.assertEqual(found.training_settings(), config.training_settings())

  @parameterized.parameters(
      ("hierarchical", {}, "num_clusters", 8, None),
      ("hierarchical", {"num_clusters": 4}, "num_clusters", 4, None),
      ("hierarchical", {"num_clients": 5}, "num_clusters", 5, None),
      ("hierarchical", {"distance_threshold": "q0.3"}, "distance", None, "q0.3"),
      ("hierarchical", {"hierarchical_cut": "distance"}, "distance", None, "mean"),
      # The threshold is that of dynamic distance.
      ("hierarchical dynamic_distance", {"distance_threshold": "q0.3"}, "num_clusters", 8, "q0.3"),
      ("hierarchical dynamic_distance", {"distance_threshold": "q0.3", "num_clusters": 4},
       "num_clusters", 4, "q0.3"),
      # The number is that of K-means.
      ("kmeans hierarchical", {"distance_threshold": "q0.3", "num_clusters": 4}, "distance", 4,
       "q0.3"),
      # One threshold serves both if that is asked for.
      ("kmeans dynamic_distance hierarchical",
       {"hierarchical_cut": "distance", "distance_threshold": 1.5, "num_clusters": 4}, "distance",
       4, 1.5),
  )
  def test_where_hierarchical_is_cut(self, methods, given, cut, num_clusters, threshold):
    config = _Config(methods=tuple(methods.split()), **given)
    self.assertEqual(
        (config.hierarchical_cut, config.num_clusters, config.distance_threshold),
        (cut, num_clusters, threshold),
    )
    self.assertEqual(_Config(**json.loads(json.dumps(config.to_json()))), config)

  def test_the_options_of_a_given_partition_are_completed(self):
    for partition, options in (
        ("rotated", (4, None)), ("dirichlet", (None, 0.5)), (None, (None, None)),
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
    model = types.SimpleNamespace(logits=len)
    task = types.SimpleNamespace(clients=range(5), new_clients=range(2), model=model)
    config = _Config.for_task(task, methods=("kmeans",))
    self.assertEqual((config.num_clients, config.num_training_clients), (7, 5))
    self.assertEqual((config.dataset, config.model, config.num_clusters), (None, None, 5))
    self.assertEqual(_Config(**config.to_json()), config)

  @parameterized.named_parameters(
      ("batch_size", {"batch_size": 2**30}),
      ("client_epochs_per_round", {"client_epochs_per_round": 2**31 - 1}),
      ("grouping_epochs", {"grouping_epochs": 2**31 - 1}),
      ("rounds", {"pretrain_rounds": 100_000, "cluster_rounds": 100_000}),
      ("max_clusters", {"max_clusters": 10**30}),
      ("target_accuracy", {"target_accuracy": 1.0}),
  )
  def test_accepts_extreme_values(self, given):
    config = _Config(**given)
    for name, value in given.items():
      self.assertEqual(getattr(config, name), value)

  @parameterized.parameters("rotated", None)
  def test_clients_draw_where_a_study_names_the_partition_later(self, partition):
    config = config_lib.ThreePhaseConfig(
        dataset="digits", partition=partition, examples_per_client=20
    )
    self.assertEqual((config.examples_per_client, config.validation_share), (20, 0))

  @parameterized.parameters(
      ("dataset", {"dataset": "mnist"}), ("model", {"model": "vgg"}),
      ("partition", {"partition": "sorted"}),
      ("methods", {"methods": ("kmean",)}),
      ("num_new_clients", {"num_clients": 5, "num_new_clients": 5}),
      ("num_clusters", {"num_clients": 5, "num_new_clients": 2, "num_clusters": 4}),
      ("clients_per_round", {"num_clients": 5, "num_new_clients": 2, "clients_per_round": 4}),
      ("num_clusters", {"num_clusters": "many"}),
      ("num_clusters", {"methods": ("dynamic_distance",), "num_clusters": "auto"}),
      ("control_repeats", {"control_repeats": -1}), ("control_repeats", {"control_repeats": 1}),
      ("method_repeats", {"control_repeats": 0, "method_repeats": 2}),
      ("personal", {"personal": ("ditto", "pfedme")}),
      ("personal", {"personal": ("ditto", "apfl", "ditto")}),
      ("ditto_lambda", {"personal": ("ditto",), "ditto_lambda": -1.0}),
      ("ditto_lambda", {"personal": ("ditto",), "ditto_lambda": 1e39}),
      ("mr_mtl_lambda", {"personal": ("mr_mtl",), "mr_mtl_lambda": 1e39}),
      ("apfl_alpha", {"personal": ("apfl",), "apfl_alpha": 1.1}),
      ("fedrep_head_epochs", {"personal": ("fedrep",), "fedrep_head_epochs": 0}),
      ("ditto_lambda", {"ditto_lambda": 0.1}),
      ("apfl_alpha", {"personal": ("ditto",), "apfl_alpha": 0.5}),
      ("num_clients", {"num_clients": 0}), ("num_clients", {"num_clients": 2**31}),
      ("pretrain_rounds", {"pretrain_rounds": 0}), ("cluster_rounds", {"cluster_rounds": 100_001}),
      ("cluster_rounds", {"cluster_rounds": -1}),
      ("client_epochs_per_round", {"client_epochs_per_round": 0}),
      ("client_epochs_per_round", {"client_epochs_per_round": 2**31}),
      ("grouping_epochs", {"grouping_epochs": 2**31}), ("batch_size", {"batch_size": 2**30 + 1}),
      ("clients_per_round", {"num_clients": 5, "clients_per_round": 6}),
      ("evaluated_clients", {"num_clients": 5, "evaluated_clients": 6}),
      ("controls", {"controls": ("fedavg", "fedprox")}),
      ("controls", {"controls": ("fedavg", "fedavg")}), ("controls", {"controls": ("local",)}),
      ("methods", {"methods": ("local",)}),
      ("representation", {"methods": ("hierarchical",), "representation": "sketch"}),
      ("num_clusters",
       {"representation": "sketch", "methods": ("kmeans",), "num_clusters": "auto"}),
      ("grouping_epochs",
       {"representation": "sketch", "methods": ("kmeans",), "grouping_epochs": 2}),
      ("batch_size", {"batch_size": 0}), ("learning_rate", {"learning_rate": float("nan")}),
      ("learning_rate", {"learning_rate": 1e39}), ("target_accuracy", {"target_accuracy": 1.5}),
      ("target_accuracy", {"target_accuracy": 0.0}), ("seed", {"seed": -1}),
      ("num_clusters", {"num_clients": 5, "num_clusters": 6}),
      ("distance_threshold", {"distance_threshold": "q1.5"}), ("max_clusters", {"max_clusters": 0}),
      ("metric", {"linkage": "ward", "metric": "cosine"}),
      ("representation", {"representation": "loss"}), ("grouping_epochs", {"grouping_epochs": 0}),
      ("dirichlet_alpha", {"partition": "dirichlet", "dirichlet_alpha": 0.0}),
      # Options of what is not chosen.
      ("linkage", {"methods": ("kmeans",), "linkage": "single"}),
      ("distance_threshold", {"methods": ("kmeans",), "distance_threshold": "mean"}),
      ("max_clusters", {"methods": ("kmeans",), "max_clusters": 3}),
      ("num_clusters", {"methods": ("dynamic_distance",), "num_clusters": 3}),
      ("hierarchical_cut", {"methods": ("kmeans",), "hierarchical_cut": "distance"}),
      ("num_clusters",
       {"methods": ("hierarchical",), "hierarchical_cut": "distance", "num_clusters": 3}),
      ("num_clusters",
       {"methods": ("hierarchical",), "distance_threshold": "mean", "num_clusters": 3}),
      ("distance_threshold",
       {"methods": ("kmeans", "hierarchical"), "hierarchical_cut": "num_clusters",
        "distance_threshold": "mean"}),
      ("representation", {"methods": (), "representation": "update"}),
      ("hidden_units", {"hidden_units": "9"}),
      ("hidden_units", {"model": "mlp", "hidden_units": "9,0"}),
      ("partition", {"dataset": None, "model": None, "partition": "iid"}),
      ("model", {"dataset": None, "model": "mlp"}),
      ("num_groups", {"dataset": None, "model": None, "num_groups": 2}),
      ("num_groups", {"partition": "iid", "num_groups": 2}),
      ("dirichlet_alpha", {"partition": "iid", "dirichlet_alpha": 0.5}),
      ("validation_share", {
          "dataset": "digits", "partition": "rotated", "examples_per_client": 20,
          "validation_share": 0.1,
      }),
      ("examples_per_client", {
          "dataset": "digits", "partition": "rotated", "examples_per_client": 1,
      }),
      ("examples_per_client", {
          "dataset": "digits", "partition": "iid", "examples_per_client": 20,
      }),
  )
  def test_refuses(self, name, given):
    with self.assertRaisesRegex(ValueError, f"^`{name}`"):
      _Config(**given)
