"""What holds for every method in a whole run, on digits, tables and tokens."""

import dataclasses
import tempfile

from absl.testing import absltest
from absl.testing import parameterized
import numpy as np

from clustering_basics import options
from fl_clustering.engine import engines
from fl_clustering.methods import cluster_assignment
from fl_clustering.methods import registry
from fl_clustering.tasks import federated_task
from fl_clustering.tasks import held_out
from fl_clustering.three_phase import checkpoint
from fl_clustering.three_phase import config as config_lib
from fl_clustering.three_phase import run as run_lib
from tests import local_runtime
from tests import nightly
from tests import own_tasks
from tests import run_recorder
from tests import small_task

_ALL = tuple(registry.METHODS)
# By day, what differs most from a model per client: mixtures.
_PERSONAL = nightly.either(("apfl",), tuple(registry.PERSONAL))
# By day JAX, which is done sooner; `equal_engines_test` compares what methods ask of an engine.
_ENGINE = nightly.either({"engine": engines.JAX}, {})
# Settings with which these methods have one cluster, apart from `num_clusters`.
_ONE_CLUSTER = {
    "num_clusters": 1, "distance_threshold": "q1.0", "hierarchical_cut": "num_clusters",
    "cfl_ratio": 1e-9, "flux_radius": 1e9,
}
_FEDAVG_ALONE = {"controls": ("fedavg",)}


setUpModule = local_runtime.use


def _config(task, **settings):
  return config_lib.ThreePhaseConfig.for_task(task, **{
      "pretrain_rounds": 2, "cluster_rounds": 3, "control_repeats": 0, "methods": _ALL, **_ENGINE,
      **settings,
  })


def _run(config, task, recorder=None, folder=None):
  checkpoints = checkpoint.Checkpoints(folder) if folder else None
  with tempfile.TemporaryDirectory() as data_dir:
    return run_lib.run(config, task, data_dir, checkpoints, [recorder] if recorder else [])


def _twins():
  """Returns a task of three kinds of clients, two of each kind with the same example."""
  task = small_task.small_task()
  clients = []
  for kind, source in zip("xyz", task.clients):
    labels = source.train.labels.tolist()
    # Examples of different labels, so that the kinds differ.
    position = next(i for i, label in enumerate(labels) if label == "xyz".index(kind) * 3)
    one = source.train.take([position])
    clients += [federated_task.ClientData(f"{kind}{i}", one, source.test) for i in (1, 2)]
  return dataclasses.replace(task, clients=federated_task.PooledClients.of(clients))


class OneClusterTest(parameterized.TestCase):

  @parameterized.parameters("digits", *own_tasks.TASKS)
  def test_is_fedavg_to_the_last_bit(self, name):
    # By day, `own_docs_test` runs a Keras model.
    nightly.skip_by_day(self, name != "digits")
    task = small_task.small_task() if name == "digits" else own_tasks.TASKS[name]()
    recorder = run_recorder.Recorder()
    config = _config(task, **_ONE_CLUSTER, **_FEDAVG_ALONE, clients_per_round=4)
    result = _run(config, task, recorder)
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


class EveryEngineTest(parameterized.TestCase):

  @parameterized.parameters(*engines.ENGINES)
  # By day, `MethodRunsTest` runs methods and controls with JAX, `personal_test` what is personal.
  @nightly.only
  def test_runs_every_method_and_control(self, engine):
    table = own_tasks.table_task("mlp", hidden_units="7,5")
    task = held_out.HeldOut(num_new_clients=1).of_task(table, 1)
    result = _run(_config(
        task, engine=engine, personal=tuple(registry.PERSONAL), num_clusters=2, pretrain_rounds=1,
        cluster_rounds=1,
    ), task)
    self.assertEmpty(result.failures)
    for name in (*_ALL, *registry.CONTROLS, *registry.PERSONAL):
      self.assertTrue(np.isfinite(result.methods[name].vectors).all(), name)
      self.assertLen(result.methods[name].new_clients, 1, name)


class OwnTasksTest(absltest.TestCase):

  @nightly.only  # By day, `grouping_contract_test` finds planted groups.
  def test_groups_of_clients_are_found(self):
    task, methods = own_tasks.table_task(), ("kmeans", "ifca", "pacfl")
    result = _run(_config(
        task, methods=methods, num_clusters=2, representation="update", **_FEDAVG_ALONE,
        pacfl_proximity="equal_labels", cluster_rounds=10, client_epochs_per_round=3,
    ), task)
    for method in methods:
      self.assertEqual(result.methods[method].ari, 1, method)
    means = {
        name: np.mean(np.trace(found.clients, axis1=1, axis2=2) / found.clients.sum(axis=(1, 2)))
        for name, found in result.methods.items()
    }
    self.assertGreater(means["kmeans"], means["fedavg"] + 0.2)

  def test_settings_of_another_number_of_clients_are_refused(self):
    with self.assertRaisesRegex(ValueError, "^`num_clients`"):
      run_lib.run(config_lib.ThreePhaseConfig(num_clients=7), own_tasks.table_task(), "nowhere")


