"""What holds for every method and control, and for every aggregator."""

import dataclasses
import os
import subprocess
import sys
import types
from unittest import mock

from absl.testing import absltest
from absl.testing import parameterized
import numpy as np

from clustering_basics import options
from fl_clustering.engine import aggregation
from fl_clustering.engine import client_files
from fl_clustering.engine import cost
from fl_clustering.engine import engine as engine_lib
from fl_clustering.engine import participation
from fl_clustering.methods import client_weights
from fl_clustering.methods import cluster_assignment
from fl_clustering.methods import method
from fl_clustering.methods import registry
from fl_clustering.three_phase import config as config_lib

_IDS = ("f", "a", "e", "b", "d", "c")
_PLACES = (*_IDS, "new", "newer")
_ALL = (*registry.METHODS, *registry.CONTROLS, *registry.PERSONAL)


class _Engine:
  """Works without data: what is trained grows by one, and no file is read."""

  client_ids = _IDS
  model = types.SimpleNamespace(
      name="small", num_parameters=5, num_classes=2, head=("kernel", "bias"),
      parameter_shapes={"scale": (1,), "kernel": (1, 2), "bias": (2,)},
  )
  schedule = config_lib.ThreePhaseConfig(num_clients=6)
  num_examples = {client_id: 1 + i for i, client_id in enumerate(_IDS)}
  files = client_files.ClientFiles(
      train={c: client_files.ExampleFile(f"{c}.train", n) for c, n in num_examples.items()},
      test={c: client_files.ExampleFile(f"{c}.test", n) for c, n in num_examples.items()},
      global_test=(client_files.ExampleFile("global.test", 9),),
  )

  def train(self, vectors, members, round_, already_sent=False):
    del already_sent  # It counts no cost.
    taking_part = [[c for c in ids if c in round_.client_ids] for ids in members]
    trained = vectors + np.array(list(map(bool, taking_part)), np.float32)[:, None]
    return trained, [{c: 0.5 for c in ids} for ids in taking_part]

  def train_alone(self, vectors, rounds):
    made = []
    for round_ in rounds:
      vectors, losses = self.train(vectors, [(c,) for c in self.client_ids], round_)
      made.append(engine_lib.AloneRound(losses, np.ones((6, 2, 2), int), cost.Cost()))
    return vectors, made

  def train_each(self, vectors, client_ids, round_):
    del round_
    return vectors + np.float32(1), {c: 0.5 for c in client_ids}

  def train_own(self, vectors, client_ids, round_, common, how, shares=None, num_shared=0):
    del common, how, num_shared
    trained = vectors if vectors.flags.writeable else vectors.copy()
    trained[np.isin(client_ids, round_.client_ids)] += np.float32(1)
    losses = {c: 0.5 for c in client_ids if c in round_.client_ids}
    return trained, np.ones(len(client_ids), np.float32) if shares is None else shares, losses

  def train_members(self, vectors, members, round_):
    trained, losses = self.train(vectors, members, round_)
    own = [{c: vectors[k] + np.float32(1) for c in ids} for k, ids in enumerate(losses)]
    return trained, own, losses

  def losses(self, vectors, client_ids):
    places = list(map(_PLACES.index, client_ids))
    return np.abs(vectors[:, :1] - np.array(places, np.float32))

  def subspaces(self, client_ids, num_vectors):
    del num_vectors
    places = map(_PLACES.index, client_ids)
    return [
        {0: np.array([[np.cos(place)], [np.sin(place)]], np.float32)} for place in places
    ]

  def moments(self, vector, client_ids, by_label):
    del vector
    places = np.array(list(map(_PLACES.index, client_ids)), np.float32)
    return np.tile(places[:, None, None, None], (1, 1 + 2 * by_label, 2, 2))

  def initial_vectors(self, num_models, rng):
    return rng.normal(size=(num_models, 5)).astype(np.float32)

  def confusions(self, vectors, requests):
    """A model's predictions follow from its first weight, and are the same on all files."""
    found = []
    for request in requests:
      num_right = [f.num_examples * (vectors[request.vector, 0] > 0) for f in request.files]
      found.append(np.array([
          [[right, file.num_examples - right], [0, 0]]
          for right, file in zip(num_right, request.files)
      ]))
    return found


class _TurnedEngine(_Engine):
  """The same clients in the opposite order."""

  client_ids = _IDS[::-1]


