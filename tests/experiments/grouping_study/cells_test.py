import os
from unittest import mock

from absl.testing import absltest
from absl.testing import parameterized
import numpy as np

from experiment_shell import finished_run
from experiments.grouping_study import cells
from experiments.grouping_study import config as config_lib
from fl_clustering.engine import cost
from fl_clustering.engine import divergence
from fl_clustering.tasks import partition
from fl_clustering.three_phase import checkpoint
from fl_clustering.three_phase import result as result_lib
from fl_clustering.three_phase import run as run_lib
from fl_clustering.three_phase import stages
from tests.experiments.grouping_study import sample_study

_CONFUSIONS = np.array([[[3, 1], [0, 4]], [[2, 2], [1, 3]]])  # Two clients, two labels.


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
      adjusted_rand_index=0.5, purity=None, validation=np.array([[[1, 3], [0, 1]]]),
  )


def _tell_rounds(observer, stage, num_rounds, steps):
  observer.stage_begins(stage)
  for number in range(1, num_rounds + 1):
    observer.round_finished(stage, number, stages.metric_rows("cluster", stage, "", number, {
        "clients_accuracy_mean": number / 10, "client_steps": steps, "bytes_down": 10 * steps,
        "bytes_up": 10 * steps,
    }))


def _run(config, task, data_dir, checkpoints, observers, tolerated, failed):
  """Stands for `run_lib.run`: IFCA diverges."""
  del config, task, data_dir, checkpoints, tolerated
  (observer,) = observers
  _tell_rounds(observer, "pretrain", 2, 3)
  methods = {}
  for name in ("kmeans", "fedavg", "finetuned", "local"):
    if name not in failed:
      _tell_rounds(observer, name, 2, 4)
      methods[name] = _method()
  return result_lib.ThreePhaseResult(
      _pretrained(), None, methods, None, None, None, None, {"ifca": "nan", **failed}
  )


