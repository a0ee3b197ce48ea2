import contextlib
import dataclasses
import importlib.util
import os
import types
from unittest import mock

from absl.testing import absltest
from absl.testing import parameterized
import numpy as np
import pandas as pd

from experiment_shell import cell_processes
from experiment_shell import tidy_experiment
from experiments.study import cells
from experiments.study import tuning
from fl_clustering import runtime
from fl_clustering.engine import cost
from fl_clustering.engine import device_memory
from fl_clustering.engine import divergence
from fl_clustering.engine import participation
from fl_clustering.tasks import held_out
from fl_clustering.tasks import models
from fl_clustering.three_phase import checkpoint
from fl_clustering.three_phase import own_code
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


def _method(steps=16):
  return result_lib.MethodResult(
      assignment=mock.Mock(clusters=(("a",), ("b",))), vectors=np.zeros((2, 1)),
      best_accuracy=np.zeros(2), clients=_CONFUSIONS, clients_blended=_CONFUSIONS,
      global_mean=_CONFUSIONS[0], global_weighted=_CONFUSIONS[1], global_blended=_CONFUSIONS,
      new_clients=None, new_client_clusters=None, cost=cost.Cost(steps, 160, 150),
      ari=0.5, purity=None, validation=np.array([[[1, 3], [0, 1]]]),
  )


def _tell_rounds(observer, stage, steps):
  for number in (1, 2):
    observer.round_finished(stage, number, stages.metric_rows(stage, "", number, {
        "accuracy": number / 10, "steps": steps, "bytes_down": 10 * steps,
        "bytes_up": 10 * steps, "bytes": 20 * steps,
    }))


def _run(config, task, data_dir, checkpoints, observers, tolerated, only, least_steps):
  """Stands for `run_lib.run`: IFCA diverges."""
  del task, data_dir, tolerated, only, least_steps
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


def _task(**changes):
  return types.SimpleNamespace(**{
      "fingerprint": lambda: "of digits", "row_digests": {}, "source": "digits", "num_classes": 2,
      "clients": "ab", "new_clients": "", "model": types.SimpleNamespace(name="mlp"),
      "num_parameters": 1, "warnings": (), **changes,
  })


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
      self.assertEqual(started.mock_calls, [mock.call(1)] if engine == "tff" else [])

  def test_a_method_that_diverges_is_a_row_beside_the_others(self):
    run = mock.Mock(side_effect=_run)

    (problem,) = self._measure(run)["problems"]

    self.assertEqual((problem["method"], problem["problem"]), ("ifca", "nan, in round 1"))
    self.assertCountEqual(
        run.call_args.args[-1],
        [divergence.TrainingDiverged, MemoryError, device_memory.DeviceFull],
    )

  def test_the_last_round_costs_what_the_method_does(self):
    tables = self._measure()

    found, last = (
        {(row["method"], row["metric"]): row["value"] for row in tables[name]
         if row.get("round", 2) == 2}
        for name in ("results", "rounds")
    )
    costs = {key: found[key] for key in last if key[1] != "accuracy"}
    self.assertEqual(costs, {key: last[key] for key in costs})
    self.assertEqual((last["kmeans", "steps"], last["kmeans", "bytes"]), (16, 160 + 150))

  def test_checkpoints_stay_until_a_cell_is_measured(self):
    def stopped(*arguments, **options):
      _run(*arguments, **options)
      raise KeyboardInterrupt

    with self.assertRaises(KeyboardInterrupt):
      self._measure(stopped)
    self.assertEqual(self._checkpoints(), ["iid-seed1-fold0"])

    self._measure()
    self.assertEmpty(self._checkpoints())

  def test_checkpoints_that_can_not_be_read_are_made_again(self):
    path = os.path.join(self.folder, "checkpoints", "iid-seed1-fold0", "damaged")
    os.makedirs(path)

    def run(*arguments, **options):
      if os.path.exists(path):
        raise checkpoint.DamagedCheckpoint("it is damaged")
      return _run(*arguments, **options)

    self.assertNotEmpty(self._measure(run)["results"])
    self.assertEmpty(self._checkpoints())

  def test_what_is_to_be_known_of_the_data_is_told(self):
    self.load_task.side_effect = [_task(), _task(warnings=("a client without examples",))]
    study = sample_study.config(("iid", "rotated"), num_seeds=2, seed=3, evaluated_clients=1)
    with contextlib.ExitStack() as stack:
      found = cells.EXPERIMENT.load(study, stack, data_dir=None, num_cores=1).warnings
    self.assertEqual(
        [text.startswith("rotated, seed 3: a client") for text in found], [False, True]
    )

  @absltest.skipUnless(importlib.util.find_spec("distributed"), "Dask is an extra")
  def test_a_cluster_measures_the_same(self):
    import distributed

    self.load_task.return_value = _task()
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


