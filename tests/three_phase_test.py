import tempfile
import unittest

from absl.testing import absltest
import numpy as np

from fl_clustering import checkpoint
from fl_clustering import config as config_lib
from fl_clustering import metrics
from fl_clustering import runtime
from fl_clustering import stages
from fl_clustering import summary
from fl_clustering import three_phase
from tests import small_task

_task = None


def setUpModule():
  global _task
  _task = small_task.small_task()
  local = runtime.LocalRuntime()
  unittest.addModuleCleanup(local.close)


def _config(**settings):
  return config_lib.ThreePhaseConfig(**{
      "dataset": "digits", "num_clients": 5, "pretrain_rounds": 2, "cluster_rounds": 2,
      "groupings": ("kmeans",), **settings,
  })


def _run(config, checkpoints=None, observers=()):
  with tempfile.TemporaryDirectory() as folder:
    return three_phase.run(config, _task, folder, checkpoints, observers)


class _Recorder(stages.RunObserver):
  """Keeps what it is told; raises `_Stop` at one moment."""

  def __init__(self, stop_at=None):
    self.rows = []
    self._stop_at = stop_at

  def round_finished(self, stage, round_num, rows):
    self.rows += rows
    if (stage, round_num) == self._stop_at:
      raise _Stop


class _Stop(Exception):
  pass


class ThreePhaseTest(absltest.TestCase):

  def test_own_weights_are_those_of_the_last_round(self):
    result = _run(_config())
    sizes = [len(client.train) for client in _task.clients]
    mean = np.average(result.client_weights.vectors, axis=0, weights=sizes)
    np.testing.assert_allclose(mean, result.pretrain.vector, atol=1e-6)
    self.assertEqual(result.client_weights.client_ids, _task.client_ids)
    moved = result.client_weights.vectors - result.client_weights.global_vector
    self.assertTrue(np.all(np.abs(moved).max(axis=1) > 1e-4))

  def test_grouping_epochs_start_from_the_final_model(self):
    result = _run(_config(grouping_epochs=1))
    np.testing.assert_array_equal(
        result.client_weights.global_vector, result.pretrain.vector
    )

  def test_fedavg_control_has_the_grouping_epochs_too(self):
    def start_of_fedavg(**settings):
      recorder = _Recorder()
      result = _run(
          _config(groupings=(), cluster_rounds=1, **settings), observers=[recorder]
      )
      (accuracy,) = [
          row.value
          for row in recorder.rows
          if (row.method, row.round, row.metric) == ("fedavg", 0, "clients_accuracy_mean")
      ]
      return accuracy, result

    at_pretrained, plain = start_of_fedavg()
    after_grouping_epochs, longer = start_of_fedavg(grouping_epochs=3)
    np.testing.assert_array_equal(plain.pretrain.vector, longer.pretrain.vector)
    self.assertEqual(at_pretrained, metrics.accuracy(plain.pretrain.clients).mean())
    self.assertNotEqual(after_grouping_epochs, at_pretrained)

  def test_local_starts_from_every_clients_own_weights(self):
    recorder = _Recorder()
    result = _run(_config(), observers=[recorder])
    accuracy = [
        row.value for row in recorder.rows
        if (row.method, row.round, row.metric) == ("local", 0, "clients_accuracy_mean")
    ]
    expected = metrics.accuracy(result.pretrain.own_weights).mean()
    self.assertEqual(accuracy, [expected])

  def test_clusters_get_nothing_back_from_each_other(self):
    whole = _run(_config(num_clusters=4))
    clusters = whole.methods["kmeans"].assignment.clusters
    alone = _run(_config(groupings=()))
    # A cluster of one client trains as that client does in the control `local`:
    # of four clusters of five clients at least three are such.
    for k, members in enumerate(clusters):
      if len(members) == 1:
        position = _task.client_ids.index(members[0])
        np.testing.assert_array_equal(
            whole.methods["kmeans"].vectors[k], alone.methods["local"].vectors[position]
        )
    np.testing.assert_array_equal(
        whole.methods["local"].vectors, alone.methods["local"].vectors
    )

  def test_phase_3_models(self):
    result = _run(_config(num_clusters=3)).methods["kmeans"]
    self.assertEqual(result.global_blended.shape, (3, 10, 10))
    for confusion in (result.global_mean, result.global_weighted, *result.global_blended):
      self.assertEqual(confusion.sum(), len(_task.global_test))
    self.assertEqual(
        list(result.clients.sum(axis=(1, 2))), [len(c.test) for c in _task.clients]
    )
    self.assertTrue(np.all(result.best_accuracy <= 1))

  def test_stopped_anywhere_and_run_again_gives_the_same(self):
    config = _config(
        groupings=("kmeans", "dynamic_distance"), clients_per_round=3, num_clusters=2
    )
    expected = _Recorder()
    expected_summary = summary.summarize(
        config, _task, _run(config, observers=[expected])
    )
    for stop_at in (("pretrain", 1), ("kmeans", 0), ("kmeans", 2), ("fedavg", 1)):
      with self.subTest(stop_at=stop_at):
        folder = self.create_tempdir().full_path
        with self.assertRaises(_Stop):
          _run(config, checkpoint.Checkpoints(folder), [_Recorder(stop_at)])
        recorder = _Recorder()
        result = _run(config, checkpoint.Checkpoints(folder), [recorder])
        self.assertEqual(summary.summarize(config, _task, result), expected_summary)
        self.assertEqual(recorder.rows, expected.rows)

  def test_clipped_and_private_aggregators_resume(self):
    config = _config(groupings=(), aggregator="clipped", clipping_norm=0.1)
    folder = self.create_tempdir().full_path
    with self.assertRaises(_Stop):
      _run(config, checkpoint.Checkpoints(folder), [_Recorder(("pretrain", 1))])
    resumed = _run(config, checkpoint.Checkpoints(folder))
    np.testing.assert_array_equal(
        resumed.pretrain.vector, _run(config).pretrain.vector
    )
    private = _run(_config(groupings=(), aggregator="dp"))
    self.assertGreater(private.privacy["epsilon"], 0)
    self.assertIsNone(resumed.privacy)


if __name__ == "__main__":
  absltest.main()
