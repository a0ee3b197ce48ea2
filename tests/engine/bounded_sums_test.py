"""Sums of bounded messages are the same in both engines, but for the rounding of float32."""

import functools
import itertools
from unittest import mock

from absl.testing import parameterized
import numpy as np

from fl_clustering.engine import bounded_sums
from fl_clustering.engine import sketch
from fl_clustering.engine.jax import blocks
from fl_clustering.engine.jax import bounded_sums as of_jax
from fl_clustering.engine.tff import bounded_sums as of_tff
from fl_clustering.engine.tff import client_files
from fl_clustering.tasks import examples as examples_lib
from fl_clustering.tasks import models
from tests import hostile_clients
from tests import local_runtime
from tests import nightly
from tests.engine.tff import small_engine

_LINEAR, _CNN = "logistic", "cnn_small"
_SHAPES = {_LINEAR: (6,), _CNN: (10, 10, 1)}
_NUM_CLASSES = 3
_NUM_CAUSES = 4
_LOCAL_STEPS, _RATE = 3, 0.1
# By place: numbers of examples for training and testing.  JAX fills them up to one of three sizes.
_NUM_TRAIN = (8, 25, 0, 27, 40, 7, 6, 38, 8, 7, 26, 1)
_NUM_TEST = (3, 9, 5, 6, 0, 4, 7, 1, 5, 3, 8, 4)
_NUM_CLIENTS = len(_NUM_TRAIN)
_NO_TRAINING, _NO_TEST, _NAN, _HUGE = 2, 4, 6, 9
_EVERYONE = np.arange(_NUM_CLIENTS)
_SOME = np.array([1, 2, 4, 5, 6, 10])
# Steps that a coordinate of one client's message may differ by.  A parameter below 1 is rounded by
# up to 2^-25 in each of the local steps of both engines, and so is its change; over the clip norm
# of .5 that is 2^20 * 2 * 3 * 2 * 2^-25 / .5 = .75 steps.  Truncation makes it 1.75; the rest is
# for sums in another order.
_STEPS = 2.5
_CLIP_NORM = 0.5

setUpModule = local_runtime.use


@functools.cache
def _model(name):
  # Inputs of float32, some of which are not finite.
  return models.build(name, _SHAPES[name], _NUM_CLASSES, "float32")


@functools.cache
def _clients(name):
  """Returns clients of two kinds, whose labels are a rule, or the same the other way round."""
  rng, found = np.random.default_rng(5), []
  rule = rng.normal(size=(_NUM_CAUSES, _NUM_CLASSES))
  seen_as = rng.normal(size=(_NUM_CAUSES, np.prod(_SHAPES[name])))
  for place, sizes in enumerate(zip(_NUM_TRAIN, _NUM_TEST)):
    causes = rng.normal(size=(sum(sizes), _NUM_CAUSES))
    features = (causes @ seen_as).astype(np.float32).reshape(-1, *_SHAPES[name])
    labels = (causes @ rule * (-1) ** place).argmax(axis=1)
    if place == _NAN:
      features[::2] = np.nan
    if place == _HUGE:
      features *= 1e37
    found.append(
        ((features[:sizes[0]], labels[:sizes[0]]), (features[sizes[0]:], labels[sizes[0]:]))
    )
  return hostile_clients.pooled(found)


def _of_tff(name, num_clusters):
  # Which would refuse what is not finite.
  with mock.patch.object(examples_lib.Examples, "__post_init__"):
    files = client_files.write_examples(_clients(name), small_engine.folder())
  return of_tff.BoundedSums(
      _model(name), num_clusters, _LOCAL_STEPS, _RATE, files, small_engine.folder()
  )


def _of_jax(name, num_clusters):
  clients = _clients(name)

  def of_three(model, most):  # So that there are several blocks.
    return blocks.plan(model, most, clients_per_block=3)

  with mock.patch.object(of_jax, "_planned", of_three):
    return of_jax.BoundedSums(
        _model(name), num_clusters, _LOCAL_STEPS, _RATE, clients.train, clients.test
    )


_ENGINES = {"tff": _of_tff, "jax": _of_jax}


@functools.cache
def _sums(engine, name=_LINEAR, num_clusters=2):
  return _ENGINES[engine](name, num_clusters)


def _centered(sums, mean=np.zeros(sketch.SIZE)):
  """Returns the clients' centered sketches, which stay with them."""
  points = sums.centered_sketches(mean)
  found = [
      np.fromfile(points.by_id[client]) if isinstance(points.by_id, dict) else points.by_id[client]
      for client in _EVERYONE
  ]
  return np.array(found, np.float64)