class TunedCellsTest(parameterized.TestCase):
  """Rates of .1 and .2, and seeds 1 and 2, of which the second one is for tuning."""

  def setUp(self):
    super().setUp()
    self.folder = self.create_tempdir().full_path
    self.config = sample_study.config(
        ("iid",), num_seeds=1, learning_rates=(0.1, 0.2), tuning_seeds=1, seed=1, engine="jax",
    )
    self.runs = []
    self.enter_context(mock.patch.object(cells, "load_task", return_value=mock.Mock()))
    self.enter_context(mock.patch.object(cells.data_lib, "check_engine"))

  def _trained(self, config, task, data_dir, checkpoints, observers, tolerated, only, least_steps):
    """Stands for `run_lib.run`: FedAvg matched has as many steps as it must, the others 16."""
    del task, data_dir, tolerated
    self.runs.append((config.seed, config.learning_rate, only, least_steps))
    checkpoints.save("pretrain", "", 1, {}, [], True)
    names = only or {"kmeans", "ifca", "fedavg", "finetuned", "local", "fedavg_matched"}
    _tell_rounds(observers[0], "pretrain", 3)
    if "fedavg_matched" in names:
      _tell_rounds(observers[0], "fedavg_matched", 4)
    methods = {name: _method(max(16, least_steps)) for name in names - {"ifca"}}
    return result_lib.ThreePhaseResult(
        _pretrained(), np.arange(2), None, methods, {}, None, None,
        {"ifca": "nan"} if "ifca" in names else {},
    )

  def _measure(self, seed, run=None):
    whole = tidy_experiment.Run(self.config, cells.Machine(None, 1), self.folder)
    with mock.patch.object(run_lib, "run", run or self._trained):
      found = cells.EXPERIMENT.measure(whole, setting="iid", seed=seed, fold=0)
    self.assertEmpty(os.listdir(os.path.join(self.folder, "checkpoints")))
    return found

  def _choose(self, **taken):
    rows = [
        {**dict.fromkeys(tuning.COLUMNS, 0), "setting": "iid", "method": method,
         "candidate": candidate, "chosen": 1}
        for method, candidate in taken.items()
    ]
    path = os.path.join(self.folder, "chosen.csv")
    pd.DataFrame(rows, columns=[*tuning.COLUMNS]).to_csv(path, index=False)

  @parameterized.parameters((None, 2), (3, 6))
  def test_a_candidate_has_a_run_for_every_seed_and_fold(self, num_folds, num_runs):
    config = sample_study.config(("iid",), learning_rates=(0.1, 0.2), tuning_seeds=2,
                                 num_folds=num_folds)
    with mock.patch.object(tuning, "choose") as choose:
      choose.return_value.to_csv.return_value = ""
      cells.EXPERIMENT.finish(tidy_experiment.Run(config, None, self.folder), {tuning.TUNING: None})
    self.assertEqual(choose.call_args.args[-1], num_runs)

  def test_tuning_seeds_come_first_and_are_others(self):
    found = [cell["seed"] for cell in cells.cells(self.config)]
    self.assertEqual(found, [2, 1])
    self.assertEqual(cells.EXPERIMENT.num_first(self.config), 1)

  def test_with_a_tuning_seed_all_methods_run_with_every_candidate(self):
    found = self._measure(2)

    self.assertEqual(self.runs, [(2, 0.1, None, 0), (2, 0.2, None, 16)])
    self.assertEmpty(found["results"])
    self.assertEqual({row["candidate"] for row in found["tuning"]}, {"0.1", "0.2"})
    rounds = {
        row["method"]: row["value"] for row in found["tuning"] if row["metric"] == "rounds"
    }
    # Two rounds of each phase; the last one told two more.
    self.assertEqual((rounds["kmeans"], rounds["fedavg_matched"]), (4, 6))
    self.assertEqual(
        [row["candidate"] for row in found["tuning"] if row["metric"] == "failed"], ["0.1", "0.2"]
    )
    self.assertEqual(
        [row["problem"] for row in found["problems"]],
        ["learning_rate=0.1: nan", "learning_rate=0.2: nan"],
    )

  def test_a_reported_seed_has_runs_of_those_that_took_their_candidate(self):
    self._choose(kmeans="0.1", fedavg="0.2", local="0.2", fedavg_matched="0.1")

    found = self._measure(1)

    # What is matched comes last, and goes on from FedAvg.
    self.assertEqual(self.runs, [
        (1, 0.2, {"fedavg", "local"}, 0), (1, 0.1, {"kmeans", "fedavg_matched", "fedavg"}, 16),
    ])
    steps = [row for row in found["results"] if row["metric"] == "steps"]
    # Phase 1 is that of FedAvg's candidate, and counts once.
    self.assertCountEqual(
        [row["method"] for row in steps],
        ["pretrain", "kmeans", "fedavg", "local", "fedavg_matched"],
    )
    self.assertCountEqual(
        {row["method"] for row in found["rounds"]}, ["pretrain", "fedavg_matched"]
    )
    self.assertEmpty([*found["tuning"], *found["problems"]])

  def test_what_no_tuning_run_needed_a_reported_one_may_match(self):
    self._choose(kmeans="0.1", fedavg="0.2")

    found = self._measure(1)

    self.assertEqual(self.runs, [
        (1, 0.1, {"kmeans"}, 0), (1, 0.2, {"fedavg", "fedavg_matched"}, 16),
    ])
    self.assertIn("fedavg_matched", {row["method"] for row in found["results"]})

  @parameterized.parameters((2, 3 + 2), (1, 2))
  def test_a_phase_1_that_diverges_fails_what_has_the_candidate(self, seed, num_failed):
    self._choose(kmeans="0.1", fedavg="0.2")

    def run(config, *arguments, **options):
      if config.learning_rate == 0.2:
        raise divergence.TrainingDiverged("nan")
      return self._trained(config, *arguments, **options)

    found = self._measure(seed, run)

    failed = [row for row in found["problems"] if "0.2" in row["problem"]]
    self.assertLen(failed, num_failed)
    self.assertNotEmpty(found["results" if seed == 1 else "tuning"])

  def test_where_fedavg_fails_what_goes_on_from_it_does(self):
    self._choose(kmeans="0.1", fedavg="0.2", fedavg_matched="0.1")

    def run(config, *arguments, **options):
      result = self._trained(config, *arguments, **options)
      return dataclasses.replace(result, failures={"fedavg": "nan"})

    found = self._measure(1, run)

    self.assertEqual(
        [row["method"] for row in found["problems"]], ["fedavg", "fedavg_matched"]
    )

  def test_models_that_do_not_fit_into_memory_fail_the_cell(self):
    with self.assertRaises(cells.EXPERIMENT.failures):
      self._measure(2, mock.Mock(side_effect=run_lib.TooLarge("`num_clients` must be less")))

  def test_a_setting_without_any_candidate_has_no_run(self):
    self._choose()
    os.mkdir(os.path.join(self.folder, "checkpoints"))

    self.assertEmpty(self._measure(1)["results"])


