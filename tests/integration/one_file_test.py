"""The example in one file finds what the engine finds.

With batches of all of a client's examples their order makes no difference.  Then both do the same
arithmetic from the same first model, and every cell of the table is the same but for rounding: one
example of a client may change its class.
"""

import dataclasses
from unittest import mock

from absl.testing import absltest
import numpy as np
from scipy import special
from sklearn import metrics as sklearn_metrics

from clustering_basics import randomness
from examples import three_phases_in_one_file as example
from fl_clustering import local_run
from fl_clustering.engine import metrics
from fl_clustering.tasks import digits
from fl_clustering.tasks import registry
from fl_clustering.three_phase import config as config_lib
from tests import nightly

_METHODS = {
    "phase 1": "pretrain", "K-means": "kmeans", "local": "local", "fine-tuned": "finetuned",
    "FedAvg": "fedavg",
}


def _clients(task):
  return [
      example.Client(
          *((part.features.astype(np.float32) / 255, part.labels.astype(np.int64))
            for part in (client.train, client.test)),
          client.group,
      )
      for client in task.clients
  ]


def _of_the_engine(task, **settings):
  """Returns a run's accuracies at the clients by method, and K-means' clusters."""
  config = config_lib.ThreePhaseConfig.for_task(
      task, methods=("kmeans",), num_clusters=4, representation="normalized_update",
      learning_rate=example.LEARNING_RATE, pretrain_rounds=example.PRETRAIN_ROUNDS,
      cluster_rounds=example.CLUSTER_ROUNDS, client_epochs_per_round=example.EPOCHS,
      control_repeats=0, **settings,
  )
  found = local_run.run(config, task)
  accuracies = {name: metrics.accuracy(one.clients) for name, one in found.methods.items()}
  accuracies["pretrain"] = metrics.accuracy(found.pretrain.clients)
  return accuracies, found


class StepsTest(absltest.TestCase):

  def test_the_gradient_is_the_slope_of_the_loss(self):
    rng = np.random.default_rng(0)
    model = example.initial_model(rng).astype(np.float64)
    images, labels = rng.random((6, 28, 28, 1)), rng.integers(10, size=6)

    def loss(model):
      outputs = example.logits(model, images)
      return np.mean(special.logsumexp(outputs, axis=1) - outputs[np.arange(6), labels])

    gradient = example.loss_gradient(model, images, labels)
    start = 0
    for end in example.ENDS:  # Of one array of parameters after the other.
      way = np.zeros_like(model)
      way[start:end] = 1e-6 * rng.normal(size=end - start)
      slope = (loss(model + way) - loss(model - way)) / 2
      np.testing.assert_allclose(way @ gradient, slope, rtol=1e-4)
      start = end


class RoundsTest(absltest.TestCase):

  def test_all_but_phase_1_end_after_all_rounds(self):
    clients = [example.Client((), (), i % example.NUM_GROUPS) for i in range(8)]

    def fedavg_round(model, members, unused_rng):
      """Counts the rounds in the first number; clients of a group go the same way."""
      own = [model + np.eye(5)[0] + np.eye(5)[1 + client.group] for client in members]
      return np.mean(own, axis=0), np.stack(own)

    with mock.patch.multiple(
        example, initial_model=lambda unused_rng: np.zeros(5), fedavg_round=fedavg_round,
        accuracy=lambda model, unused_client: model[0],
    ):
      found, _ = example.three_phases(clients, np.random.default_rng(0))
    num_rounds = {name: example.PRETRAIN_ROUNDS + example.CLUSTER_ROUNDS for name in _METHODS}
    num_rounds["phase 1"] = example.PRETRAIN_ROUNDS
    self.assertEqual(
        {name: values.tolist() for name, values in found.items()},
        {name: 8 * [number] for name, number in num_rounds.items()},
    )


class FewImagesTest(absltest.TestCase):

  def test_a_round_is_the_mean_of_a_step_and_the_groups_are_found(self):
    images, _ = digits.pixels_and_labels()
    clients = []
    for i, rows in enumerate(np.array_split(np.random.default_rng(0).permutation(100), 4)):
      x = images[50 * rows].reshape(-1, 28, 28, 1).astype(np.float32) / 255
      y = np.full(len(rows), i % 2)  # Of two groups, each with a label of its own.
      clients.append(example.Client((x[i:20], y[i:20]), (x[20:], y[20:]), i % 2))
    small = dict(NUM_GROUPS=2, PRETRAIN_ROUNDS=2, CLUSTER_ROUNDS=1, EPOCHS=1, BATCH_SIZE=100)
    with mock.patch.multiple(example, **small):
      start = example.initial_model(np.random.default_rng(1))
      found, own = example.fedavg_round(start, clients, np.random.default_rng(0))
      accuracies, groups = example.three_phases(clients, np.random.default_rng(0))

    steps = [example.loss_gradient(start, *client.train) for client in clients]
    expected = start - example.LEARNING_RATE * np.array(steps)
    np.testing.assert_allclose(own, expected, atol=1e-6)
    np.testing.assert_allclose(
        found, np.average(expected, axis=0, weights=[20, 19, 18, 17]), atol=1e-6
    )
    self.assertEqual(sklearn_metrics.adjusted_rand_score([0, 1, 0, 1], groups), 1)
    for values in accuracies.values():
      np.testing.assert_array_equal(np.rint(5 * values), 5 * values)  # Of five images each.


@nightly.only  # By day, `FewImagesTest` runs the example, and without the engine.
class OneFileTest(absltest.TestCase):

  def test_the_engine_finds_the_same(self):
    task = registry.load_task(
        registry.TaskOptions(dataset="digits", num_clients=20, partition="rotated")
    )
    task = dataclasses.replace(task, clients=task.clients[:8])  # Of 160 images and 40 to test on.
    small = dict(PRETRAIN_ROUNDS=4, CLUSTER_ROUNDS=2, EPOCHS=1, BATCH_SIZE=1000)
    with mock.patch.multiple(example, **small):
      expected, run = _of_the_engine(task, batch_size=1000)
      # The engine's seed draws its first model; the example draws it in the same way.
      start = example.initial_model(randomness.generator(0, "initial_parameters"))
      with mock.patch.object(example, "initial_model", lambda rng: start):
        found, labels = example.three_phases(_clients(task), np.random.default_rng(0))

    of_kmeans = np.empty(len(labels), int)
    for k, members in enumerate(run.methods["kmeans"].assignment.clusters):
      of_kmeans[members] = k
    self.assertEqual(sklearn_metrics.adjusted_rand_score(of_kmeans, labels), 1)
    for name, of_engine in _METHODS.items():
      np.testing.assert_allclose(found[name], expected[of_engine], atol=0.03, err_msg=name)

  def test_the_table_of_the_first_run(self):
    task = registry.load_task(registry.TaskOptions(
        dataset="digits", num_clients=20, partition="rotated", dirichlet_alpha=0.5
    ))
    found, _ = example.three_phases(_clients(task), np.random.default_rng(0))
    accuracies, _ = _of_the_engine(task, batch_size=example.BATCH_SIZE)

    # Phase 1 and FedAvg differ by a few points from seed to seed.
    for name, of_engine in _METHODS.items():
      np.testing.assert_allclose(
          found[name].mean(), accuracies[of_engine].mean(), atol=0.1, err_msg=name
      )
