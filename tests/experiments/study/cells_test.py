import contextlib
import importlib.util
import os
import types
from unittest import mock

from absl.testing import absltest
from absl.testing import parameterized
import numpy as np

from experiment_shell import cell_processes
from experiment_shell import tidy_experiment
from experiments.study import cells
from fl_clustering import runtime
from fl_clustering.engine import cost
from fl_clustering.engine import device_memory
from fl_clustering.engine import divergence
from fl_clustering.methods import registry as method_registry
from fl_clustering.tasks import held_out
from fl_clustering.three_phase import checkpoint
from fl_clustering.three_phase import result as result_lib
from fl_clustering.three_phase import run as run_lib
from fl_clustering.three_phase import stages
from tests.experiments.study import sample_study

_CONFUSIONS = np.array([[[3, 1], [0, 4]], [[2, 2], [1, 3]]])  # Two clients, two labels.
_CELL = {"setting": "iid", "seed": 1, "fold": 0}


def _pretrained():
  return result_lib.PretrainResult(
      vector=np.zeros(1), global_test=_CONFUSIONS[0], clients=_CONFUSIONS,
      own_weights=_CONFUSIONS, new_clients=None, cost=cost.Cost(6, 60, 60),
  )


def _method():
  return result_lib.MethodResult(
      assignment=mock.Mock(clusters=(("a",), ("b",))), vectors=np.zeros((2, 1)),
      best_accuracy=np.zeros(2), clients=_CONFUSIONS, clients_blended=_CONFUSIONS,
      global_mean=_CONFUSIONS[0], global_weighted=_CONFUSIONS[1], global_blended=_CONFUSIONS,
      new_clients=None, new_client_clusters=None, cost=cost.Cost(16, 160, 150),
      ari=0.5, purity=None, validation=np.array([[[1, 3], [0, 1]]]),
  )


def _tell_rounds(observer, stage, steps):
  for number in (1, 2):
    observer.round_finished(stage, number, stages.metric_rows(stage, "", number, {
        "accuracy": number / 10, "steps": steps, "bytes_down": 10 * steps,
        "bytes_up": 10 * steps, "bytes": 20 * steps,
    }))


def _run(config, task, data_dir, checkpoints, observers, tolerated):
  """Stands for `run_lib.run`: IFCA diverges."""
  del task, data_dir, tolerated
  assert config.seed == 1
  checkpoints.save("pretrain", "", 1, {}, [], True)
  (observer,) = observers
  _tell_rounds(observer, "pretrain", 3)
  for name in ("kmeans", "fedavg"):
    _tell_rounds(observer, name, 4)
  methods = {name: _method() for name in ("kmeans", "fedavg")}
  return result_lib.ThreePhaseResult(
      _pretrained(), np.arange(2), None, methods, {}, None, None,
      {"ifca": "nan,\nin round 1"},
  )


