"""Tests of the loop over a method's rounds; the engine is a stand-in."""

import dataclasses
import importlib.util
import os
import sys
import types
from unittest import mock
import warnings

from absl.testing import absltest
from absl.testing import parameterized
import numpy as np

from clustering_basics import file_format
from fl_clustering.engine import cost
from fl_clustering.engine import device_memory
from fl_clustering.engine import divergence
from fl_clustering.engine import participation
from fl_clustering.methods import client_weights
from fl_clustering.methods import method
from fl_clustering.methods import registry
from fl_clustering.three_phase import checkpoint
from fl_clustering.three_phase import config as config_lib
from fl_clustering.three_phase import rounds as rounds_lib
from fl_clustering.three_phase import run as run_lib
from fl_clustering.three_phase import stages
from tests import letters
from tests import run_recorder

_CLIENTS = np.arange(3)
_ROUND_COST = cost.Cost(10, 20, 30)
# The clusters of every round: they change, overlap, grow in number and become empty.
_MEMBERS = (
    ("ab", "c"),
    ("", "abc"),
    ("a", "abc", "b"),
    ("abc", "", "bc", "a"),
)


class _Engine:
  """A cluster's model is the number of its right answers of ten per client."""

  clients = _CLIENTS
  cost = cost.Cost()

  def confusions(self, vectors, members, part):
    del part  # They are the same on all data.
    matrices = np.array([[[v, 10 - v], [0, 0]] for v in vectors[:, 0]])
    return [np.stack([matrix] * 3)[: len(clients)] for matrix, clients in zip(matrices, members)]


class _TrainingEngine(_Engine):
  """Every round has one more right, and is counted."""

  num_rounds = 0

  def train(self, vectors, members, round_):
    self.num_rounds += 1
    self.cost += _ROUND_COST
    losses = [
        participation.ClientLosses(clients, np.full(len(clients), float(round_.number)))
        for clients in members
    ]
    return vectors + np.float32(1), losses


def _scripted(rounds, engine):
  """Returns a method that goes through `_MEMBERS` and counts its rounds in its memory."""

  def next_state(state, round_):
    engine.cost += _ROUND_COST
    rounds.append(round_)
    done = int(state.memory["done"]) + 1
    members = _MEMBERS[done]
    # Cluster k has k + 1 answers right in odd rounds, one less in even ones.
    vectors = np.arange(1, len(members) + 1, dtype=np.float32)[:, None] - (done % 2 == 0)
    # The first cluster isn't trained, and a new one can't have been.
    losses = [
        participation.ClientLosses(letters.clients(names), np.array(values))
        for names, values in (("", []), ("ab", [1.0, 2.0]))
    ]
    memory = {"done": np.int64(done), "last": np.array(["x"] * done)}
    return method.ClusterState(vectors, letters.clusters(*members), memory, f"round {done}"), losses

  return method.Method(None, next_state, None)


def _start(method_):
  vectors = np.array([[5], [3]], np.float32)
  state = method.ClusterState(vectors, letters.clusters(*_MEMBERS[0]), {"done": np.int64(0)})
  return rounds_lib.Start(
      "scripted", method_, state, cost.Cost(100, 200, 300), cost.Cost(1, 2, 3), "a start"
  )


def _run(recorder, checkpoints=None, rounds=None, method_=None, num_rounds=3):
  config = config_lib.ThreePhaseConfig(
      num_clients=3, pretrain_rounds=4, cluster_rounds=num_rounds, client_epochs_per_round=2
  )
  engine = _Engine()
  method_ = method_ or _scripted([] if rounds is None else rounds, engine)
  return rounds_lib.run(
      _start(method_), participation.numbers_of(config, from_start=False), config, engine,
      stages.StageRunner(checkpoints, [recorder]),
  )