class LoadTest(parameterized.TestCase):

  def test_data_without_validation_rows_can_not_be_tuned_with(self):
    study = sample_study.config(("iid",), learning_rates=(0.1, 0.2), evaluated_clients=1)
    (evaluated,) = participation.evaluated(study.run_config("iid", 0), 8)
    task = mock.MagicMock()
    task.clients.__len__.return_value = 8
    # A client that is not evaluated may have some.
    others = types.SimpleNamespace(counts=np.where(np.arange(8) == evaluated, 0, 2))
    with mock.patch.object(cells.task_registry, "load_task", return_value=task):
      for task.clients.validation in (None, others):
        with self.assertRaisesRegex(ValueError, "^`validation_share` must "):
          cells.load_task(study, None, "iid", 0, 0)

  def test_a_model_that_a_method_can_not_work_with_is_refused(self):
    study = sample_study.config(("iid",), personal=("fedrep",))
    task = mock.MagicMock(model=models.build("logistic", (4,), 2, "float32"))
    with (
        mock.patch.object(cells.task_registry, "load_task", return_value=task),
        self.assertRaisesRegex(ValueError, "^`model` must"),
    ):
      cells.load_task(study, None, "iid", 0, 0)

  def test_processes_import_the_modules_of_methods_of_others(self):
    with (
        mock.patch.object(cells, "load_task", return_value=mock.MagicMock(row_digests=None)),
        mock.patch.object(own_code, "modules", return_value=["mine"]),
    ):
      inputs = cells.EXPERIMENT.load(
          sample_study.config(("iid",)), None, data_dir=None, num_cores=3
      )
    self.assertEqual(inputs.processes.modules, ["mine"])
    # Sums depend on how many threads add them.
    variables = inputs.processes.variables
    self.assertEqual([variables[name] for name in ("OMP_NUM_THREADS", "NPROC")], ["1", "1"])

  def test_looks_at_the_first_cell_of_every_setting(self):
    study = sample_study.config(("iid", "rotated"), num_seeds=2, num_folds=2, seed=3)
    task = mock.MagicMock(row_digests=None)
    with mock.patch.object(cells, "load_task", return_value=task) as load:
      cells.EXPERIMENT.load(study, None, data_dir="data", num_cores=3)

    self.assertEqual(load.call_args_list, [
        mock.call(study, "data", setting=setting, seed=3, fold=1) for setting in ("iid", "rotated")
    ])

  @parameterized.parameters((None, 0, None), (3, 1, held_out.Fold(0, 3)))
  def test_folds_count_from_one(self, num_folds, fold, expected):
    study = sample_study.config(("iid",), num_folds=num_folds)
    with mock.patch.object(cells.task_registry, "load_task") as load:
      cells.load_task(study, None, "iid", 2, fold)

    self.assertEqual((load.call_args.args[0].seed, load.call_args.args[2].seed), (2, 2))
    self.assertEqual(load.call_args.args[-1], expected)


