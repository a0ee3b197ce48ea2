import dataclasses
import hashlib
import importlib.util
import sys
from unittest import mock

from absl.testing import parameterized

from experiment_shell import tidy_experiment
from experiments.three_phase_emnist import data
from experiments.three_phase_emnist import experiment
from experiments.three_phase_emnist import flags
from fl_clustering.methods import registry as method_registry
from fl_clustering.tasks import models
from fl_clustering.tasks import registry as task_registry
from fl_clustering.three_phase import config as config_lib
from tests.tasks import data_files

_CONFIG = config_lib.ThreePhaseConfig(
    dataset="idx", num_clients=4, partition="rotated", num_groups=2
)
_OWN_CODE = """
import dataclasses

from fl_clustering.tasks import networks


@dataclasses.dataclass(frozen=True)
class Settings:
  pass


class Mine(networks.Mlp):
  pass


def build(settings, engine):
  raise NotImplementedError
"""


class DescriptionTest(parameterized.TestCase):

  def setUp(self):
    super().setUp()
    self.folder = self.create_tempdir().full_path
    data_files.write_idx_files(self.folder, data_files.idx_arrays(num_train=60))
    self.task = task_registry.load_task(_CONFIG, self.folder, _CONFIG)
    self.identity = data.identity(_CONFIG, self.task)

  def _described(self, **changes):
    return data.describe(_CONFIG, dataclasses.replace(self.task, **changes))["dataset"]

  def test_document_describes_the_data(self):
    document = data.describe(_CONFIG, self.task)
    dataset = document["dataset"]
    self.assertEqual(dataset["name"], "idx")
    self.assertEqual((dataset["num_clients"], dataset["num_groups"]), (4, 2))
    self.assertIsNone(dataset["dirichlet_alpha"])
    self.assertIsNone(dataset["class_names"])
    self.assertEqual(document["model"]["name"], "cnn_small")
    named = self._described(class_names=tuple("abcdefghij"))
    self.assertEqual(named["class_names"], [*"abcdefghij"])

  def _check(self, before, now):
    tidy_experiment.check_same_inputs(None, {"inputs": before}, now)

  def test_the_same_data_can_be_resumed_from_elsewhere_and_no_others(self):
    elsewhere = self.create_tempdir().full_path
    for seed in (0, 1):
      data_files.write_idx_files(elsewhere, data_files.idx_arrays(num_train=60, seed=seed))
      now = data.identity(_CONFIG, task_registry.load_task(_CONFIG, elsewhere, _CONFIG))
      if not seed:
        self._check(self.identity, now)
    with self.assertRaisesRegex(ValueError, "dataset .* fingerprint"):
      self._check(self.identity, now)

  def test_another_file_of_an_own_method_or_model_is_refused(self):
    path = self.create_tempfile("mine.py", _OWN_CODE).full_path
    spec = importlib.util.spec_from_file_location("mine", path)
    mine = importlib.util.module_from_spec(spec)
    self.enter_context(mock.patch.dict(sys.modules, {"mine": mine}))
    spec.loader.exec_module(mine)
    row = method_registry.MethodEntry(mine.Settings, mine.build)
    self.enter_context(mock.patch.dict(method_registry.METHODS, {"mine": row}))
    self.enter_context(mock.patch.dict(models.MODELS, {"mine": mine.Mine}))
    config = config_lib.ThreePhaseConfig(
        dataset="idx", num_clients=4, partition="rotated", methods=("mine", "kmeans"), model="mine"
    )

    before = data.identity(config, self.task)
    digest = hashlib.sha256(_OWN_CODE.encode()).hexdigest()
    self.assertEqual(before["own_code"], {"mine": digest, "model mine": digest})
    self._check(before, data.identity(config, self.task))
    self.assertNotIn("own_code", self.identity)
    with open(path, "a", encoding="utf-8") as file:
      file.write("# Changed.\n")
    with self.assertRaisesRegex(ValueError, "own_code .*mine"):
      self._check(before, data.identity(config, self.task))

  @parameterized.parameters(
      (["tensorflow_federated", "jax"], "tff"), (["tensorflow_federated"], "tff"),
      (["tensorflow", "jax"], "jax"), (["tensorflow"], None),
  )
  def test_the_engine_is_one_that_is_installed(self, installed, engine):
    modules = {"tff": "tensorflow_federated", "jax": "jax"}
    with mock.patch.object(importlib.util, "find_spec", dict.fromkeys(installed, "it").get):
      for asked in (None, "tff", "jax"):
        if modules.get(asked or engine) in installed:
          found = data.with_engine({"seed": 1, "engine": asked})
          self.assertEqual(found, {"seed": 1, "engine": asked or engine})
        else:
          with self.assertRaisesRegex(ValueError, f"^`engine` {asked or ''}"):
            data.with_engine({"seed": 1, "engine": asked})


class CheckModelTest(parameterized.TestCase):

  @parameterized.parameters(
      ("`engine` must be tff", {"engine": "jax"}, {"layers": ()}),
      ("`model` must", {"personal": ("fedrep",)}, {}), ("`model` must", {"methods": ("flux",)}, {}),
  )
  def test_a_model_that_nothing_can_work_with_is_refused_before_the_run(
      self, message, settings, changes
  ):
    config = config_lib.ThreePhaseConfig(**{
        "dataset": "idx", "num_clients": 4, "methods": (), "engine": "tff", **settings,
    })
    model = dataclasses.replace(
        models.build("logistic", (4,), 2, "float32"), jax_logits=None, **changes
    )
    if config.methods == ("flux",):  # Its last layer has no bias.
      model = dataclasses.replace(model, parameter_shapes={"kernel": (4, 2)})
    task = mock.MagicMock(model=model)
    with (
        mock.patch.object(task_registry, "load_task", return_value=task),
        self.assertRaisesRegex(ValueError, message),
    ):
      experiment.EXPERIMENT.load(config, None)


class CompletedTest(parameterized.TestCase):

  def _completed(self, **settings):
    settings = {"dataset": "digits", "schema": None, "num_clusters": None, **settings}
    return data.completed(settings, flags.OF_DIGITS, None)

  def _config(self, **settings):
    return data.config_of(self._completed(**settings), None)

  def test_no_more_clusters_than_clients_where_neither_is_given(self):
    settings = {"partition": "iid", "num_clients": 5, "num_new_clients": 2}
    self.assertEqual(self._config(**settings).num_clusters, 3)
    with self.assertRaisesRegex(ValueError, "`num_clusters`"):
      self._config(**settings, num_clusters=4)

  def test_digits_without_a_partition_differ_in_kind_and_in_labels(self):
    self.assertEqual(
        self._completed(), {"dataset": "digits", "schema": None, **flags.OF_DIGITS}
    )
    config = self._config()
    self.assertEqual((config.partition, config.num_clusters), ("rotated", 4))
    found = self._config(num_clients=40, num_clusters=3)
    self.assertEqual(found, dataclasses.replace(config, num_clients=40, num_clusters=3))

  @parameterized.parameters(
      ("pacfl", {}, {"representation"}), ("ifca", {"ifca_start": "random"}, {"representation"}),
      ("hierarchical", {"distance_threshold": "mean"}, {"num_clusters"}),
  )
  def test_no_option_that_no_method_uses(self, method, options, left_out):
    config = self._config(methods=(method,), **options)
    self.assertEqual({name for name in flags.OF_DIGITS if getattr(config, name) is None}, left_out)