class RoundsTest(absltest.TestCase):

  def _check_equal(self, one, other):
    state, other_state = one.state, other.state
    self.assertEqual(letters.names(state.members), letters.names(other_state.members))
    self.assertEqual(state.warning, other_state.warning)
    np.testing.assert_array_equal(state.vectors, other_state.vectors)
    self.assertEqual(state.vectors.dtype, other_state.vectors.dtype)
    np.testing.assert_array_equal(one.best_accuracy, other.best_accuracy)
    self.assertEqual(one.cost, other.cost)
    self.assertEqual(set(state.memory), set(other_state.memory))
    for name, array in state.memory.items():
      np.testing.assert_array_equal(array, other_state.memory[name])

  def test_rounds_that_begin_alike_are_run_once_and_give_the_same(self):
    config = config_lib.ThreePhaseConfig(num_clients=3, pretrain_rounds=4, cluster_rounds=3)
    numbers = participation.numbers_of(config, from_start=False)
    state = method.ClusterState(
        np.array([[5], [3]], np.float32), letters.clusters("ab", "bc"), warning="of another"
    )
    engine = _TrainingEngine()
    alike = rounds_lib.Start(
        "first", method.Method(None, method.TrainClusters(engine), None), state,
        cost.Cost(100, 200, 300), cost.Cost(1, 2, 3), "a start",
    )
    other = dataclasses.replace(
        alike, name="second", cost=cost.Cost(70, 80, 90), initialize_cost=cost.Cost(7, 8, 9),
        digest="another start", state=dataclasses.replace(state, warning="its own"),
    )

    def run(starts, folder, numbers_of_last=numbers):
      recorder = run_recorder.Recorder()
      runner = stages.StageRunner(checkpoint.Checkpoints(folder), [recorder])
      found = [
          rounds_lib.run(
              one, numbers_of_last if one is starts[-1] else numbers, config, engine, runner
          )
          for one in starts
      ]
      return found[-1], [row for row in recorder.rows if row.method == "second"]

    folders = [self.create_tempdir().full_path for _ in range(3)]
    expected, expected_rows = run([other], folders[0])
    self.assertEqual(engine.num_rounds, 3)
    found, rows = run([alike, other], folders[1])

    self.assertEqual(engine.num_rounds, 6)
    self._check_equal(found, expected)
    self.assertEqual(found.state.warning, "its own")
    self.assertEqual(rows, expected_rows)
    contents = []
    for folder in folders[:2]:
      with open(os.path.join(folder, "second.npz"), "rb") as file:
        contents.append(file.read())
    self.assertEqual(*contents)
    # Other models, clients, or round numbers are not alike.
    for change in (
        {"vectors": state.vectors + np.float32(1)}, {"members": letters.clusters("abc", "c")},
        {"members": letters.clusters("a", "bbc")},
    ):
      changed = dataclasses.replace(other, state=dataclasses.replace(other.state, **change))
      before = engine.num_rounds
      run([alike, changed], self.create_tempdir().full_path)
      self.assertEqual(engine.num_rounds, before + 6, change)
    before = engine.num_rounds
    run([alike, other], self.create_tempdir().full_path, [n + 1 for n in numbers])
    self.assertEqual(engine.num_rounds, before + 6)
    # Nor are many models kept for another method.
    before = engine.num_rounds
    with mock.patch.object(rounds_lib, "MOST_MODELS_KEPT", 1):
      run([alike, other], self.create_tempdir().full_path)
    self.assertEqual(engine.num_rounds, before + 6)

  def test_of_a_cluster_that_nobody_evaluates_nothing_is_known(self):
    config = config_lib.ThreePhaseConfig(
        num_clients=3, pretrain_rounds=4, cluster_rounds=1, evaluated_clients=1
    )
    engine = _TrainingEngine()
    start = dataclasses.replace(
        _start(method.Method(None, method.TrainClusters(engine), None)),
        state=method.ClusterState(
            np.array([[5], [3], [2]], np.float32), letters.clusters("a", "b", "c")
        ),
    )
    outcome = rounds_lib.run(
        start, participation.numbers_of(config, from_start=False), config, engine,
        stages.StageRunner(None, []),
    )
    self.assertEqual(np.isnan(outcome.best_accuracy).sum(), 2)

  def test_clusters_change_overlap_grow_and_become_empty(self):
    recorder = run_recorder.Recorder()
    with warnings.catch_warnings():
      warnings.simplefilter("error")
      outcome = _run(recorder)
    state = outcome.state
    self.assertEqual(letters.names(state.members), _MEMBERS[3])
    self.assertEqual(state.warning, "round 3")
    # Of ten answers, the models had (5, 3), (1, 2), (0, 1, 2) and (1, 2, 3, 4) right;
    # the accuracy of a cluster doesn't count in a round in which it is empty.
    np.testing.assert_array_equal(outcome.best_accuracy, [0.5, 0.3, 0.3, 0.4])
    found = {
        (row.round, row.cluster): row.value
        for row in recorder.rows if row.metric == "accuracy" and row.cluster != ""
    }
    self.assertEqual(found, {
        (0, 0): 0.5, (0, 1): 0.3, (1, 1): 0.2, (2, 0): 0.0, (2, 1): 0.1, (2, 2): 0.2,
        (3, 0): 0.1, (3, 2): 0.3, (3, 3): 0.4,
    })
    losses = {
        (row.round, row.cluster): row.value
        for row in recorder.rows
        if row.metric == "train_loss"
    }
    self.assertEqual(losses, {(1, 1): 1.5, (2, 1): 1.5, (3, 1): 1.5})

  def test_rounds_are_numbered_through_the_phases(self):
    rounds = []
    _run(run_recorder.Recorder(), rounds=rounds)
    # Rounds 1 to 4 are phase 1's, 5 is kept for the grouping.
    self.assertEqual([round_.number for round_ in rounds], [6, 7, 8])
    self.assertEqual({letters.name(round_.clients) for round_ in rounds}, {"abc"})
    self.assertEqual({round_.num_epochs for round_ in rounds}, {2})

  def test_resumes_exactly(self):
    expected = run_recorder.Recorder()
    result = _run(expected)
    for stop_at in (1, 2, 3):
      with self.subTest(stop_at=stop_at):
        folder = self.create_tempdir().full_path
        with self.assertRaises(run_recorder.Stop):
          _run(run_recorder.Recorder(("scripted", stop_at)), checkpoint.Checkpoints(folder))
        recorder = run_recorder.Recorder()
        resumed = _run(recorder, checkpoint.Checkpoints(folder))
        self._check_equal(resumed, result)
        self.assertEqual(recorder.rows, expected.rows)

  def test_every_round_states_its_cost_and_the_outcome_all_of_them(self):
    recorder = run_recorder.Recorder()
    outcome = _run(recorder)
    found = [(row.round, row.value) for row in recorder.rows if row.metric == "steps"]
    self.assertEqual(found, [(0, 1), (1, 10), (2, 10), (3, 10)])
    bytes_up = [row.value for row in recorder.rows if row.metric == "bytes_up"]
    self.assertEqual(bytes_up, [3, 30, 30, 30])
    self.assertEqual(outcome.cost, cost.Cost(130, 260, 390))

  def test_a_checkpoint_that_does_not_fit_is_named(self):
    folder = self.create_tempdir().full_path
    _run(run_recorder.Recorder(), checkpoint.Checkpoints(folder))
    path = f"{folder}/scripted.npz"
    with np.load(path) as arrays:
      good = dict(arrays)
    bad = {
        "no_models": {name: array for name, array in good.items() if name != "vectors"},
        "other_models": {**good, "vectors": np.zeros((4, 2), np.float32)},
        "fewer_models": {**good, "vectors": np.zeros((3, 1), np.float32)},
        "no_costs": {name: array for name, array in good.items() if name != "cost"},
        "unknown_client": {**good, "members": good["members"] + 1},
    }
    for name, arrays in bad.items():
      with self.subTest(name):
        np.savez(path, **arrays)
        with self.assertRaisesRegex(checkpoint.DamagedCheckpoint, "scripted.npz"):
          _run(run_recorder.Recorder(), checkpoint.Checkpoints(folder))


  def test_a_checkpoint_of_more_rounds_is_refused(self):
    checkpoints = checkpoint.Checkpoints(self.create_tempdir().full_path)
    _run(run_recorder.Recorder(), checkpoints)
    with self.assertRaisesRegex(checkpoint.DamagedCheckpoint, "scripted.npz"):
      _run(run_recorder.Recorder(), checkpoints, num_rounds=2)

  def test_clusters_must_keep_their_places_and_every_client_one(self):
    for name, kept, members in (("members", 1, ("abc",)), ("clusters", 2, ("a", "b"))):
      next_state = lambda state, _, kept=kept, members=members: (
          method.ClusterState(state.vectors[:kept], letters.clusters(*members)), ()
      )
      with self.assertRaisesRegex(ValueError, f"^`{name}`"):
        _run(run_recorder.Recorder(), method_=method.Method(None, next_state, None))