def _public(sums, is_locked=False, clip_norm=_CLIP_NORM):
  """Returns models that are drawn; centers are as sketches of one client of each kind."""
  centers = np.zeros((2, sketch.SIZE))
  if is_locked:
    # A sketch of zeros or noise is nearer to the shorter one, in either engine's coordinates.
    centers = _centered(sums)[[1, 10]] * [[1], [0.7]]
  drawn = [
      np.concatenate([p.ravel() for p in sums.model.initial_parameters(np.random.default_rng(i))])
      for i in range(sums.num_clusters)
  ]
  return bounded_sums.Public(
      np.array(drawn, np.float32), is_locked, centers[:sums.num_clusters], clip_norm
  )


def _total(sums, question, clients=_EVERYONE, shares=None, **public):
  told = None if question is bounded_sums.SKETCH else _public(sums, **public)
  found = sums.total(question, told, clients, shares)
  if found.shape != (sums.size(question),) or found.dtype != np.int64:
    raise AssertionError(f"{question.name}: {found.dtype} of shape {found.shape}")
  return found


class BothEnginesTest(parameterized.TestCase):

  def _check(self, question, atol=0.0, num_clusters=2, name=_LINEAR, **asked):
    tff, jax = (
        _total(_sums(engine, name, num_clusters), question, **asked) for engine in _ENGINES
    )
    np.testing.assert_allclose(jax, tff, rtol=0, atol=atol)
    return tff

  @parameterized.parameters(
      *itertools.product([_LINEAR], [1, 2], [False, True], [_EVERYONE, _SOME]),
      (_CNN, 1, True, _SOME), (_CNN, 2, True, _EVERYONE), (_CNN, 2, False, _EVERYONE),
  )
  def test_sums_of_updates(self, name, num_clusters, is_locked, clients):
    # By day, `client_update_test` and `networks_test` look at a network's steps.
    nightly.skip_by_day(self, name == _CNN)
    found = self._check(
        bounded_sums.ROUND, name=name, num_clusters=num_clusters, is_locked=is_locked,
        clients=clients, atol=_STEPS * len(clients),
    )
    slots = found[:-1].reshape(num_clusters, -1)
    self.assertGreater(np.linalg.norm(slots[:, :-1]), bounded_sums.STEPS / 2)
    with_examples = np.count_nonzero(np.array(_NUM_TRAIN)[clients])
    counts = np.rint(slots[:, -1] / bounded_sums.STEPS / bounded_sums.COUNT_WEIGHT)
    self.assertEqual(counts.sum(), with_examples)
    self.assertNotIn(0, counts)

  @parameterized.parameters((_LINEAR, 1, _EVERYONE), (_LINEAR, 2, _SOME), (_CNN, 2, _EVERYONE))
  def test_histograms_of_norms(self, name, num_clusters, clients):
    # By day, two clusters of the linear one; `test_sums_of_updates` has one, too.
    nightly.skip_by_day(self, name == _CNN or num_clusters == 1)
    # No norm here is so near to an edge that its rounding decides.
    found = self._check(
        bounded_sums.NORM, name=name, num_clusters=num_clusters, clients=clients
    )
    one = bounded_sums.in_steps(np.ones(1))[0]
    self.assertEqual(found.sum(), one * np.count_nonzero(np.array(_NUM_TRAIN)[clients]))

  @parameterized.parameters((_LINEAR, 1, False), (_LINEAR, 2, True), (_CNN, 2, False))
  def test_reports(self, name, num_clusters, is_locked):
    # By day, two clusters of the linear one; `test_sums_of_updates` has one, too.
    nightly.skip_by_day(self, name == _CNN or num_clusters == 1)
    # A quotient of integers may be rounded to either side of an integer of steps.
    found = self._check(
        bounded_sums.REPORT, name=name, num_clusters=num_clusters, is_locked=is_locked,
        atol=_NUM_CLIENTS,
    )
    halves = np.rint(2 * found.reshape(num_clusters, 2)[:, 1] / bounded_sums.STEPS)
    self.assertEqual(halves.sum(), _NUM_CLIENTS - 2)

  def test_inner_products_of_sketches(self):
    # Each engine has a random projection of its own.  An inner product of two vectors of norm 1
    # then has a standard deviation of at most sqrt(2 / 256); six of them, for two engines.
    tff, jax = (_centered(_sums(engine)) for engine in _ENGINES)
    # What there is of infinite sums of squares is rounding.
    tff, jax = (np.delete(own, _HUGE, axis=0) for own in (tff, jax))
    np.testing.assert_allclose(
        jax @ jax.T, tff @ tff.T, atol=6 * np.sqrt(2) * np.sqrt(2 / sketch.SIZE)
    )
    ordinary, kinds = [0, 1, 3, 4, 7, 9], [0, 1, 1, 0, 1, 0]  # The last is place 10.
    for own in (tff, jax):
      products = (own @ own.T)[np.ix_(ordinary, ordinary)]
      same = np.equal.outer(kinds, kinds)
      self.assertGreater(products[same].min(), products[~same].max())

  @parameterized.parameters(*_SHAPES)
  def test_scores(self, name):
    nightly.skip_by_day(self, name == _CNN)  # By day, see `test_sums_of_updates`.
    clients = np.array([0, 1, 3, 5, _NAN, 7, 8, _HUGE, 10, 11])
    tff, jax = (
        sums.scores(_public(sums).vectors, clients, 30)
        for sums in (_sums(engine, name) for engine in _ENGINES)
    )
    np.testing.assert_array_equal(jax.slots, tff.slots)
    self.assertCountEqual(set(tff.slots), (0, 1))
    for own, expected in zip(jax[1:], tff[1:]):
      np.testing.assert_allclose(own, expected, atol=1e-12)
    self.assertNotEqual(tff.finetuned.tolist(), tff.accuracies.tolist())
    # Whose training isn't finite keeps the model.
    not_finite = np.isin(clients, [_NAN, _HUGE])
    np.testing.assert_array_equal(tff.finetuned[not_finite], tff.accuracies[not_finite])


