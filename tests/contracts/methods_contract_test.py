"""What holds for every method and control."""

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
from fl_clustering.engine import participation
from fl_clustering.methods import client_weights
from fl_clustering.methods import cluster_assignment
from fl_clustering.methods import method
from fl_clustering.methods import registry
from fl_clustering.tasks import models
from fl_clustering.three_phase import config as config_lib
from fl_clustering.three_phase import own_code
from tests import letters

_CLIENTS, _NEW = np.arange(6), np.array([6, 7])
_ALL = (*registry.METHODS, *registry.CONTROLS, *registry.PERSONAL)
_OF_A_NUMBER = tuple(config_lib.ThreePhaseConfig.of_choices["methods"]["num_clusters"])


def _losses(clients):
  return participation.ClientLosses(clients, np.full(len(clients), 0.5))


class _Engine:
  """Works without data: what is trained grows by one, and no file is read."""

  clients, new_clients = _CLIENTS, _NEW
  model = types.SimpleNamespace(
      name="small", num_parameters=5, num_classes=2, head=("kernel", "bias"),
      parameter_shapes={"scale": (1,), "kernel": (1, 2), "bias": (2,)},
  )
  schedule = config_lib.ThreePhaseConfig(num_clients=6)
  num_examples = 1 + np.arange(8)

  def train(self, vectors, members, round_, already_sent=False):
    del already_sent  # It counts no cost.
    losses = [_losses(round_.among(clients)) for clients in members]
    is_trained = [len(one.clients) > 0 for one in losses]
    return vectors + np.array(is_trained, np.float32)[:, None], losses

  def train_each(self, vectors, clients, round_):
    del round_
    return vectors + np.float32(1), _losses(clients)

  def train_own(
      self, vectors, clients, round_, common=None, how=None, shares=None, num_shared=0
  ):
    del common, how, num_shared
    trained = vectors if vectors.flags.writeable else vectors.copy()
    trained[np.isin(clients, round_.clients)] += np.float32(1)
    shares = np.ones(len(clients), np.float32) if shares is None else shares
    return trained, shares, _losses(round_.among(clients))

  def train_members(self, vectors, members, round_):
    trained, losses = self.train(vectors, members, round_)
    own = [
        np.tile(vector + np.float32(1), (len(one.clients), 1))
        for vector, one in zip(vectors, losses)
    ]
    return trained, own, losses

  def losses(self, vectors, clients):
    return np.abs(vectors[:, :1] - clients.astype(np.float32))

  def subspaces(self, clients, num_vectors):
    del num_vectors
    return [{0: np.array([[np.cos(c)], [np.sin(c)]], np.float32)} for c in clients]

  def moments(self, vector, clients, by_label):
    del vector
    moments = clients.astype(np.float32)[:, None, None, None]
    return np.tile(moments, (1, 1 + 2 * by_label, 2, 2))

  def initial_vectors(self, num_models, rng):
    return rng.normal(size=(num_models, 5)).astype(np.float32)


def _pretrained(order=_CLIENTS):
  rng = np.random.default_rng(4)
  vectors = rng.normal(size=(6, 5)).astype(np.float32)
  start = rng.normal(size=5).astype(np.float32)
  weights = client_weights.ClientWeights(order, vectors[order], start)
  new = client_weights.ClientWeights(_NEW, vectors[:2] + np.float32(0.01), start)
  return method.Pretrained(start, vectors.mean(axis=0), weights, new)


def _build(name, engine=_Engine()):
  """Returns the method with few clusters in a run of six clients."""
  if name in registry.CONTROLS:
    return registry.CONTROLS[name].build(config_lib.ThreePhaseConfig(num_clients=6), engine)
  settings = {"num_clusters": 3} if name in _OF_A_NUMBER else {}
  entry = registry.entry(name)
  return entry.build(entry.settings(**settings), engine)


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
    self.assertEqual(letters.names(one.members), letters.names(other.members))
    self.assertEqual(one.warning, other.warning)
    np.testing.assert_array_equal(one.vectors, other.vectors)
    self.assertEqual(set(one.memory), set(other.memory))
    for key, array in one.memory.items():
      np.testing.assert_array_equal(array, other.memory[key])

  def test_starts_with_a_model_for_every_client(self, name):
    state = self._start(name)
    self._assert_equal(self._start(name), state)
    cluster_assignment.check_covers(state.members, _CLIENTS)
    self.assertEqual(state.vectors.shape, (len(state.members), 5))
    self.assertEqual(state.vectors.dtype, np.float32)
    self.assertTrue(np.all(np.isfinite(state.vectors)))
    cluster_assignment.check_covers(state.reported_clusters()[1].clusters, _CLIENTS)

  def test_who_does_not_pay_for_own_weights_starts_without_them(self, name):
    one, rng = _build(name), np.random.default_rng(0)
    without = dataclasses.replace(_pretrained(), client_weights=None)
    if one.from_start or not one.uses_own_weights:
      one.initialize(without, rng)
      return
    with self.assertRaises(AssertionError):
      one.initialize(without, rng)

  def test_a_round_depends_on_state_and_round_alone(self, name):
    state = self._start(name)
    before, round_ = _copy(state), participation.Round(9, letters.clients("ab"), 1)
    after, losses = _build(name).next(state, round_)
    self._assert_equal(state, before)
    again, _ = _build(name).next(before, round_)
    self._assert_equal(after, again)
    cluster_assignment.check_covers(after.members, _CLIENTS)
    self.assertGreaterEqual(len(after.members), len(state.members))
    self.assertContainsSubset({c for part in letters.losses(losses) for c in part}, {"a", "b"})
    self.assertGreater(np.abs(after.vectors[: len(state.vectors)] - state.vectors).max(), 0)

  def test_the_order_of_the_clients_does_not_matter(self, name):
    found = []
    for order in (_CLIENTS, _CLIENTS[::-1]):
      one = _build(name)
      state = one.initialize(_pretrained(order), np.random.default_rng(0))
      after, _ = one.next(state, participation.Round(9, order, 1))
      found.append([letters.names(s.members) for s in (state, after)])
    self.assertEqual(*found)

  def test_says_what_the_server_sees_of_single_clients(self, name):
    asked = {
        part: self.enter_context(
            mock.patch.object(_Engine, part, autospec=True, side_effect=getattr(_Engine, part))
        )
        for part in ("train_members", "losses", "subspaces", "moments", "train_own")
    }
    _build(name).next(self._start(name), participation.Round(9, letters.clients("ab"), 1))
    seen = {part for part, calls in asked.items() if calls.called}
    if not any(call.kwargs.get("num_shared") for call in asked["train_own"].call_args_list):
      seen.discard("train_own")  # Own models stay with their clients.
    if name in registry.CONTROLS:
      self.assertEmpty(seen)
      return
    entry = registry.entry(name)
    self.assertEqual(bool(entry.sees), bool(seen))
    self.assertEqual(entry.groups_by_features, bool(seen & {"subspaces", "moments"}))

  def test_finds_a_model_for_new_clients(self, name):
    one, state = _build(name), self._start(name)
    placement = one.place(_pretrained(), state, _NEW[::-1])
    self.assertEqual(placement.vectors.shape, (2, 5))
    self.assertEqual(placement.vectors.dtype, np.float32)
    self.assertLen(placement.clusters, 2)
    for clusters, vector in zip(placement.clusters, placement.vectors):
      for k in clusters:
        self.assertNotEmpty(state.members[k])
        np.testing.assert_array_equal(vector, state.vectors[k])