class FailuresTest(parameterized.TestCase):

  @parameterized.parameters(
      (divergence.TrainingDiverged("the loss is nan."), divergence.TrainingDiverged,
       "the loss is nan."),
      (MemoryError(), MemoryError, "MemoryError"),
      (RuntimeError("RESOURCE_EXHAUSTED: Out of memory."), device_memory.DeviceFull,
       "the memory of the device is full"),
  )
  def test_a_method_that_fails_ends_the_run_unless_that_is_tolerated(self, error, kind, text):
    config = config_lib.ThreePhaseConfig(num_clients=3, pretrain_rounds=4, cluster_rounds=3)
    numbers = participation.numbers_of(config, from_start=False)
    failing = _start(method.Method(None, mock.Mock(side_effect=error), None))

    def trained(tolerated):
      stage_runner = stages.StageRunner(None, [run_recorder.Recorder()])
      run = run_lib.Run(config, None, "nowhere", _Engine(), stage_runner, tolerated)
      run.train(failing, numbers, None)
      return run

    with self.assertRaises(kind):
      trained(())
    run = trained((kind,))
    self.assertEqual(run.failures, {"scripted": text})
    self.assertEmpty(run.results)

  @parameterized.parameters(True, False)
  def test_the_articles_weights_are_taken_where_they_are_asked_for(self, article_weights):
    config = config_lib.ThreePhaseConfig(
        num_clients=3, methods=(), article_weights=article_weights
    )
    run = run_lib.Run(config, mock.Mock(), "nowhere", mock.MagicMock(), None, ())
    with (
        mock.patch.object(rounds_lib, "run"),
        mock.patch.object(run_lib.scoring, "evaluate", side_effect=MemoryError) as evaluate,
        self.assertRaises(MemoryError),
    ):
      run.train(mock.MagicMock(), [], None)
    self.assertIs(evaluate.call_args.args[-1], article_weights)


