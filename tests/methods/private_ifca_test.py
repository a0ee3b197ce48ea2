"""Tests of private IFCA and of DP-FedAvg, on clients of two kinds."""

import dataclasses
import math
import tempfile
import unittest
from unittest import mock

from absl.testing import absltest
from absl.testing import parameterized
import numpy as np

from dp_clustering import ledger as ledger_lib
from dp_clustering import privacy_calculator
from fl_clustering import runtime
from fl_clustering.engine import client_update
from fl_clustering.engine import engine as engine_lib
from fl_clustering.engine import participation
from fl_clustering.methods import private_ifca
from fl_clustering.private_clusters import client_messages
from fl_clustering.private_clusters import plan
from fl_clustering.private_clusters import progress as progress_lib
from fl_clustering.private_clusters import releases
from fl_clustering.private_clusters import simulated_training
from fl_clustering.tasks import held_out
from fl_clustering.tasks import own_clients
from fl_clustering.three_phase import config as config_lib

_NUM_CLIENTS = 24
_NUM_PARAMETERS = 10
_LARGE_EPSILON = 1000.0


def setUpModule():
  local = runtime.LocalRuntime()
  unittest.addModuleCleanup(local.close)


def _task(num_new_clients=0):
  """Returns clients of two kinds, which name two classes the other way round."""
  rng = np.random.default_rng(3)
  clients = {}
  for i in range(_NUM_CLIENTS):
    x = rng.normal(size=(40, 4)).astype(np.float32)
    y = ((x[:, 0] + x[:, 1] > 0) ^ (i % 2)).astype(int)
    clients[f"{i:02d}"] = (x[:30], y[:30]), (x[30:], y[30:])
  task = own_clients.task_from_arrays(clients, "logistic", num_classes=2)
  return held_out.hold_out(task, num_new_clients, seed=0)


class _Training:
  """A method on clients of its own engine, with 2 + 3 rounds."""

  def __init__(self, folder, settings, build=private_ifca.private_ifca, task=None, **schedule):
    task = task or _task()
    self.config = config_lib.ThreePhaseConfig.for_task(
        task, pretrain_rounds=2, cluster_rounds=3, seed=1, **schedule
    )
    self.engine = engine_lib.Engine(
        task, folder, client_update.LocalTraining(20, 0.1), self.config.seed, self.config
    )
    self.method = build(settings, self.engine)
    self.numbers = participation.numbers_of(self.config, from_start=True)

  def start(self):
    rng = np.random.default_rng(self.config.seed)
    return self.method.initialize(None, rng)

  def next(self, state, number):
    round_ = participation.round_of(self.config, self.engine.client_ids, number)
    return self.method.next(state, round_)[0]

  def states(self):
    found = [self.start()]
    for number in self.numbers:
      found.append(self.next(found[-1], number))
    return found


def _spent(state):
  return math.hypot(*state.memory["release_mu"])