class NumClustersTest(parameterized.TestCase):

  @parameterized.parameters(*_OF_A_NUMBER)
  def test_refuses_more_clusters_than_clients(self, name):
    config = config_lib.ThreePhaseConfig(num_clients=9, methods=(name,), num_clusters=7)
    one = registry.entry(name).build(config.method_settings(name), _Engine())
    with self.assertRaisesRegex(ValueError, "^`num_clusters`"):
      one.initialize(_pretrained(), np.random.default_rng(0))


@parameterized.parameters(*registry.PERSONAL)
class PersonalContractTest(parameterized.TestCase):

  def _start(self, name):
    return _build(name).initialize(_pretrained(), np.random.default_rng(0))

  def test_every_client_starts_alone_from_the_model_of_phase_1(self, name):
    state = self._start(name)
    self.assertEqual(letters.names(state.members), tuple("abcdef"))
    np.testing.assert_array_equal(state.vectors, np.tile(_pretrained().vector, (6, 1)))
    self.assertFalse(_build(name).from_start)

  def test_only_who_takes_part_trains_its_own_model(self, name):
    state = self._start(name)
    round_ = participation.Round(9, letters.clients("ab"), 1)
    with mock.patch.object(_Engine, "train", lambda self, vectors, *_: (vectors, None)):
      after, losses = _build(name).next(state, round_)
    # The common model did not move, so what is left is what clients have of their own.
    moved = np.abs(after.vectors - state.vectors)[:, 1:].max(axis=1)
    self.assertEqual(letters.name(np.flatnonzero(moved > 0.4)), "ab")
    self.assertEqual(letters.names(one.clients for one in losses), ("a", "b", *[""] * 4))

  def test_new_clients_belong_to_no_cluster(self, name):
    placement = _build(name).place(_pretrained(), self._start(name), _NEW[::-1])
    self.assertEqual(placement.clusters, ((), ()))

  def test_its_options_are_settings_of_a_run(self, name):
    config = config_lib.ThreePhaseConfig(personal=(name,))
    options_of = config.options_of(name)
    self.assertEqual(set(options_of), set(options.of(registry.PERSONAL[name].settings)))
    for option in options.of(registry.PERSONAL[name].settings).values():
      self.assertRegex(option.about, r"^\w.*\.$")


class ApflTest(absltest.TestCase):

  def test_a_share_of_zero_is_no_missing_one(self):
    entry = registry.entry("apfl")
    one = entry.build(entry.settings(apfl_alpha=0.0), _Engine())
    state = one.initialize(_pretrained(), np.random.default_rng(0))
    np.testing.assert_array_equal(state.memory["alpha"], np.zeros(6))


class RegistryTest(absltest.TestCase):

  def test_controls_have_names_of_their_own(self):
    self.assertLen({*registry.METHODS, *registry.CONTROLS, *registry.PERSONAL}, len(_ALL))

  def test_every_row_is_found_by_its_name(self):
    for rows in (registry.METHODS, registry.PERSONAL):
      for name, row in rows.items():
        self.assertIs(registry.entry(name), row)

  def test_modules_outside_of_the_project_are_those_of_methods_and_models(self):
    self.assertEmpty(own_code.modules())
    for module, rows in (
        ("one", registry.METHODS), ("two", registry.PERSONAL), ("three", models.MODELS)
    ):
      own = types.new_class("Own", exec_body=lambda body, m=module: body.update(__module__=m))
      row = own if rows is models.MODELS else registry.MethodEntry(own, own)
      self.enter_context(mock.patch.dict(rows, {module: row}))
    self.assertEqual(own_code.modules(), ["one", "two", "three"])

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
