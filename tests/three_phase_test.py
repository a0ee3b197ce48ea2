import dataclasses
import tempfile
from unittest import mock
import weakref

from absl.testing import parameterized
import numpy as np

from fl_clustering.engine import cost
from fl_clustering.engine import divergence
from fl_clustering.engine import engines
from fl_clustering.engine import metrics
from fl_clustering.engine import participation
from fl_clustering.engine.jax import engine as jax_engine
from fl_clustering.engine.tff import client_update
from fl_clustering.methods import controls
from fl_clustering.methods import num_clusters
from fl_clustering.methods import registry as methods_registry
from fl_clustering.tasks import held_out
from fl_clustering.three_phase import config as config_lib
from fl_clustering.three_phase import own_code
from fl_clustering.three_phase import pretraining
from fl_clustering.three_phase import rounds
from fl_clustering.three_phase import run as run_lib
from fl_clustering.three_phase import stages
from tests import drawn_seeds
from tests import letters
from tests import nightly
from tests import run_recorder
from tests import small_task

_task = None


def setUpModule():
  global _task
  _task = small_task.small_task()


# With JAX: its runs take less time than those of TFF.
def _config(**settings):
  return config_lib.ThreePhaseConfig(**{
      "dataset": "digits", "num_clients": 5, "pretrain_rounds": 2, "cluster_rounds": 2,
      "methods": ("kmeans",), "control_repeats": 0, "engine": engines.JAX, **settings,
  })


def _run(config, checkpoints=None, observers=()):
  with tempfile.TemporaryDirectory() as folder:
    return run_lib.run(config, _task, folder, checkpoints, observers)


# The settings of runs that several tests look at.
_FOUR_CLUSTERS = {"num_clusters": 4}
_NO_GROUPING = {"methods": ()}
_GROUPING_EPOCHS = {"methods": (), "clients_per_round": 2, "grouping_epochs": 2}
_THREE_CLUSTERS = {
    "methods": ("kmeans", "dynamic_distance"), "num_clusters": 3,
    "distance_threshold": "q0.4", "cluster_rounds": 4,
}
_REPEATED = {
    "methods": ("kmeans", "ifca"), "num_clusters": 2, "ifca_start": "random", "control_repeats": 3,
}

_runs = {}


def _recorded_run(settings):
  """Returns the result of a run and what it told; each run happens once."""
  config = _config(**settings)
  if config not in _runs:
    recorder = run_recorder.Recorder()
    _runs[config] = _run(config, observers=[recorder]), recorder
  return _runs[config]


def _confusion(vector, examples):
  """Returns a model's confusion matrix (10, 10), without any of the engine."""
  parameters = client_update.unflatten(_task.model, np.asarray(vector, np.float32))
  images = examples.features.astype(np.float32) / 255
  predicted = np.argmax(_task.model.logits(parameters, images, None), axis=1)
  confusion = np.zeros((10, 10), int)
  np.add.at(confusion, (examples.labels.astype(int), predicted), 1)
  return confusion


class _WeightsInMemory(stages.RunObserver):
  """Notes after every round of a method whether the clients' own weights are in memory."""

  def __init__(self):
    self.found = []
    self._weights = None

  def clients_grouped(self, client_weights, assignments):
    self._weights = weakref.ref(client_weights.vectors)

  def round_finished(self, stage, round_num, rows):
    if self._weights is not None:
      self.found.append(self._weights() is not None)


def _watched(name, **watchers):
  """Returns a method's row that tells watchers the arguments of its functions of these names."""
  entry = methods_registry.METHODS[name]

  def build(settings, engine):
    method = entry.build(settings, engine)

    def watched(function, tell):
      return lambda *arguments: (tell(*arguments), function(*arguments))[1]

    return method._replace(
        **{key: watched(getattr(method, key), tell) for key, tell in watchers.items()}
    )

  return {name: entry._replace(build=build)}