def _pretrained(client_ids=_IDS):
  rng = np.random.default_rng(4)
  vectors = rng.normal(size=(6, 5)).astype(np.float32)
  start = rng.normal(size=5).astype(np.float32)
  rows = list(map(_IDS.index, client_ids))
  weights = client_weights.ClientWeights(client_ids, vectors[rows], start)
  new = client_weights.ClientWeights(_PLACES[6:], vectors[:2] + np.float32(0.01), start)
  return method.Pretrained(start, vectors.mean(axis=0), weights, new)


def _build(name, engine=_Engine()):
  """Returns the method with few clusters in a run of six clients."""
  takes_number = name in config_lib.ThreePhaseConfig.of_choices["methods"]["num_clusters"]
  settings = {"num_clusters": 3} if takes_number else {}
  chosen = {"personal" if name in registry.PERSONAL else "methods": (name,)}
  config = config_lib.ThreePhaseConfig(num_clients=6, **{"methods": (), **chosen}, **settings)
  if name in registry.CONTROLS:
    return registry.CONTROLS[name](config, engine)
  return registry.entry(name).build(config.method_settings(name), engine)


def _copy(state):
  return dataclasses.replace(
      state,
      vectors=state.vectors.copy(),
      memory={name: array.copy() for name, array in state.memory.items()},
  )


@parameterized.parameters(*_ALL)
class MethodContractTest(parameterized.TestCase):

  def _start(self, name):
    return _build(name).initialize(_pretrained(), np.random.default_rng(0))

  def _assert_equal(self, one, other):
    self.assertEqual((one.members, one.warning), (other.members, other.warning))
    np.testing.assert_array_equal(one.vectors, other.vectors)
    self.assertEqual(set(one.memory), set(other.memory))
    for key, array in one.memory.items():
      np.testing.assert_array_equal(array, other.memory[key])

  def test_starts_with_a_model_for_every_client(self, name):
    state = self._start(name)
    cluster_assignment.check_covers(cluster_assignment.clusters_of(state.members), _IDS)
    self.assertEqual(state.vectors.shape, (len(state.members), 5))
    self.assertEqual(state.vectors.dtype, np.float32)
    self.assertTrue(np.all(np.isfinite(state.vectors)))
    state.reported_clusters()[1].check_covers(_IDS)

  def test_who_does_not_pay_for_own_weights_starts_without_them(self, name):
    one, rng = _build(name), np.random.default_rng(0)
    without = dataclasses.replace(_pretrained(), client_weights=None)
    if one.from_start or not one.uses_own_weights:
      one.initialize(without, rng)
      return
    with self.assertRaises(AttributeError):
      one.initialize(without, rng)

  def test_same_seed_gives_the_same(self, name):
    self._assert_equal(self._start(name), self._start(name))

  def test_a_round_depends_on_state_and_round_alone(self, name):
    state = self._start(name)
    before, round_ = _copy(state), participation.Round(9, ("a", "b"), 1)
    after, losses = _build(name).next(state, round_)
    self._assert_equal(state, before)
    again, _ = _build(name).next(before, round_)
    self._assert_equal(after, again)
    cluster_assignment.check_covers(cluster_assignment.clusters_of(after.members), _IDS)
    self.assertGreaterEqual(len(after.members), len(state.members))
    self.assertContainsSubset({c for part in losses for c in part}, {"a", "b"})
    self.assertGreater(np.abs(after.vectors[: len(state.vectors)] - state.vectors).max(), 0)

  def test_rounds_in_one_call_are_those_one_by_one(self, name):
    one, state = _build(name), self._start(name)
    if one.next_rounds is None:
      return
    self.assertEqual(state.members, tuple((client_id,) for client_id in _IDS))
    rounds = [participation.Round(9, ("a", "b"), 1), participation.Round(10, ("b", "c"), 1)]
    found, made = one.next_rounds(_copy(state), rounds)
    for round_, of_round in zip(rounds, made, strict=True):
      state, losses = one.next(state, round_)
      self.assertEqual(of_round.losses, losses)
    self._assert_equal(found, state)

  def test_the_order_of_the_clients_does_not_matter(self, name):
    found = []
    for engine in (_Engine(), _TurnedEngine()):
      one = _build(name, engine)
      state = one.initialize(_pretrained(engine.client_ids), np.random.default_rng(0))
      after, _ = one.next(state, participation.Round(9, engine.client_ids, 1))
      found.append([set(map(frozenset, s.members)) for s in (state, after)])
    self.assertEqual(*found)

  def test_finds_a_model_for_new_clients(self, name):
    one, state = _build(name), self._start(name)
    placement = one.place(_pretrained(), state, ("newer", "new"))
    self.assertEqual(placement.vectors.shape, (2, 5))
    self.assertEqual(placement.vectors.dtype, np.float32)
    self.assertLen(placement.clusters, 2)
    for clusters, vector in zip(placement.clusters, placement.vectors):
      for k in clusters:
        self.assertNotEmpty(state.members[k])
        np.testing.assert_array_equal(vector, state.vectors[k])