class MethodRunsTest(parameterized.TestCase):

  @classmethod
  def setUpClass(cls):
    super().setUpClass()
    # With a hidden layer for those that share it; by day, the model that is done soonest.
    whole = small_task.small_task(nightly.either("logistic", "mlp"))
    last = whole.clients[-1]
    new = federated_task.PooledClients.of(
        [federated_task.ClientData("new", last.train, last.test)]
    )
    cls.task = dataclasses.replace(whole, new_clients=new)
    cls.config = _config(
        cls.task, num_clusters=2, clients_per_round=4, cfl_ratio=1e9, cfl_gap=-2.0,
        cfl_min_clients=3, hierarchical_cut="num_clusters", seed=1, personal=_PERSONAL,
    )
    cls.recorder = run_recorder.Recorder()
    cls.result = _run(cls.config, cls.task, cls.recorder)

  def _alone(self, name):
    """Returns what a run of one method has for it and the controls."""
    kind, used = "methods", options.of(registry.entry(name).settings)
    if name in registry.PERSONAL:
      kind = "personal"
    settings = {
        option: value for option, value in self.config.options_of(name).items() if option in used
    }
    config = _config(
        self.task, clients_per_round=4, seed=1, **{"methods": (), kind: (name,), **settings}
    )
    return _run(config, self.task).methods

  def _assert_same(self, methods, names):
    for name in names:
      found, expected = methods[name], self.result.methods[name]
      np.testing.assert_array_equal(found.vectors, expected.vectors, name)
      np.testing.assert_array_equal(found.new_clients, expected.new_clients, name)
      self.assertEqual(
          list(map(list, found.assignment.clusters)), list(map(list, expected.assignment.clusters)),
          name,
      )
      self.assertEqual(found.assignment.warning, expected.assignment.warning, name)
      self.assertEqual(found.cost, expected.cost, name)

  def test_stopped_in_every_method_and_resumed_gives_the_same_bits(self):
    folder = self.create_tempdir().full_path
    # By day, those that remember more than models.
    for name in nightly.either(("ifca", "cfl", "clove", "flux"), (*_ALL, *_PERSONAL)):
      with self.subTest(name), self.assertRaises(run_recorder.Stop):
        _run(self.config, self.task, run_recorder.Recorder((name, 2)), folder)
    recorder = run_recorder.Recorder()
    resumed = _run(self.config, self.task, recorder, folder)
    self.assertEqual(recorder.rows, self.recorder.rows)
    self._assert_same(resumed.methods, self.result.methods)

  @parameterized.parameters("ifca", "cfl", *registry.PERSONAL)
  def test_alone_gives_the_same_bits_and_leaves_the_controls_as_they_are(self, name):
    nightly.skip_by_day(self, name != "cfl")
    alone = self._alone(name)
    # How long it trains depends on the others.
    self._assert_same(alone, alone.keys() - {"fedavg_matched"})

  def test_states_what_every_round_costs(self):
    of_phase_1 = self.result.pretrain.cost.by_name()
    for name in (*_ALL, *_PERSONAL):
      rounds = self.recorder.num_rounds[name]
      self.assertIn(rounds, (3, 5), name)
      for metric, total in self.result.methods[name].cost.by_name().items():
        phase_1 = of_phase_1[metric] if rounds == 3 else 0
        if name in _PERSONAL:  # They use no own weights, for which some train after phase 1.
          phase_1 = sum(self.recorder.values("pretrain", "", metric))
          self.assertLess(phase_1, of_phase_1[metric])
        per_round = self.recorder.values(name, "", metric)
        self.assertLen(per_round, rounds + 1)
        self.assertEqual(sum(per_round) + phase_1, total, (name, metric))
        self.assertTrue(all(of_round > 0 for of_round in per_round[1:]), (name, metric))
      if name in _ALL:  # At least a model for every participant.
        sent = self.recorder.values(name, "", "bytes_down")[1:]
        self.assertGreaterEqual(min(sent), 4 * 4 * self.task.num_parameters, name)

  def test_ifca_and_clove_send_a_client_every_model_once(self):
    config = _config(self.task, methods=("ifca", "clove"), num_clusters=3, **_FEDAVG_ALONE)
    recorder = run_recorder.Recorder()
    _run(config, self.task, recorder)
    num_bytes = 4 * self.task.num_parameters * len(self.task.clients)
    num_losses = 4 * 3 * len(self.task.clients)
    for name in ("ifca", "clove"):
      # Before the first round, and in each after or before training; one comes back trained.
      rounds = recorder.values(name, "", "bytes_down")
      self.assertEqual(rounds, [3 * num_bytes] * len(rounds), name)
      self.assertEqual(
          recorder.values(name, "", "bytes_up"),
          [num_losses] + [num_bytes + num_losses] * (len(rounds) - 1), name,
      )

  @nightly.only  # By day, `grouping_contract_test` has identical clients.
  def test_clients_with_the_same_data_share_a_cluster(self):
    task = _twins()
    result = _run(
        _config(
            task, num_clusters=3, distance_threshold="q0.1", hierarchical_cut="num_clusters",
            cfl_ratio=1e9, cfl_gap=-2.0, cfl_min_clients=3, representation="update",
            **_FEDAVG_ALONE,
        ),
        task,
    )
    for name in _ALL:
      clusters_of = cluster_assignment.clusters_of(result.methods[name].assignment.clusters)
      for kind in "xyz":
        one, other = (task.client_ids.index(f"{kind}{i}") for i in (1, 2))
        self.assertEqual(clusters_of[one], clusters_of[other], name)

  def test_personal_models_are_a_clients_own_and_so_are_those_of_new_ones(self):
    for name in _PERSONAL:
      found = self.result.methods[name]
      np.testing.assert_array_equal(
          found.assignment.clusters, np.arange(len(self.task.clients))[:, None], name
      )
      self.assertLen(np.unique(found.vectors, axis=0), len(self.task.clients), name)
      self.assertEqual(found.new_client_clusters, ((),), name)

  def test_more_steps_than_fedavg_have_a_control_of_as_many(self):
    matched = self.result.methods["fedavg_matched"].cost.steps
    most = max(self.result.methods[name].cost.steps for name in _PERSONAL)
    self.assertGreaterEqual(matched, most)
