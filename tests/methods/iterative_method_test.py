"""A method that moves clients between clusters in every round, in a whole run."""

import dataclasses
import tempfile
from unittest import mock

from absl.testing import absltest
import numpy as np

from fl_clustering import runtime
from fl_clustering.methods import cluster_assignment
from fl_clustering.methods import method
from fl_clustering.methods import new_clients
from fl_clustering.methods import registry
from fl_clustering.three_phase import checkpoint
from fl_clustering.three_phase import config as config_lib
from fl_clustering.three_phase import run as run_lib
from fl_clustering.three_phase import summary
from tests import letters
from tests import run_recorder
from tests import small_task

_NAME = "by_loss"
# Their labels are turned around: a model for the others is wrong for them.
_TURNED = ("b", "d")


@dataclasses.dataclass(frozen=True)
class _Settings:
  """No options."""


def _by_loss(settings, engine):
  """Moves every client to the cluster whose model is best on its training data."""
  del settings

  def initialize(pretrained, rng):
    del rng
    weights = pretrained.client_weights
    own = [weights.mean_of(letters.clients(name)) for name in "de"]
    # Everyone begins in a cluster whose model knows nothing.
    vectors = np.stack([np.zeros_like(pretrained.vector), *own])
    memory = {"moves": np.zeros(0, np.int64)}
    return method.ClusterState(vectors, (engine.clients, (), ()), memory)

  def next_state(state, round_):
    losses = engine.losses(state.vectors, engine.clients)
    nearest = losses.argmin(axis=0)
    members = cluster_assignment.of_labels(nearest, len(state.vectors))
    moved = np.sum(nearest != cluster_assignment.labels_of(state.members))
    vectors, losses = engine.train(state.vectors, members, round_)
    memory = {"moves": np.append(state.memory["moves"], moved)}
    return method.ClusterState(vectors, members, memory), losses

  return method.Method(initialize, next_state, new_clients.by_loss(engine))


def _turned(examples):
  return dataclasses.replace(examples, labels=9 - examples.labels)


def _two_kinds_of_clients():
  task = small_task.small_task()
  clients = tuple(
      dataclasses.replace(client, train=_turned(client.train), test=_turned(client.test), group=1)
      if client.client_id in _TURNED
      else dataclasses.replace(client, group=0)
      for client in task.clients
  )
  return dataclasses.replace(task, clients=clients)


def _rounds_with_accuracy(recorder, cluster):
  """Returns the rounds in which a cluster has an accuracy."""
  return [
      row.round
      for row in recorder.rows
      if (row.method, row.cluster, row.metric) == (_NAME, cluster, "accuracy")
  ]


class IterativeMethodTest(absltest.TestCase):

  def setUp(self):
    super().setUp()
    local = runtime.LocalRuntime()
    self.addCleanup(local.close)
    entry = registry.MethodEntry(_Settings, _by_loss)
    self.enter_context(mock.patch.dict(registry.METHODS, {_NAME: entry}))
    self._task = _two_kinds_of_clients()
    self._config = config_lib.ThreePhaseConfig(
        dataset="digits", num_clients=5, pretrain_rounds=1, cluster_rounds=3,
        methods=(_NAME,), grouping_epochs=40, client_epochs_per_round=2,
    )

  def _run(self, recorder, folder=None):
    checkpoints = checkpoint.Checkpoints(folder) if folder else None
    with tempfile.TemporaryDirectory() as data_dir:
      return run_lib.run(self._config, self._task, data_dir, checkpoints, [recorder])

  def test_finds_the_clients_of_a_kind_and_resumes(self):
    recorder = run_recorder.Recorder()
    result = self._run(recorder)
    found = result.methods[_NAME]
    self.assertEqual(letters.names(recorder.grouped[_NAME].clusters), ("abcde",))
    # The first cluster became empty, so it is not reported.
    self.assertEqual(_rounds_with_accuracy(recorder, 0), [0])
    self.assertEqual(_rounds_with_accuracy(recorder, 1), [1, 2, 3])
    self.assertEqual(letters.names(found.assignment.clusters), ("bd", "ace"))
    self.assertEqual(found.adjusted_rand_index, 1)
    self.assertEqual(found.vectors.shape, (2, self._task.num_parameters))

    folder, resumed_recorder = self.create_tempdir().full_path, run_recorder.Recorder()
    with self.assertRaises(run_recorder.Stop):
      self._run(run_recorder.Recorder((_NAME, 2)), folder)
    resumed = self._run(resumed_recorder, folder)
    self.assertEqual(resumed_recorder.rows, recorder.rows)
    np.testing.assert_array_equal(resumed.methods[_NAME].vectors, found.vectors)
    self.assertEqual(
        summary.summarize(self._config, self._task, resumed),
        summary.summarize(self._config, self._task, result),
    )
    with np.load(f"{folder}/{_NAME}.npz") as arrays:
      # Everyone moved once; the memory outlived the interruption.
      self.assertEqual(arrays["memory_moves"].tolist(), [5, 0, 0])


if __name__ == "__main__":
  absltest.main()