@parameterized.parameters(*registry.PERSONAL)
class PersonalContractTest(parameterized.TestCase):

  def _start(self, name):
    return _build(name).initialize(_pretrained(), np.random.default_rng(0))

  def test_every_client_starts_alone_from_the_model_of_phase_1(self, name):
    state = self._start(name)
    self.assertEqual(state.members, tuple((client_id,) for client_id in _IDS))
    np.testing.assert_array_equal(state.vectors, np.tile(_pretrained().vector, (6, 1)))
    self.assertFalse(_build(name).from_start)

  def test_only_who_takes_part_trains_its_own_model(self, name):
    state = self._start(name)
    round_ = participation.Round(9, ("a", "b"), 1)
    with mock.patch.object(_Engine, "train", lambda self, vectors, *_: (vectors, [{}])):
      after, losses = _build(name).next(state, round_)
    # The common model did not move, so what is left is what clients have of their own.
    moved = np.abs(after.vectors - state.vectors)[:, 1:].max(axis=1)
    self.assertEqual({c for c, m in zip(_IDS, moved) if m > 0.4}, {"a", "b"})
    self.assertEqual([set(one) for one in losses], [{c} & {"a", "b"} for c in _IDS])

  def test_new_clients_belong_to_no_cluster(self, name):
    placement = _build(name).place(_pretrained(), self._start(name), ("newer", "new"))
    self.assertEqual(placement.clusters, ((), ()))

  def test_its_options_are_settings_of_a_run(self, name):
    config = config_lib.ThreePhaseConfig(personal=(name,))
    options_of = config.options_of(name)
    self.assertEqual(set(options_of), set(options.of(registry.PERSONAL[name].settings)))
    for option in options.of(registry.PERSONAL[name].settings).values():
      self.assertRegex(option.about, r"^\w.*\.$")


class RegistryTest(absltest.TestCase):

  def test_controls_have_names_of_their_own(self):
    self.assertLen({*registry.METHODS, *registry.CONTROLS, *registry.PERSONAL}, len(_ALL))

  def test_every_row_is_found_by_its_name(self):
    for rows in (registry.METHODS, registry.PERSONAL):
      for name, row in rows.items():
        self.assertIs(registry.entry(name), row)

  def test_modules_outside_of_the_project_are_those_of_methods_and_personal_models(self):
    self.assertEmpty(registry.modules_of_others())
    for module, rows in (("own_one", registry.METHODS), ("own_two", registry.PERSONAL)):
      own = types.new_class("Own", exec_body=lambda body, m=module: body.update(__module__=m))
      self.enter_context(mock.patch.dict(rows, {module: registry.MethodEntry(own, own)}))
    self.assertEqual(registry.modules_of_others(), ["own_one", "own_two"])

  def test_needs_nothing_that_takes_long_to_import(self):
    program = (
        "import sys; from fl_clustering.three_phase import config; "
        "print(*{name.split('.')[0] for name in sys.modules})"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    output = subprocess.run(
        [sys.executable, "-c", program],
        env=environment, check=True, stdout=subprocess.PIPE, text=True,
    ).stdout
    imported = set(output.split())
    self.assertContainsSubset({"fl_clustering", "numpy"}, imported)
    slow = {"pandas", "scipy", "sklearn", "tensorflow", "tensorflow_federated"}
    self.assertEmpty(slow & imported)


@parameterized.parameters(*aggregation.AGGREGATORS)
class AggregatorContractTest(parameterized.TestCase):

  def test_is_built_from_the_configuration(self, name):
    config = config_lib.ThreePhaseConfig(num_clients=6, aggregator=name)
    aggregator = config.build_aggregator()
    self.assertIsInstance(aggregator, aggregation.AGGREGATORS[name])
    with self.assertRaises(dataclasses.FrozenInstanceError):
      aggregator.clipping_norm = 2.0

  def test_describes_itself(self, name):
    aggregator = aggregation.AGGREGATORS[name]
    self.assertRegex(aggregator.about, r"^\w.*\w$")
    self.assertIsInstance(aggregator.is_private, bool)
    config = config_lib.ThreePhaseConfig(num_clients=6, aggregator=name)
    guarantee = config.build_aggregator().guarantee(rounds_per_client=3)
    self.assertEqual(guarantee is not None, aggregator.is_private)
    for option in options.of(aggregator).values():
      self.assertRegex(option.about, r"^\w.*\.$")


if __name__ == "__main__":
  absltest.main()