class PrivateIfcaTest(parameterized.TestCase):

  def _training(self, *args, **kwargs):
    folder = tempfile.TemporaryDirectory()
    self.addCleanup(folder.cleanup)
    return _Training(folder.name, *args, **kwargs)

  def test_finds_the_two_kinds(self):
    *_, last = self._training(private_ifca.PrivateIfca(2, _LARGE_EPSILON)).states()
    kinds = {frozenset(f"{i:02d}" for i in range(kind, _NUM_CLIENTS, 2)) for kind in (0, 1)}
    self.assertEqual(set(map(frozenset, last.members)), kinds)

  def test_members_are_a_partition_whoever_takes_part_and_whatever_the_noise(self):
    training = self._training(private_ifca.PrivateIfca(3, 0.5), clients_per_round=7)
    for state in training.states():
      self.assertCountEqual(
          [c for members in state.members for c in members], training.engine.client_ids
      )

  def test_the_ledger_goes_on_after_a_resume_and_stays_within_the_budget(self):
    settings = private_ifca.PrivateIfca(2, 2.0)
    training = self._training(settings)
    *_, before, _, last = training.states()
    resumed = self._training(settings)
    resumed.start()
    for number in resumed.numbers[-2:]:
      before = resumed.next(before, number)
    for name, array in last.memory.items():
      np.testing.assert_array_equal(before.memory[name], array, name)
    np.testing.assert_array_equal(before.vectors, last.vectors)
    names = last.memory["release_names"].tolist()
    self.assertEqual(names[0], "mean of sketches")
    self.assertEqual(names[-6:], ["histogram of norms", *(f"round {i}" for i in range(1, 6))])
    # The report's part is left.
    expected = privacy_calculator.gaussian_mu(2.0, 1e-5) * math.sqrt(0.96)
    self.assertAlmostEqual(_spent(last), expected, delta=1e-6)
    with self.assertRaises(ledger_lib.PrivacyBudgetExceeded):
      resumed.next(before, 9)

  def test_with_one_cluster_is_dp_fedavg(self):
    one = self._training(private_ifca.PrivateIfca(1))
    control = self._training(private_ifca.DpFedavg(), private_ifca.dp_fedavg)
    for found, expected in zip(one.states(), control.states(), strict=True):
      self.assertEqual(found.members, (control.engine.client_ids,))
      np.testing.assert_array_equal(found.vectors, expected.vectors)
    self.assertNotIn("mean of sketches", expected.memory["release_names"])

  def test_only_those_who_take_part_count(self):
    training = self._training(
        private_ifca.PrivateIfca(2, _LARGE_EPSILON), task=_task(num_new_clients=4),
        clients_per_round=10,
    )
    for state in training.states():
      self.assertAlmostEqual(state.memory["sizes"].sum(), 10, delta=0.5)
    self.assertLen(training.engine.client_ids, _NUM_CLIENTS - 4)
    placement = training.method.place(None, state, training.engine.new_client_ids)
    for client_id, (k,) in zip(training.engine.new_client_ids, placement.clusters, strict=True):
      self.assertEqual({int(c) % 2 for c in state.members[k]}, {int(client_id) % 2})

  def test_clients_that_come_later_are_asked_nothing(self):
    task, settings = _task(num_new_clients=4), private_ifca.PrivateIfca(2)
    found = self._training(settings, task=task).start()
    expected = self._training(settings, task=dataclasses.replace(task, new_clients=())).start()
    for name, array in expected.memory.items():
      np.testing.assert_array_equal(found.memory[name], array, name)

  def test_clients_keep_to_their_sketches_and_then_take_the_model_of_least_loss(self):
    training = self._training(private_ifca.PrivateIfca(2, _LARGE_EPSILON))
    trained = training.states()[3]
    settings = plan.PrivateClusters(2, _LARGE_EPSILON, 1e-5, rounds=5)
    simulated = simulated_training.SimulatedTraining(settings, training.engine)

    def slots(vectors, **memory):
      progress = progress_lib.Progress.from_arrays(vectors, {**trained.memory, **memory})
      return np.array(list(simulated.nonprivate_slots(0, progress).values()))

    by_loss, turned = slots(trained.vectors), slots(trained.vectors[::-1])
    np.testing.assert_array_equal(turned, 1 - by_loss)
    locked = [
        slots(vectors, round_num=np.array(1)) for vectors in (trained.vectors, trained.vectors[::-1])
    ]
    np.testing.assert_array_equal(*locked)

  def test_noise_has_a_seed_of_its_own(self):
    seeds = []
    make = releases.Releases

    def watched(epsilon, delta, noise_seed):
      seeds.append(noise_seed)
      return make(epsilon, delta, noise_seed)

    with mock.patch.object(releases, "Releases", watched):
      for settings, build in (
          (private_ifca.PrivateIfca(2), private_ifca.private_ifca),
          (private_ifca.DpFedavg(), private_ifca.dp_fedavg),
      ):
        self._training(settings, build).start()
    self.assertLen(set(seeds), 2)
    self.assertGreater(min(seeds), 2**32)  # No small number, as a user's seed is.

  def test_counts_what_clients_do_and_send(self):
    training = self._training(private_ifca.PrivateIfca(3), clients_per_round=10)
    engine = training.engine
    state = training.start()
    cost = engine.cost
    self.assertEqual(cost.client_steps, 3 * 2 * _NUM_CLIENTS)  # 30 examples are two batches.
    self.assertGreater(cost.bytes_up, 8 * _NUM_CLIENTS * 2 * client_messages.SKETCH_DIM)
    training.next(state, 1)
    cost = engine.cost - cost
    self.assertEqual(cost.client_steps, 3 * 2 * 10)
    centers = 8 * 3 * client_messages.SKETCH_DIM
    self.assertEqual(cost.bytes_down, 10 * (4 * 3 * _NUM_PARAMETERS + centers + 9))
    self.assertEqual(cost.bytes_up, 10 * 8 * (3 * (_NUM_PARAMETERS + 1) + 1))

  def test_says_that_it_is_not_private_and_what_to_expect(self):
    found = self._training(private_ifca.PrivateIfca(2, _LARGE_EPSILON)).start().warning
    self.assertEqual(found, "Its noise follows the seed: a simulation, NOT private.")
    found = self._training(private_ifca.PrivateIfca(2, 0.01, 0.1)).start().warning
    self.assertRegex(found, "NOT private.*too much to learn clusters.*`client_delta`=0.1 is more")

  @parameterized.named_parameters(
      ("epsilon", {"client_epsilon": 0.0}, "`client_epsilon` must be a number in"),
      ("infinite", {"client_epsilon": math.inf}, "`client_epsilon` must be a number in"),
      ("delta", {"client_delta": 1.0}, "`client_delta` must be a number in"),
  )
  def test_bad_options_are_refused_by_name(self, options, error):
    for settings in (private_ifca.DpFedavg, lambda **kwargs: private_ifca.PrivateIfca(2, **kwargs)):
      with self.assertRaisesRegex(ValueError, error):
        settings(**options)

  def test_what_can_not_run_is_refused(self):
    settings = private_ifca.PrivateIfca(25)
    with self.assertRaisesRegex(ValueError, "`num_clusters` must be in .1, num_clients=24"):
      self._training(settings)
    training = self._training(private_ifca.PrivateIfca(2))
    training.engine.schedule = None
    with self.assertRaisesRegex(ValueError, "`schedule` must be given"):
      private_ifca.private_ifca(private_ifca.PrivateIfca(2), training.engine)


if __name__ == "__main__":
  absltest.main()