class CellsTest(parameterized.TestCase):

  def setUp(self):
    super().setUp()
    self.folder = self.create_tempdir().full_path
    self.config = sample_study.config(("iid",), num_seeds=2)
    self.told = []
    self.enter_context(mock.patch.object(cells, "load_task", return_value=mock.Mock()))

  def _measure(self, run, group=None, failed=()):
    with mock.patch.object(run_lib, "run", run):
      cells.measure_group(
          self.config, group or self.config.groups[0], None, self.folder, dict(failed),
          self.told.append,
      )

  def _rows(self, name=cells.RESULTS):
    cells.write_joined(self.config, self.folder)
    return finished_run.FinishedRun(self.folder).rows(name, cells.TEXT_COLUMNS)

  def test_rows_of_a_group(self):
    self._measure(_run)

    rows = self._rows()
    self.assertEqual(
        [row["method"] for row in rows],
        ["pretrain", "kmeans", "ifca", "fedavg", "finetuned", "local"],
    )
    kmeans = rows[1]
    self.assertEqual(kmeans["accuracy"], (7 / 8 + 5 / 8) / 2)
    self.assertEqual(kmeans["global_weighted_accuracy"], 5 / 8)
    self.assertEqual(kmeans["validation_accuracy"], 2 / 5)
    self.assertEqual((kmeans["num_clusters"], kmeans["adjusted_rand_index"]), (2, 0.5))
    self.assertEqual((kmeans["client_steps"], kmeans["bytes_up"]), (16, 150))
    self.assertEqual((kmeans["purity"], kmeans["problem"]), (None, ""))
    self.assertEqual(rows[0]["global_accuracy"], 7 / 8)
    self.assertEqual((rows[2]["accuracy"], rows[2]["problem"]), (None, "nan"))
    self.assertEqual(self.told, ["data", "pretrain", "kmeans", "fedavg", "finetuned", "local"])

  def test_costs_of_rounds_include_what_came_before(self):
    self._measure(_run)

    rounds = {
        (row["method"], row["round"]): (row["client_steps"], row["bytes"])
        for row in self._rows(cells.ROUNDS)
    }
    self.assertEqual(rounds["pretrain", 1], (3, 60))
    self.assertEqual(rounds["kmeans", 1], (12, 230))
    self.assertEqual(rounds["kmeans", 2], (16, 310))
    self.assertNotIn(("ifca", 1), rounds)

  def test_a_method_that_is_known_to_fail_is_a_row(self):
    self._measure(_run, failed={"local": "no memory"})

    self.assertEqual(self._rows()[-1]["problem"], "no memory")

  def test_checkpoints_stay_where_a_process_ended(self):
    group = self.config.groups[0]
    checkpoints = os.path.join(cells.group_folder(self.folder, group), "checkpoints")
    os.makedirs(checkpoints)

    self._measure(_run, failed={"local": f"{cells.PROCESS_ENDED} with code -9"})
    self.assertFalse(cells.is_measured(self.folder, group))
    self.assertTrue(os.path.exists(checkpoints))
    self.assertEqual(self._rows()[-1]["problem"], "the process ended with code -9")

    self._measure(_run)
    self.assertTrue(cells.is_measured(self.folder, group))
    self.assertFalse(os.path.exists(checkpoints))

  def test_phase_1_that_diverges_is_the_failure_of_all(self):
    self._measure(mock.Mock(side_effect=divergence.TrainingDiverged("nan,\nin round 1")))

    problems = {row["method"]: row["problem"] for row in self._rows()}
    self.assertEqual(
        problems, dict.fromkeys(cells.methods_of(self.config.run), "nan, in round 1")
    )

  @parameterized.parameters("", "of 3 GB")
  def test_phase_1_without_memory_is_the_failure_of_all(self, text):
    self._measure(mock.Mock(side_effect=MemoryError(text)))

    self.assertEqual({row["problem"] for row in self._rows()}, {text or "MemoryError"})

  def test_a_method_may_diverge_or_lack_memory(self):
    run = mock.Mock(side_effect=_run)

    self._measure(run)

    self.assertCountEqual(
        run.call_args.kwargs["tolerated"], [divergence.TrainingDiverged, MemoryError]
    )

  def test_a_draw_with_too_few_examples_is_the_failure_of_all(self):
    cells.load_task.side_effect = partition.TooFewExamples("`num_clients` must be less")

    self._measure(_run)

    self.assertEqual({row["problem"] for row in self._rows()}, {"`num_clients` must be less"})

  def test_data_that_are_not_there_are_no_result(self):
    cells.load_task.side_effect = ValueError("`data_dir` must be a folder")

    with self.assertRaisesRegex(ValueError, "`data_dir` must be a folder"):
      self._measure(_run)

    self.assertEmpty(self._rows())
    self.assertFalse(cells.is_measured(self.folder, self.config.groups[0]))

  def test_checkpoints_that_can_not_be_read_are_made_again(self):
    folder = cells.group_folder(self.folder, self.config.groups[0])
    checkpoints = os.path.join(folder, "checkpoints")
    os.makedirs(checkpoints)
    with open(os.path.join(checkpoints, "pretrain.npz"), "w", encoding="utf-8") as file:
      file.write("damaged")

    def run(*arguments, **options):
      if os.path.exists(os.path.join(checkpoints, "pretrain.npz")):
        raise checkpoint.DamagedCheckpoint("it is damaged")
      return _run(*arguments, **options)

    self._measure(run)

    self.assertEqual(self._rows()[1]["problem"], "")
    self.assertFalse(os.path.exists(checkpoints))

  def test_tables_are_joined_in_the_order_of_the_study(self):
    first, second = self.config.groups
    self._measure(_run, second)
    self.assertEqual({row["seed"] for row in self._rows()}, {1})

    self._measure(_run, first)

    self.assertEqual([row["seed"] for row in self._rows()], [0] * 6 + [1] * 6)
    self.assertTrue(cells.is_measured(self.folder, first))
    self.assertFalse(cells.is_measured(self.folder, config_lib.Group("iid", 2, None)))


if __name__ == "__main__":
  absltest.main()