class CellsTest(parameterized.TestCase):

  def setUp(self):
    super().setUp()
    self.folder = self.create_tempdir().full_path
    self.config = sample_study.config(("iid",), num_seeds=2)
    self.load_task = self.enter_context(
        mock.patch.object(cells, "load_task", return_value=mock.Mock())
    )
    self.enter_context(mock.patch.object(runtime, "LocalRuntime", contextlib.nullcontext))

  def _measure(self, run=_run):
    whole = tidy_experiment.Run(self.config, cells.Machine(None, 1), self.folder)
    with mock.patch.object(run_lib, "run", run):
      return cells.EXPERIMENT.measure(whole, **_CELL)

  def _checkpoints(self):
    return os.listdir(os.path.join(self.folder, "checkpoints"))

  def test_are_settings_seeds_and_folds(self):
    study = sample_study.config(("iid", "rotated"), num_seeds=2, num_folds=2, seed=3)

    self.assertEqual(
        [tuple(cell.values()) for cell in cells.cells(study)],
        [(setting, seed, fold) for setting in ("iid", "rotated") for seed in (3, 4)
         for fold in (1, 2)],
    )
    self.assertEqual([cell["fold"] for cell in cells.cells(self.config)], [0, 0])

  def test_tff_starts_for_its_engine_alone(self):
    for engine in ("tff", "jax"):
      self.config = sample_study.config(
          ("iid",), num_seeds=2, methods=("kmeans",), engine=engine
      )
      with mock.patch.object(
          runtime, "LocalRuntime", return_value=contextlib.nullcontext()
      ) as started:
        self._measure()
      self.assertEqual(started.called, engine == "tff")

  def test_a_method_that_diverges_is_a_row_beside_the_others(self):
    run = mock.Mock(side_effect=_run)

    (problem,) = self._measure(run)["problems"]

    self.assertEqual((problem["method"], problem["problem"]), ("ifca", "nan, in round 1"))
    self.assertCountEqual(
        run.call_args.args[-1],
        [divergence.TrainingDiverged, MemoryError, device_memory.DeviceFull],
    )

  def test_checkpoints_stay_until_a_cell_is_measured(self):
    def stopped(*arguments):
      _run(*arguments)
      raise KeyboardInterrupt

    with self.assertRaises(KeyboardInterrupt):
      self._measure(stopped)
    self.assertEqual(self._checkpoints(), ["iid-seed1-fold0"])

    self._measure()
    self.assertEmpty(self._checkpoints())

  def test_checkpoints_that_can_not_be_read_are_made_again(self):
    path = os.path.join(self.folder, "checkpoints", "iid-seed1-fold0", "damaged")
    os.makedirs(path)

    def run(*arguments):
      if os.path.exists(path):
        raise checkpoint.DamagedCheckpoint("it is damaged")
      return _run(*arguments)

    self.assertNotEmpty(self._measure(run)["results"])
    self.assertEmpty(self._checkpoints())

  @absltest.skipUnless(importlib.util.find_spec("distributed"), "Dask is an extra")
  def test_a_cluster_measures_the_same(self):
    import distributed

    self.load_task.return_value = types.SimpleNamespace(
        fingerprint=lambda: "of digits", row_digests={}, source="digits", num_classes=2,
        clients="ab", new_clients="", model=types.SimpleNamespace(name="mlp"), num_parameters=1,
    )
    self.config = sample_study.config(("iid", "rotated"), num_seeds=1, seed=1)
    expected = [dict(row) for row in self._measure()["results"]]
    self.enter_context(mock.patch.dict(os.environ))  # The worker is in this process.
    with (
        distributed.LocalCluster(
            n_workers=1, threads_per_worker=1, processes=False, protocol="tcp://",
            dashboard_address=None,
        ) as cluster,
        cell_processes.connected(cluster.scheduler_address) as client,
        mock.patch.object(run_lib, "run", _run),
    ):
      found = tidy_experiment.run(
          cells.EXPERIMENT, self.config, os.path.join(self.folder, "out"), data_dir=None,
          num_cores=1, client=client,
      )
    for setting in ("iid", "rotated"):
      own = found[found["setting"] == setting][list(expected[0])]
      self.assertEqual(own.to_dict("records"), expected)

  @parameterized.parameters(
      divergence.TrainingDiverged("nan"), MemoryError("of 3 GB"), runtime.WorkerLost("gone"),
      device_memory.DeviceFull("full"),
  )
  def test_a_phase_1_that_fails_is_a_cell_that_fails(self, error):
    with self.assertRaises(cells.EXPERIMENT.failures):
      self._measure(mock.Mock(side_effect=error))


class LoadTest(parameterized.TestCase):

  def test_processes_import_the_modules_of_methods_of_others(self):
    with (
        mock.patch.object(cells, "load_task", return_value=mock.MagicMock(row_digests=None)),
        mock.patch.object(method_registry, "modules_of_others", return_value=["mine"]),
    ):
      inputs = cells.EXPERIMENT.load(
          sample_study.config(("iid",)), None, data_dir=None, num_cores=1
      )
    self.assertEqual(inputs.processes.modules, ["mine"])

  @parameterized.parameters((None, 0, None), (3, 1, held_out.Fold(0, 3)))
  def test_folds_count_from_one(self, num_folds, fold, expected):
    study = sample_study.config(("iid",), num_folds=num_folds)
    with mock.patch.object(cells.task_registry, "load_task") as load:
      cells.load_task(study, None, "iid", 0, fold)

    self.assertEqual(load.call_args.args[-1], expected)


class StudyConfigTest(parameterized.TestCase):

  def test_a_run_has_its_settings_and_its_seed(self):
    study = sample_study.config(("rotated",), num_seeds=2)

    run = study.run_config("rotated", 1)

    self.assertEqual((run.partition, run.num_groups, run.seed), ("rotated", 4, 1))
    self.assertEqual(run.methods, study.run.methods)

  def test_json_has_the_studys_settings_and_those_of_all_runs(self):
    found = sample_study.config(num_folds=3, ifca_start="perturbed").to_json()

    self.assertEqual((found["num_folds"], found["ifca_start"]), (3, "perturbed"))
    self.assertNotIn("partition", found)

  @parameterized.named_parameters(
      ("unknown", {"settings": ("sorted",)}, "settings"),
      ("no_seeds", {"num_seeds": 0}, "num_seeds"),
      ("one_fold", {"num_folds": 1}, "num_folds"),
      ("decided", {"partition": "iid"}, "partition"),
      ("repeats", {"control_repeats": 1}, "control_repeats"),
      ("own_clients", {"settings": ("natural",)}, "partition"),
      ("too_few_clients", {"num_clients": 3, "settings": ("rotated",)}, "num_clients"),
  )
  def test_bad_settings(self, values, name):
    with self.assertRaisesRegex(ValueError, f"^`{name}` must "):
      sample_study.config(**values)