@parameterized.parameters(*_ENGINES)
class ContractTest(parameterized.TestCase):

  def setUp(self):
    super().setUp()
    # So that JAX computes sketches in several parts.
    self.enter_context(mock.patch.object(of_jax, "_SKETCHES_AT_ONCE", 4))

  def test_a_sum_is_that_of_the_single_messages_and_the_shares(self, engine):
    sums, rng = _sums(engine), np.random.default_rng(0)
    for question in hostile_clients.QUESTIONS:
      singles = [_total(sums, question, np.array([client])) for client in _SOME]
      np.testing.assert_array_equal(_total(sums, question, _SOME), sum(singles))
      # Their sum leaves the integers of 61 bits.
      shares = list(rng.integers(-2**60, 2**60, (len(_SOME), sums.size(question))))
      found = _total(sums, question, _SOME, shares=iter(shares))
      np.testing.assert_array_equal((found - sum(shares) - sum(singles)) % 2**62, 0)

  def test_who_cant_answer_sends_zeros(self, engine):
    sums = _sums(engine)
    for client, empty in (
        (_NO_TRAINING, hostile_clients.QUESTIONS), (_NO_TEST, (bounded_sums.REPORT,)),
        (_NAN, (bounded_sums.SKETCH,)),
    ):
      for question in hostile_clients.QUESTIONS:
        found = _total(sums, question, np.array([client]))
        self.assertEqual(not found.any(), question in empty, (client, question.name))
    # Of an update that is not finite, there is a count, and a bit as of a short one.
    found = _total(sums, bounded_sums.ROUND, np.array([_NAN]))
    expected = bounded_sums.in_steps(np.array([bounded_sums.COUNT_WEIGHT, 0.05]))
    np.testing.assert_array_equal(found[found != 0], expected)

  def test_a_message_holds_the_sketch_that_the_client_keeps(self, engine):
    sums = _sums(engine)
    kept = _centered(sums)
    for client in _EVERYONE:
      message = _total(sums, bounded_sums.SKETCH, np.array([client])) / bounded_sums.STEPS
      # Truncated, and some keep it as float32 of numbers below 1.
      np.testing.assert_allclose(message, kept[client], atol=4 / bounded_sums.STEPS)

  def test_sketches_are_kept_less_the_mean(self, engine):
    sums, mean = _sums(engine), np.full(sketch.SIZE, 0.02)
    own = _centered(sums) - mean
    expected = own / np.linalg.norm(own, axis=1, keepdims=True)
    expected[_NO_TRAINING] = 0
    np.testing.assert_allclose(_centered(sums, mean), expected, atol=1e-6)

  def test_locked_clients_take_the_slot_of_the_nearest_center(self, engine):
    sums = _sums(engine)
    public = _public(sums, is_locked=True)
    own = _centered(sums)
    for client in (0, 1, 3, 5, 7, 8):
      nearest = ((own[client] - public.centers) ** 2).sum(axis=1).argmin()
      found = sums.total(bounded_sums.REPORT, public, np.array([client])).reshape(2, 2)
      self.assertEqual(found[:, 1].argmax(), nearest)
      swapped = public._replace(centers=public.centers[::-1])
      found = sums.total(bounded_sums.REPORT, swapped, np.array([client])).reshape(2, 2)
      self.assertEqual(found[:, 1].argmax(), 1 - nearest)