class ThreePhaseTest(parameterized.TestCase):

  def _started_from(self, task, **settings):
    """Returns the digest that phase 1 of a run starts from; nothing is trained."""
    with (
        mock.patch.object(pretraining, "pretrain", side_effect=run_recorder.Stop) as pretrain,
        tempfile.TemporaryDirectory() as folder, self.assertRaises(run_recorder.Stop),
    ):
      run_lib.run(_config(**settings), task, folder)
    return pretrain.call_args.args[3]

  def test_phase_1_starts_from_the_settings_the_data_and_the_model(self):
    other = dataclasses.replace(_task, global_test=_task.global_test.take(np.arange(9)))
    self.assertEqual(self._started_from(_task), self._started_from(_task, methods=()))
    self.assertLen({
        self._started_from(_task), self._started_from(_task, batch_size=8),
        self._started_from(other), self._started_from(small_task.small_task("mlp")),
    }, 4)
    before = self._started_from(_task)
    with mock.patch.object(own_code, "digests", return_value={"model mine": "changed"}):
      self.assertNotEqual(self._started_from(_task), before)

  def test_the_last_round_of_phase_1_has_the_scores_of_its_result(self):
    result, recorder = _recorded_run(_FOUR_CLUSTERS)
    for metric, expected in (
        ("accuracy", metrics.accuracy(result.pretrain.clients).mean()),
        ("global_accuracy", metrics.accuracy(result.pretrain.global_test)),
    ):
      self.assertEqual(recorder.values("pretrain", "", metric)[-1], expected, metric)
    np.testing.assert_array_equal(
        result.pretrain.global_test, _confusion(result.pretrain.vector, _task.global_test)
    )

  def test_own_weights_are_those_of_the_last_round(self):
    result, _ = _recorded_run(_FOUR_CLUSTERS)
    sizes = [len(client.train) for client in _task.clients]
    mean = np.average(result.client_weights.vectors, axis=0, weights=sizes)
    np.testing.assert_allclose(mean, result.pretrain.vector, atol=1e-6)
    self.assertEqual(letters.name(result.client_weights.clients), "abcde")
    moved = result.client_weights.vectors - result.client_weights.global_vector
    self.assertTrue(np.all(np.abs(moved).max(axis=1) > 1e-4))
    np.testing.assert_array_equal(result.pretrain.own_weights, [
        _confusion(vector, client.test)
        for vector, client in zip(result.client_weights.vectors, _task.clients)
    ])

  def test_local_weights_are_those_of_so_many_grouping_epochs(self):
    with tempfile.TemporaryDirectory() as folder:
      result = run_lib.run(_config(**_GROUPING_EPOCHS), _task, folder)
      again, fewer = result.local_weights(2), result.local_weights(1)
    np.testing.assert_array_equal(result.client_weights.global_vector, result.pretrain.vector)
    np.testing.assert_array_equal(again.vectors, result.client_weights.vectors)
    self.assertEqual(letters.name(again.clients), "abcde")
    self.assertGreater(np.abs(fewer.vectors - again.vectors).max(), 1e-4)

  @parameterized.named_parameters(
      ("few_take_part", {"methods": (), "clients_per_round": 2, "cluster_rounds": 1}),
      ("grouping_epochs", _GROUPING_EPOCHS),
  )
  def test_fedavg_control_starts_from_the_weights_that_are_grouped(self, settings):
    result, recorder = _recorded_run(settings)
    # The plain mean, as a cluster starts.
    mean = result.client_weights.vectors.mean(axis=0, dtype=np.float64)
    confusions = np.stack([_confusion(mean, client.test) for client in _task.clients])
    (accuracy,) = recorder.values("fedavg", "", "accuracy", 0)
    self.assertAlmostEqual(accuracy, metrics.accuracy(confusions).mean())

  def test_fedavg_control_is_fedavg_from_its_start(self):
    # None of what training depends on is the default.
    settings = {
        "methods": (), "controls": ("fedavg",), "batch_size": 8, "client_epochs_per_round": 2,
        "learning_rate": 0.3, "seed": 7,
    }
    result, _ = _recorded_run(settings)
    config = _config(**settings)
    of_task = jax_engine.Engine(_task, config.batch_size, config.learning_rate, config.seed)
    weights = result.client_weights
    vectors = weights.mean_of(weights.clients)[None]
    # Rounds 1 and 2 are phase 1's, 3 is kept for the grouping epochs.
    for round_num in (4, 5):
      round_ = participation.Round(round_num, weights.clients, config.client_epochs_per_round)
      vectors, _ = of_task.train(vectors, (weights.clients,), round_)
    np.testing.assert_allclose(result.methods["fedavg"].vectors, vectors, atol=1e-6)
    # Own weights are of as many epochs as the round had.
    sizes = [len(client.train) for client in _task.clients]
    mean = np.average(weights.vectors, axis=0, weights=sizes)
    np.testing.assert_allclose(mean, result.pretrain.vector, atol=1e-6)

  def test_the_engine_jax_gets_the_settings_too(self):
    config = _config(engine="jax", batch_size=8, learning_rate=0.3, seed=7)
    with mock.patch.object(jax_engine, "Engine") as made:
      run_lib._engine(config, _task, "", 3)  # pylint: disable=protected-access
    made.assert_called_once_with(_task, 8, 0.3, 7, config, clients_per_block=3)

  def test_who_trains_alone_starts_before_or_after_phase_1(self):
    result, recorder = _recorded_run(_FOUR_CLUSTERS)
    (finetuned,) = recorder.values("finetuned", "", "accuracy", 0)
    self.assertEqual(finetuned, metrics.accuracy(result.pretrain.clients).mean())
    # Nobody has trained before round 1, and all models are the same.
    (local,) = recorder.values("local", "", "accuracy", 0)
    self.assertLess(local, 0.3)
    rounds = {row.round for row in recorder.rows if row.method == "local"}
    self.assertEqual(rounds, {0, 1, 2, 3, 4})

  def test_repeats_differ_in_their_random_numbers(self):
    result, recorder = _recorded_run(_REPEATED)
    self.assertEqual(
        {name: accuracy.shape for name, accuracy in result.repeats.items()},
        {"fedavg": (3, 5), "kmeans": (2, 5), "ifca": (2, 5)},
    )
    for name, accuracy in result.repeats.items():
      trained = [metrics.accuracy(result.methods[name].clients), *accuracy]
      self.assertLen({of_clients.tobytes() for of_clients in trained}, len(trained), name)
    self.assertNotIn("kmeans_repeat_1", {row.method for row in recorder.rows})

  def test_a_repeat_that_diverges_says_which_and_when(self):
    def diverge(state, round_):
      del state
      if round_.number > 2_000_000:
        raise divergence.TrainingDiverged(f"the loss is nan in round {round_.number}, client 3")

    with mock.patch.dict(methods_registry.METHODS, _watched("kmeans", next=diverge)):
      with self.assertRaisesRegex(divergence.TrainingDiverged, "^kmeans: .*round 4 of repeat 2"):
        _run(_config(num_clusters=2, control_repeats=2))

  def test_repeats_draw_another_start_and_have_as_many_rounds_of_their_own(self):
    starts, numbers = [], []
    watched = _watched(
        "kmeans", initialize=lambda _, rng: starts.append(rng.integers(2**63)),
        next=lambda _, round_: numbers.append(round_.number),
    )
    with mock.patch.dict(methods_registry.METHODS, watched), drawn_seeds.recorded() as seeds:
      _run(_config(**_THREE_CLUSTERS, control_repeats=2, seed=7))

    self.assertEqual(seeds, {7})
    self.assertLen(set(starts), 3)
    # Rounds 1 and 2 are phase 1's, 3 is kept for the grouping epochs.
    self.assertEqual(numbers, [
        repeat * 1_000_000 + number for repeat in range(3) for number in range(4, 8)
    ])

  def test_what_trains_more_gets_a_control_of_equal_work(self):
    result, recorder = _recorded_run({
        "methods": ("dynamic_distance",), "overlap_training": "separate",
        "distance_threshold": "q0.4", "cluster_rounds": 4,
    })
    matched, fedavg = result.methods["fedavg_matched"], result.methods["fedavg"]
    most = result.methods["dynamic_distance"].cost.steps
    self.assertGreater(most, 1.05 * fedavg.cost.steps)
    self.assertGreaterEqual(matched.cost.steps, most)
    # Not a round more than that takes.
    per_round = (matched.cost.steps - fedavg.cost.steps) / max(
        row.round for row in recorder.rows if row.method == "fedavg_matched"
    )
    self.assertLess(matched.cost.steps - per_round, most)
    # It goes on where FedAvg ends.
    (begin,) = recorder.values("fedavg_matched", "", "accuracy", 0)
    self.assertEqual(begin, recorder.values("fedavg", "", "accuracy")[-1])
    self.assertNotIn("fedavg_matched", _recorded_run(_THREE_CLUSTERS)[0].methods)

  def test_a_part_of_a_run_has_the_numbers_of_the_whole(self):
    settings = {"num_clusters": 2, "personal": ("ditto",)}
    whole = _run(_config(**settings)).methods
    names = {"kmeans", "fedavg", "fedavg_matched"}
    with tempfile.TemporaryDirectory() as folder:
      part = run_lib.run(
          _config(**settings), _task, folder, only=names, least_steps=whole["ditto"].cost.steps
      ).methods

    self.assertEqual({*part}, names)  # Among these, nothing trains more than FedAvg.
    for name in names:
      np.testing.assert_array_equal(part[name].vectors, whole[name].vectors)
      self.assertEqual(part[name].cost, whole[name].cost)

  def test_costs_are_those_of_the_clients_steps_and_models(self):
    result, _ = _recorded_run(_NO_GROUPING)
    steps = sum(-(-size // 20) for size in small_task.SIZES.values())
    model = 4 * _task.num_parameters
    # Who trains alone sends nothing; `finetuned` has been in phase 1.
    for name, rounds_sent in (("fedavg", 4), ("finetuned", 2), ("local", 0)):
      num_bytes = rounds_sent * 5 * model
      self.assertEqual(result.methods[name].cost, cost.Cost(4 * steps, num_bytes, num_bytes), name)
    self.assertEqual(result.pretrain.cost.steps, 2 * steps)

  def test_the_weights_of_who_did_not_train_last_cost_a_training(self):
    result, _ = _recorded_run({"methods": (), "clients_per_round": 2, "cluster_rounds": 1})
    # Two rounds of two clients, and the three others for their own weights.
    self.assertEqual(result.pretrain.cost.bytes_up, 7 * 4 * _task.num_parameters)
    # `finetuned` doesn't start from these weights, and sends nothing.
    for name, sent in (("fedavg", 7 + 2), ("finetuned", 4)):
      self.assertEqual(result.methods[name].cost.bytes_up, sent * 4 * _task.num_parameters, name)

  def test_the_epochs_before_the_grouping_cost_their_steps(self):
    result, recorder = _recorded_run(_GROUPING_EPOCHS)
    # All clients train, twice over their data, whoever took part in the last round.
    own = 2 * sum(-(-size // 20) for size in small_task.SIZES.values())
    of_rounds = sum(recorder.values("pretrain", "", "steps"))
    self.assertEqual(result.pretrain.cost.steps, of_rounds + own)

  def test_the_number_of_clusters_follows_from_the_clients_weights(self):
    with drawn_seeds.recorded() as seeds:
      result = _run(_config(num_clusters="auto", seed=7))
    self.assertEqual(seeds, {7})
    chosen = num_clusters.choose(result.client_weights, np.random.default_rng())
    self.assertEqual(result.num_clusters_choice, chosen)
    self.assertLen(result.methods["kmeans"].assignment.clusters, chosen.num_clusters)

  @parameterized.parameters("initialize", "next")
  def test_a_method_that_fails_does_not_end_the_others_if_that_is_tolerated(self, when):
    config = _config(methods=("hierarchical", "kmeans"), num_clusters=2, controls=("fedavg",))

    def diverge(*unused_arguments):
      raise divergence.TrainingDiverged("the loss is nan.")

    def diverging(settings, engine):
      built = methods_registry.METHODS["kmeans"].build(settings, engine)
      return built._replace(**{when: diverge})

    entry = methods_registry.METHODS["hierarchical"]._replace(build=diverging)
    with mock.patch.dict(methods_registry.METHODS, {"hierarchical": entry}):
      with tempfile.TemporaryDirectory() as folder:
        result = run_lib.run(
            config, _task, folder, tolerated=(divergence.TrainingDiverged,)
        )

    self.assertEqual(result.failures, {"hierarchical": "the loss is nan."})
    self.assertEqual(list(result.methods), ["kmeans", "fedavg"])
    kmeans = _recorded_run({"num_clusters": 2})[0].methods["kmeans"]
    np.testing.assert_array_equal(result.methods["kmeans"].vectors, kmeans.vectors)

  def test_all_rounds_are_planned(self):
    # With Ditto, FedAvg goes on to match the work.
    with_ditto = {
        "methods": ("kmeans", "clove"), "num_clusters": 2, "control_repeats": 2,
        "method_repeats": 2, "personal": ("ditto",),
    }
    runs = (_THREE_CLUSTERS, _REPEATED)
    for settings in nightly.either(runs, (*runs, with_ditto)):
      result, recorder = _recorded_run(settings)
      self.assertEqual("fedavg_matched" in result.methods, settings is with_ditto)
      self.assertEqual(sum(recorder.num_rounds.values()), recorder.num_planned)

  def test_what_groups_or_trains_is_told_before(self):
    config = _config(methods=("kmeans", "cfl"), num_clusters=2)
    observer = mock.create_autospec(stages.RunObserver, instance=True)
    told = []
    observer.stage_begins.side_effect = told.append
    entries = {}
    for name in config.methods:
      entries |= _watched(name, initialize=lambda *_, name=name: told.append(f"{name} groups"))
    with mock.patch.dict(methods_registry.METHODS, entries):
      _run(config, observers=[observer])
    methods = ["kmeans", "cfl", *methods_registry.CONTROLS]
    self.assertEqual(
        told,
        ["pretrain", "kmeans", "kmeans groups", "cfl", "cfl groups", *methods_registry.CONTROLS,
         *methods],
    )

  def test_without_the_control_fedavg_nothing_goes_on_from_it(self):
    config = _config(**_THREE_CLUSTERS, control_repeats=2, method_repeats=0)
    fails = mock.Mock(side_effect=MemoryError)

    def build(settings, engine):
      return controls.fedavg(settings, engine)._replace(next=fails)

    with (
        mock.patch.dict(
            methods_registry.CONTROLS,
            {"fedavg": methods_registry.CONTROLS["fedavg"]._replace(build=build)},
        ),
        tempfile.TemporaryDirectory() as folder,
    ):
      result = run_lib.run(config, _task, folder, tolerated=(MemoryError,))

    self.assertEqual(list(result.failures), ["fedavg"])
    self.assertNotIn("fedavg_matched", result.methods)
    self.assertEmpty(result.repeats)

  def test_many_models_are_in_a_file(self):
    expected, _ = _recorded_run(_NO_GROUPING)
    with mock.patch.object(rounds, "MOST_MODELS_KEPT", 4):
      observer = _WeightsInMemory()
      result = _run(_config(**_NO_GROUPING), observers=[observer])
    self.assertEqual(observer.found, [False] * 11)
    # The folder is gone by now; the models can be read all the same.
    self.assertIsInstance(result.client_weights.vectors, np.memmap)
    np.testing.assert_array_equal(result.client_weights.vectors, expected.client_weights.vectors)
    for name, found in result.methods.items():
      np.testing.assert_array_equal(found.vectors, expected.methods[name].vectors)
      self.assertEqual(isinstance(found.vectors, np.memmap), name != "fedavg")

  def test_new_clients_do_not_train_and_get_a_model(self):
    task = held_out.HeldOut(num_new_clients=2).of_task(_task, 0)
    config = _config(num_new_clients=2, num_clusters=2, client_epochs_per_round=2)
    with (
        mock.patch.object(pretraining, "own_weights", wraps=pretraining.own_weights) as trained,
        tempfile.TemporaryDirectory() as folder,
    ):
      result = run_lib.run(config, task, folder)
    # New clients train from the same model, in the same round, for as many epochs.
    (_, old, sent, *how), (_, new, sent_new, *how_new) = (
        call.args for call in trained.call_args_list
    )
    self.assertEqual((letters.name(old), letters.name(new), how_new), ("abc", "de", how))
    np.testing.assert_array_equal(sent_new, sent)
    self.assertEqual(letters.name(result.client_weights.clients), "abc")
    self.assertLen(task.client_ids, 3)
    for name, found in result.methods.items():
      self.assertEqual(found.clients.shape, (3, 10, 10), name)
      sizes = [len(client.test) for client in task.new_clients]
      self.assertEqual(found.new_clients.sum(axis=(1, 2)).tolist(), sizes, name)
    found = result.methods["kmeans"]
    for clusters, confusion, client in zip(
        found.new_client_clusters, found.new_clients, task.new_clients
    ):
      (k,) = clusters
      np.testing.assert_array_equal(confusion, _confusion(found.vectors[k], client.test))
    self.assertEqual(result.methods["finetuned"].new_client_clusters, ((), ()))

  @parameterized.named_parameters(("kmeans", "kmeans"), ("overlapping", "dynamic_distance"))
  def test_phase_3(self, name):
    run_result, recorder = _recorded_run(_THREE_CLUSTERS)
    result = run_result.methods[name]
    clusters, models = result.assignment.clusters, result.vectors.astype(np.float64)
    self.assertLen(clusters, 3)
    self.assertEqual(result.assignment.overlapping, name == "dynamic_distance")

    for model, members, accuracies in zip(
        models, clusters, (recorder.values(name, k, "accuracy") for k in range(3))
    ):
      own = [_confusion(model, _task.clients[client].test) for client in members]
      self.assertLen(accuracies, 5)
      self.assertAlmostEqual(accuracies[-1], metrics.accuracy(sum(own)))
    best = [max(recorder.values(name, k, "accuracy")) for k in range(3)]
    np.testing.assert_array_equal(result.best_accuracy, best)
    mean = (models[0] + models[1] + models[2]) / 3
    weighted = sum(b * m for b, m in zip(best, models)) / sum(best)
    blended = [(m + mean) / 2 for m in models]
    on_global_test = [_confusion(v, _task.global_test) for v in (mean, weighted, *blended)]
    np.testing.assert_array_equal(result.global_mean, on_global_test[0])
    np.testing.assert_array_equal(result.global_weighted, on_global_test[1])
    np.testing.assert_array_equal(result.global_blended, on_global_test[2:])
    # Or one could be taken for another without anybody noticing.
    self.assertLen({c.tobytes() for c in on_global_test}, 5)

    for found, of_cluster in ((result.clients, models), (result.clients_blended, blended)):
      for position, client in enumerate(_task.clients):
        own = [m for m, members in zip(of_cluster, clusters) if position in members]
        np.testing.assert_array_equal(
            found[position], _confusion(np.mean(own, axis=0), client.test)
        )

  def test_sketches_of_all_and_evaluations_of_some(self):
    settings = {
        "methods": ("kmeans", "ifca"), "num_clusters": 2, "representation": "sketch",
        "controls": ("fedavg",), "evaluated_clients": 3, "control_repeats": 2,
    }
    result, recorder = _recorded_run(settings)
    self.assertIsNone(result.client_weights)
    self.assertEqual(list(result.methods)[:3], ["kmeans", "ifca", "fedavg"])
    self.assertLen(result.evaluated, 3)
    self.assertIsNone(result.pretrain.own_weights)
    fedavg = result.methods["fedavg"]
    expected = [
        _confusion(fedavg.vectors[0], _task.clients[client].test) for client in result.evaluated
    ]
    np.testing.assert_array_equal(fedavg.clients, expected)
    (accuracy,) = recorder.values("fedavg", "", "accuracy", 2)
    self.assertAlmostEqual(accuracy, metrics.accuracy(fedavg.clients).mean())
    self.assertEqual(result.repeats["fedavg"].shape, (2, 3))

  @parameterized.parameters(
      ("methods", {}), ("controls", {"representation": "sketch"}),
      ("personal", {"representation": "sketch", "controls": ("fedavg",), "personal": ("ditto",)}),
  )
  def test_models_of_all_clients_must_fit_into_memory(self, name, settings):
    config = _config(methods=("kmeans",), num_clusters=2, **settings)
    with mock.patch.object(run_lib.psutil, "virtual_memory") as memory:
      memory.return_value.available = 4 * 5 * _task.num_parameters - 1
      with self.assertRaisesRegex(run_lib.TooLarge, f"`{name}`"):
        _run(config)
