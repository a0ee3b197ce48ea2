"""A run of very many clients keeps little of each; the engine is a stand-in that trains nothing."""

import tempfile
import tracemalloc
from unittest import mock

from absl.testing import absltest
import numpy as np

from fl_clustering.engine import cost
from fl_clustering.engine import participation
from fl_clustering.engine import sketch
from fl_clustering.methods import grouping
from fl_clustering.tasks import examples as examples_lib
from fl_clustering.tasks import federated_task
from fl_clustering.tasks import models
from fl_clustering.three_phase import checkpoint
from fl_clustering.three_phase import config as config_lib
from fl_clustering.three_phase import run as run_lib
from fl_clustering.three_phase import rows

_NUM_GROUPS = 4


class _Engine:
  """Every client is of a group, which its sketch tells, and whose model it fits best."""

  cost = cost.Cost()

  def __init__(self, config, task, *unused_arguments):
    self.clients, self.new_clients = np.arange(len(task.clients)), np.arange(0)
    self.validated = self.new_clients
    self.num_examples = np.full(len(task.clients), 2)
    self.model, self.seed, self.schedule = task.model, config.seed, config

  def initial_vectors(self, num_models, unused_rng):
    return np.zeros((num_models, self.model.num_parameters), np.float32)

  def training_cost(self, clients, num_epochs):
    return cost.Cost(num_epochs * len(clients))

  def sketches(self, clients, size):
    found = np.zeros((len(clients), size), np.float32)
    found[np.arange(len(clients)), clients % _NUM_GROUPS] = 1
    return found

  def train(self, vectors, members, round_, already_sent=False):
    del already_sent
    taking_part = [round_.among(clients) for clients in members]
    losses = [participation.ClientLosses(own, np.ones(len(own))) for own in taking_part]
    return vectors + np.arange(len(vectors), dtype=np.float32)[:, None], losses

  def losses(self, vectors, clients):
    of_model = np.arange(len(vectors))[:, None]
    return np.float32(of_model != clients % _NUM_GROUPS)

  def confusions(self, vectors, members, part="test"):
    del vectors, part
    return [np.tile(np.eye(2, dtype=np.int64), (len(clients), 1, 1)) for clients in members]

  def global_confusions(self, vectors):
    return np.tile(np.eye(2, dtype=np.int64), (len(vectors), 1, 1))


def _task(num_clients):
  examples = examples_lib.Examples(np.zeros((2, 784), np.float32), np.arange(2))
  return federated_task.FederatedTask(
      name="zeros", source="none", partition="none",
      clients=federated_task.PooledClients.of([
          federated_task.ClientData(f"{i:06d}", examples, examples, i % _NUM_GROUPS)
          for i in range(num_clients)
      ]),
      global_test=examples, global_test_source="none", num_classes=2,
      # 3 KB a model.
      model=models.build("logistic", (784,), 2, "float32"),
  )


class RunMemoryTest(absltest.TestCase):

  def _peak(self, num_clients):
    """Returns the most bytes that a run holds at a time, besides its clients' data."""
    task = _task(num_clients)
    config = config_lib.ThreePhaseConfig.for_task(
        task, methods=("kmeans", "ifca"), num_clusters=_NUM_GROUPS, controls=("fedavg",),
        representation=grouping.SKETCH, clients_per_round=500, evaluated_clients=500,
        pretrain_rounds=3, cluster_rounds=6, control_repeats=0,
    )
    with tempfile.TemporaryDirectory() as folder, mock.patch.object(run_lib, "_engine", _Engine):
      tracemalloc.start()
      result = run_lib.run(config, task, folder, checkpoint.Checkpoints(folder))
      list(rows.of_result(config, result))
      _, peak = tracemalloc.get_traced_memory()
      tracemalloc.stop()
    self.assertEqual(result.methods["kmeans"].ari, 1)
    self.assertEqual(result.methods["ifca"].ari, 1)
    return peak

  def test_it_grows_by_a_sketch_or_two_a_client(self):
    few, many = 1_000, 6_000
    self._peak(500)  # Whatever is imported or cached.
    of_client = (self._peak(many) - self._peak(few)) / (many - few)
    # K-means takes a copy of the sketches, of 1 KB each, and needs 0.4 KB beside.
    self.assertLess(of_client, 2.7 * 4 * sketch.SIZE)
