"""What holds for every method in a whole run on tables and tokens."""

import tempfile
import unittest

from absl.testing import absltest
from absl.testing import parameterized
import numpy as np

from clustering_basics import options
from fl_clustering import runtime
from fl_clustering.methods import registry
from fl_clustering.tasks import held_out
from fl_clustering.three_phase import config as config_lib
from fl_clustering.three_phase import run as run_lib
from tests import nightly
from tests import own_tasks
from tests import run_recorder

_ALL = tuple(registry.METHODS)
# Settings with which the methods have one cluster, apart from `num_clusters`.
_ONE_CLUSTER = {
    "num_clusters": 1, "distance_threshold": "q1.0", "hierarchical_cut": "num_clusters",
    "cfl_ratio": 1e-9, "flux_radius": 1e9,
}


def setUpModule():
  local = runtime.LocalRuntime()
  unittest.addModuleCleanup(local.close)


def _run(task, *observers, **settings):
  config = config_lib.ThreePhaseConfig.for_task(
      task, **{"control_repeats": 0, "pretrain_rounds": 2, "cluster_rounds": 2, **settings}
  )
  with tempfile.TemporaryDirectory() as folder:
    return run_lib.run(config, task, folder, observers=observers)


class OwnTasksContractTest(parameterized.TestCase):

  @parameterized.parameters(*own_tasks.TASKS)
  def test_with_one_cluster_is_fedavg_to_the_last_bit(self, name):
    # By day, the Keras model has several arrays of parameters too.
    nightly.skip_by_day(self, name in ("table_mlp", "tokens_keras"))
    task = own_tasks.TASKS[name]()
    recorder = run_recorder.Recorder()
    result = _run(task, recorder, methods=_ALL, **_ONE_CLUSTER, clients_per_round=4)
    fedavg = result.methods["fedavg"]
    self.assertGreater(np.abs(fedavg.vectors - result.pretrain.vector).max(), 1e-4)
    for method in _ALL:
      found = result.methods[method]
      if _ONE_CLUSTER.keys() & options.of(registry.METHODS[method].settings):
        np.testing.assert_array_equal(
            found.assignment.clusters, [np.arange(len(task.clients))], method
        )
      # The control doesn't train in place of phase 1.
      if len(found.vectors) == 1 and recorder.num_rounds[method] == recorder.num_rounds["fedavg"]:
        np.testing.assert_array_equal(found.vectors, fedavg.vectors, method)
        np.testing.assert_array_equal(found.clients, fedavg.clients, method)

  def test_groups_of_clients_are_found(self):
    task = own_tasks.table_task()
    result = _run(
        task, methods=("kmeans", "ifca", "pacfl"), num_clusters=2, representation="update",
        pacfl_proximity="equal_labels", cluster_rounds=10, client_epochs_per_round=3,
    )
    for method in ("kmeans", "ifca", "pacfl"):
      self.assertEqual(result.methods[method].adjusted_rand_index, 1, method)
    means = {
        name: np.mean(np.trace(found.clients, axis1=1, axis2=2) / found.clients.sum(axis=(1, 2)))
        for name, found in result.methods.items()
    }
    self.assertGreater(means["kmeans"], means["fedavg"] + 0.2)

  def test_new_clients_get_a_model(self):
    task = held_out.hold_out(own_tasks.table_task(), 2, seed=1)
    result = _run(task, methods=("kmeans", "pacfl"), num_clusters=2)
    for method in ("kmeans", "pacfl"):
      sizes = [len(client.test) for client in task.new_clients]
      self.assertEqual(result.methods[method].new_clients.sum(axis=(1, 2)).tolist(), sizes)

  def test_random_starts_differ(self):
    task = own_tasks.TASKS["table_keras"]()
    result = _run(task, methods=("ifca",), num_clusters=2, ifca_start="random", ifca_restarts=2)
    vectors = result.methods["ifca"].vectors
    self.assertTrue(np.all(np.isfinite(vectors)))
    self.assertEqual(len(np.unique(vectors, axis=0)), len(vectors))

  def test_settings_of_another_number_of_clients_are_refused(self):
    task = own_tasks.table_task()
    config = config_lib.ThreePhaseConfig(num_clients=7)
    with self.assertRaisesRegex(ValueError, "`num_clients` must be the task's 5, got 7"):
      run_lib.run(config, task, "nowhere")


if __name__ == "__main__":
  absltest.main()
