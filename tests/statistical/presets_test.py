"""The presets with known groups find them: every run of this test trains the same models.

The numbers of rounds, the clients and the data are the presets' own.  The methods are run
without the controls, and only CFL trains: the other clusters are known before phase 2.  CFL has
clients without label skew, beside which it does not find groups (see `cfl.py`).
"""

import itertools
import tempfile
import unittest

from absl import flags
from absl.testing import flagsaver
from absl.testing import parameterized

from experiments.three_phase_emnist import data
from experiments.three_phase_emnist import flags as experiment_flags
from fl_clustering import runtime
from fl_clustering.engine import participation
from fl_clustering.methods import registry
from fl_clustering.tasks import registry as task_registry
from fl_clustering.three_phase import config as config_lib
from fl_clustering.three_phase import pretraining
from fl_clustering.three_phase import rounds
from fl_clustering.three_phase import stages
from tests import nightly

_LEAST = 0.95


@nightly.only  # By day, `grouping_contract_test` finds planted groups.
def setUpModule():
  unittest.addModuleCleanup(runtime.LocalRuntime().close)


def _config(partition):
  """Returns the settings of `rotated_groups` with a partition, as the program reads them."""
  preset = "--flagfile=experiments/presets/rotated_groups.flags"
  with flagsaver.flagsaver():
    flags.FLAGS(["program", preset, f"--partition={partition}"])
    return data.config_of(experiment_flags.settings(), flags.FLAGS.data_dir)


def _clusters(config, names):
  """Yields the names of methods and the clusters that each of them ends with."""
  # By day, nothing of this process needs TensorFlow.
  # pylint: disable=g-import-not-at-top
  from fl_clustering.engine.tff import engine as engine_lib

  task = task_registry.load_task(config, None, config)
  stage_runner = stages.StageRunner(None, ())
  with tempfile.TemporaryDirectory() as folder:
    engine = engine_lib.Engine(
        task, folder, config.batch_size, config.learning_rate, config.seed
    )
    pretrained = pretraining.pretrain(config, engine, stage_runner, "")
    for name in names:
      method = registry.METHODS[name].build(config.method_settings(name), engine)
      start = rounds.start(name, method, pretrained, config, engine, "")
      state = start.state
      if name == "cfl":
        numbers = participation.cluster_numbers(config)
        state = rounds.run(start, numbers, config, engine, stage_runner).state
      _, assignment = state.reported_clusters()
      groups = task.true_groups
      index = None if groups is None else assignment.adjusted_rand_index(groups)
      yield name, assignment, index


class PresetsTest(parameterized.TestCase):

  @parameterized.parameters(
      ("rotated", ("kmeans", "hierarchical", "ifca", "fesem", "pacfl")),
      # PACFL's default looks at images alone, which are the same in all groups.
      ("permuted_labels", ("kmeans", "hierarchical", "ifca", "fesem")),
  )
  def test_finds_the_groups(self, partition, names):
    config = _config(partition)
    self.assertContainsSubset(names, config.methods)
    for name, _, index in _clusters(config, names):
      self.assertGreaterEqual(index, _LEAST, name)


class CflTest(parameterized.TestCase):

  @parameterized.parameters(
      *itertools.product(("rotated", "permuted_labels", "iid", "quantity"), [(1, 0.05)]),
      # 64 steps in a round in place of 8.
      ("rotated", (8, 0.1)), ("quantity", (8, 0.1)),
  )
  def test_finds_the_groups_whatever_the_steps(self, partition, training):
    epochs, rate = training
    config = config_lib.ThreePhaseConfig(
        dataset="digits", num_clients=20, partition=partition, methods=("cfl",),
        client_epochs_per_round=epochs, learning_rate=rate, pretrain_rounds=10,
        cluster_rounds=10, validation_share=0.0,
    )
    (_, assignment, index), = _clusters(config, ("cfl",))
    if partition in ("rotated", "permuted_labels"):
      self.assertGreaterEqual(index, _LEAST)
    else:
      self.assertLen(assignment.clusters, 1)