class StudyConfigTest(parameterized.TestCase):

  def test_a_run_has_its_settings_and_its_seed(self):
    study = sample_study.config(("rotated",), num_seeds=2)

    run = study.run_config("rotated", 1)

    self.assertEqual((run.partition, run.num_groups, run.seed), ("rotated", 4, 1))
    self.assertEqual(run.methods, study.run.methods)

  def test_a_run_has_its_candidate_which_the_json_leaves_open(self):
    study = sample_study.config(tune="num_clusters:2,3", num_seeds=2)

    self.assertEqual(study.run_config("iid", 3, "3").num_clusters, 3)
    self.assertEqual([*study.seeds_to_tune], [2, 3, 4])
    self.assertNotIn("num_clusters", study.to_json())

  def test_json_has_the_studys_settings_and_those_of_all_runs(self):
    found = sample_study.config(num_folds=3, ifca_start="perturbed").to_json()

    self.assertEqual((found["num_folds"], found["ifca_start"]), (3, "perturbed"))
    self.assertNotIn("partition", found)

  @parameterized.named_parameters(
      ("unknown", {"settings": ("sorted",)}, "settings"),
      ("no_seeds", {"num_seeds": 0}, "num_seeds"),
      ("one_fold", {"num_folds": 1}, "num_folds"),
      ("decided", {"partition": "iid"}, "partition"),
      ("one_candidate", {"learning_rates": (0.1,)}, "learning_rates"),
      ("twice", {"learning_rates": (0.1, 0.1)}, "learning_rates"),
      ("no_rate", {"learning_rates": (0.1, -1.0)}, "learning_rate"),
      ("two_tuned", {"learning_rates": (0.1, 0.2), "tune": "ifca_restarts:1,3"}, "tune"),
      ("unknown_option", {"tune": "rate:1,3"}, "tune"),
      ("of_all", {"tune": "num_clients:8,9"}, "tune"),
      ("of_others", {"tune": "ifca_start:random,grouped"}, "tune"),
      ("no_number", {"tune": "ifca_restarts:1,few"}, "ifca_restarts"),
      ("of_no_method", {"tune": "cfl_gap:0.1,0.2"}, "cfl_gap"),
      ("nothing_tuned", {"tuning_seeds": 2}, "tuning_seeds"),
      ("no_tuning_seeds", {"learning_rates": (0.1, 0.2), "tuning_seeds": 0}, "tuning_seeds"),
      (
          "no_validation", {"learning_rates": (0.1, 0.2), "validation_share": 0.0},
          "validation_share",
      ),
      ("repeats", {"control_repeats": 1}, "control_repeats"),
      ("own_clients", {"settings": ("natural",)}, "partition"),
      ("too_few_clients", {"num_clients": 3, "settings": ("rotated",)}, "num_clients"),
  )
  def test_bad_settings(self, values, name):
    with self.assertRaisesRegex(ValueError, f"^`{name}` must "):
      sample_study.config(**values)