class StartTest(absltest.TestCase):

  def _digest(self, vector=1.0, sent=2.0, from_start=False, repeat=0, settings="s", **options):
    config = config_lib.ThreePhaseConfig(
        num_clients=3, methods=("kmeans",), **{"num_clusters": 2, **options}
    )
    state = method.ClusterState(np.zeros((1, 1), np.float32), (_CLIENTS,))
    one = method.Method(lambda pretrained, rng: state, None, None, from_start=from_start)
    weights = client_weights.ClientWeights(
        _CLIENTS, np.zeros((3, 1), np.float32), np.array([sent], np.float32)
    )
    pretrained = method.Pretrained(np.zeros(1, np.float32), np.array([vector], np.float32), weights)
    return rounds_lib.start("kmeans", one, pretrained, config, _Engine(), settings, repeat).digest

  def test_another_start_has_another_digest(self):
    others = (
        {"settings": "t"}, {"num_clusters": 3}, {"representation": "weights"}, {"vector": 3.0},
        {"sent": 3.0}, {"repeat": 1},
    )
    digests = {self._digest(), *(self._digest(**other) for other in others)}
    self.assertLen(digests, 1 + len(others))
    # Neither of these is what it follows from.
    self.assertEqual(self._digest(target_accuracy=0.5), self._digest())
    self.assertEqual(
        self._digest(from_start=True, vector=3.0, sent=3.0), self._digest(from_start=True)
    )

  def test_another_format_of_files_is_another_start(self):
    before = self._digest()
    with mock.patch.object(file_format, "FORMAT", file_format.FORMAT + 1):
      self.assertNotEqual(self._digest(), before)

  def test_training_for_own_weights_is_charged_where_they_are_used(self):
    config = config_lib.ThreePhaseConfig(num_clients=3, methods=("pacfl",), num_clusters=2)
    weights = client_weights.ClientWeights(
        _CLIENTS, np.zeros((3, 1), np.float32), np.zeros(1, np.float32)
    )
    vector = np.zeros(1, np.float32)
    pretrained = method.Pretrained(
        vector, vector, weights, cost=cost.Cost(100, 200, 300),
        own_weights_cost=cost.Cost(10, 20, 30),
    )
    one = method.Method(lambda pretrained, rng: None, None, None)
    of_phase_1, from_start = {"uses_own_weights": False}, {"from_start": True}
    for name, chosen, changes, expected in (
        ("fedavg", False, {}, (100, 200, 300)), ("fedavg", False, of_phase_1, (90, 180, 270)),
        ("fedavg", False, from_start, (0, 0, 0)), ("pacfl", False, from_start, (0, 0, 0)),
        # Of these, one has a number of clusters, which their weights have chosen.
        ("fedavg", True, of_phase_1, (90, 180, 270)), ("pacfl", True, from_start, (100, 200, 300)),
    ):
      start = rounds_lib.start(
          name, one._replace(**changes), dataclasses.replace(pretrained, chose_num_clusters=chosen),
          config, _Engine(), "s",
      )
      self.assertEqual(start.cost.values(), expected)

  def test_it_depends_on_the_file_of_a_method_from_elsewhere(self):
    text = "class Settings:\n  pass\n\n\ndef build(settings, engine):\n  pass\n"
    path = self.create_tempfile("mine.py", text).full_path
    spec = importlib.util.spec_from_file_location("mine", path)
    mine = importlib.util.module_from_spec(spec)
    self.enter_context(mock.patch.dict(sys.modules, {"mine": mine}))
    spec.loader.exec_module(mine)
    config = types.SimpleNamespace(seed=0, options_of=lambda name: {})
    first = method.Method(lambda pretrained, rng: None, None, None, from_start=True)
    pretrained = method.Pretrained(np.zeros(1, np.float32), np.zeros(1, np.float32), None)

    def digest(name):
      return rounds_lib.start(name, first, pretrained, config, _Engine(), "settings").digest

    kmeans = registry.METHODS["kmeans"]
    rows = {
        "settings": registry.MethodEntry(mine.Settings, kmeans.build),
        "build": registry.MethodEntry(kmeans.settings, mine.build),
    }
    with mock.patch.dict(registry.METHODS, rows):
      before = {name: digest(name) for name in (*rows, "kmeans", "fedavg")}
      with open(path, "a", encoding="utf-8") as file:
        file.write("# Changed.\n")
      changed = {name for name in before if digest(name) != before[name]}
    self.assertEqual(changed, {*rows})
