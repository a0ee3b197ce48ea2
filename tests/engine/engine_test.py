"""What both engines do, whatever random numbers they draw."""

import dataclasses

from absl.testing import parameterized
import numpy as np

from fl_clustering.engine import cost as cost_lib
from fl_clustering.engine import divergence
from fl_clustering.engine import participation
from fl_clustering.engine import personalization
from fl_clustering.tasks import examples as examples_lib
from fl_clustering.tasks import federated_task
from tests import letters
from tests import local_runtime
from tests import nightly
from tests import own_tasks
from tests import small_task
from tests.engine import both_engines

_ALL = np.arange(5)
_TASK = small_task.small_task()
# Client "d" is in three clusters, "a" in none, and one cluster is empty.
_CLUSTERS = letters.clusters("bcde", "", "ed", "d")
# Client "c" does not take part.
_ROUND = participation.Round(4, letters.clients("abde"), 2)

setUpModule = local_runtime.use


def _vectors(num_models, task=_TASK):
  return small_task.vectors(task, num_models)


def _read_only(array):
  array = array.copy()
  array.flags.writeable = False
  return array


def _everyone(num_epochs=1):
  return participation.Round(3, _ALL, num_epochs)


def _rows(examples):
  return examples.features.reshape(len(examples), -1) / 255


class _ContractTest(parameterized.TestCase):

  def _engine(self, name, *args):
    return both_engines.ENGINES[name](*args)


@parameterized.parameters(*both_engines.ENGINES)
class TrainTest(_ContractTest):

  def test_lowers_the_members_losses(self, name):
    engine = self._engine(name)
    vectors = _vectors(1)
    before = engine.losses(vectors, letters.clients("ed"))
    for number in range(1, 4):
      vectors, _ = engine.train(
          vectors, letters.clusters("de"), participation.Round(number, _ALL, 2)
      )
    after = engine.losses(vectors, letters.clients("ed"))
    self.assertEqual(after.shape, (1, 2))
    np.testing.assert_array_less(after, before - 0.1)

  def test_models_that_clients_have_are_not_sent_again(self, name):
    engine, round_ = self._engine(name), participation.Round(1, letters.clients("ae"), 1)
    engine.train(_vectors(1), letters.clusters("abe"), round_, already_sent=True)
    expected = engine.training_cost(letters.clients("ae"), 1)
    self.assertEqual(engine.cost, dataclasses.replace(expected, bytes_down=0))

  def test_clients_that_do_not_take_part_are_trained_alone_too(self, name):
    vectors = _vectors(2)
    everyone = participation.Round(2, _ALL, 1)
    engine = self._engine(name)
    expected, expected_losses = engine.train_each(vectors, letters.clients("bd"), everyone)
    trained, losses = engine.train_each(
        vectors, letters.clients("bd"), participation.Round(2, letters.clients("ad"), 1)
    )
    np.testing.assert_array_equal(trained, expected)
    self.assertEqual(letters.losses([losses]), letters.losses([expected_losses]))

  def test_models_are_drawn_anew(self, name):
    found = self._engine(name).initial_vectors(3, np.random.default_rng(0))
    self.assertEqual((found.shape, found.dtype), ((3, _TASK.num_parameters), np.float32))
    self.assertLen(np.unique(found, axis=0), 3)


@parameterized.parameters(*both_engines.ENGINES)
class TrainMembersTest(_ContractTest):

  def test_models_and_losses_are_those_of_train_to_the_bit(self, name):
    clusters = (*_CLUSTERS, _ALL)
    starts = _vectors(len(clusters))
    for round_ in (_everyone(2), participation.Round(4, letters.clients("aed"), 1)):
      old, new = self._engine(name), self._engine(name)
      expected, expected_losses = old.train(starts, clusters, round_)
      vectors, _, losses = new.train_members(starts, clusters, round_)
      np.testing.assert_array_equal(vectors, expected)
      self.assertEqual(letters.losses(losses), letters.losses(expected_losses))
      self.assertEqual(new.cost, old.cost)
    np.testing.assert_array_equal(starts, _vectors(len(clusters)))

  def test_own_models_are_what_each_client_trained(self, name):
    starts, engine = _vectors(len(_CLUSTERS)), self._engine(name)
    _, own, losses = engine.train_members(starts, _CLUSTERS, _everyone())
    for start, members, own_of_members, of_cluster in zip(starts, _CLUSTERS, own, losses):
      self.assertCountEqual(of_cluster.clients, members)
      self.assertEqual(own_of_members.dtype, np.float32)
      if len(members):
        alone, of_alone = engine.train_each(
            np.broadcast_to(start, own_of_members.shape), of_cluster.clients, _everyone()
        )
        np.testing.assert_allclose(own_of_members, alone, atol=1e-6)
        np.testing.assert_allclose(of_cluster.values, of_alone.values, atol=1e-6)

  def test_only_members_that_take_part_have_own_models(self, name):
    starts = _vectors(len(_CLUSTERS))
    vectors, own, losses = self._engine(name).train_members(
        starts, _CLUSTERS, participation.Round(1, letters.clients("ace"), 1)
    )
    self.assertEqual([len(part) for part in own], [2, 0, 1, 0])
    self.assertEqual(letters.names(np.sort(part.clients) for part in losses), ("ce", "", "e", ""))
    np.testing.assert_array_equal(vectors[[1, 3]], starts[[1, 3]])
    np.testing.assert_allclose(vectors[2], own[2][0], atol=1e-7)

  def test_nobody_to_train(self, name):
    starts = _vectors(2)
    vectors, own, losses = self._engine(name).train_members(
        starts, letters.clusters("", ""), _everyone()
    )
    np.testing.assert_array_equal(vectors, starts)
    self.assertEqual([part.shape for part in own], [(0, _TASK.num_parameters)] * 2)
    self.assertEqual(letters.losses(losses), [{}, {}])

  def test_divergence_names_cluster_and_client(self, name):
    with self.assertRaisesRegex(divergence.TrainingDiverged, "round 3, cluster 1, client 'e'"):
      self._engine(name, None, 2, 3e38).train_members(
          _vectors(2), letters.clusters("", "e"), _everyone(2)
      )
    with self.assertRaisesRegex(divergence.TrainingDiverged, "round 3, client 'e'"):
      self._engine(name, None, 2, 3e38).train(_vectors(1), letters.clusters("e"), _everyone(2))


@parameterized.parameters(*both_engines.ENGINES)
class TrainOwnTest(_ContractTest):

  def _own_models(self, task=_TASK):
    """Returns the clients' models and a common one."""
    rng = np.random.default_rng(0)
    vectors = rng.normal(0, 0.1, (len(task.clients) + 1, task.num_parameters))
    vectors = vectors.astype(np.float32)
    return vectors[:-1], vectors[-1]

  def test_without_anything_is_training_alone(self, name):
    own, _ = self._own_models()
    engine = self._engine(name)
    found, shares, losses = engine.train_own(own.copy(), _ALL, _ROUND)
    # Batches of 20 of 7, 20, 41 and 60 examples; nothing is sent.
    self.assertEqual(engine.cost, cost_lib.Cost(2 * (1 + 1 + 3 + 3)))
    expected, expected_losses = engine.train(own, _ALL[:, None], _ROUND)
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6)
    np.testing.assert_array_equal(found[2], own[2])
    expected = participation.joined(expected_losses)
    np.testing.assert_array_equal(losses.clients, expected.clients)
    np.testing.assert_allclose(losses.values, expected.values, rtol=1e-6)
    np.testing.assert_array_equal(shares, np.ones(5, np.float32))

  def test_weights_that_are_not_finite_after_the_last_step_are_told(self, name):
    # Losses are those before each step.
    with self.assertRaisesRegex(
        divergence.TrainingDiverged, "weights are not finite after round 3, cluster 1;"
    ):
      self._engine(name, None, 100, 3e38).train(
          _vectors(2), letters.clusters("", "e"), _everyone()
      )
    own, common = self._own_models()
    how, round_ = personalization.Personalization(pull=1e30), _everyone()
    round_ = dataclasses.replace(round_, clients=letters.clients("e"))
    with self.assertRaisesRegex(
        divergence.TrainingDiverged, "weights are not finite after round 3, client 'e';"
    ):
      self._engine(name, None, 100, 1e25).train_own(
          own[:2], letters.clients("be"), round_, common, how
      )

  def test_new_models_take_the_place_of_those_before_unless_they_are_read_only(self, name):
    own, common = self._own_models()
    how = personalization.Personalization(pull=0.1)
    arguments = _ALL, _ROUND, common, how
    before = own.copy()
    copied, _, _ = self._engine(name).train_own(_read_only(own), *arguments)
    in_place, _, _ = self._engine(name).train_own(own, *arguments)
    np.testing.assert_array_equal(copied, in_place)
    self.assertIs(in_place, own)
    self.assertGreater(np.abs(own - before).max(), 0)

  def test_who_does_not_take_part_keeps_model_and_share(self, name):
    own, common = self._own_models()
    clients, shares = letters.clients("dcb"), np.array([0.25, 0.5, 0.75], np.float32)
    how = personalization.Personalization(is_mixture=True, learns_share=True)
    round_ = participation.Round(4, letters.clients("bea"), 2)
    found, learned, losses = self._engine(name).train_own(
        _read_only(own[:3]), clients, round_, common, how, _read_only(shares)
    )
    self.assertEqual(letters.name(losses.clients), "b")
    np.testing.assert_array_equal(found[:2], own[:2])
    np.testing.assert_array_equal(learned[:2], shares[:2])
    self.assertGreater(np.abs(found[2] - own[2]).max(), 1e-4)
    self.assertNotEqual(learned[2], shares[2])
    alone, share, _ = self._engine(name).train_own(
        own[2:3].copy(), clients[2:], round_, common, how, shares[2:]
    )
    np.testing.assert_allclose(found[2:], alone, atol=1e-7)
    np.testing.assert_allclose(learned[2:], share, atol=1e-7)

  def test_counts_steps_and_what_is_shared(self, name):
    nightly.skip_by_day(self, name == "tff")  # By day, `equal_engines_test` compares the costs.
    task = small_task.small_task("mlp")
    own, common = self._own_models(task)
    for how, num_epochs in (
        (personalization.Personalization(pull=0.1), 2),
        (personalization.Personalization(head_epochs=3), 5),
    ):
      engine = self._engine(name, task)
      engine.train_own(own.copy(), _ALL, _ROUND, common, how, num_shared=7)
      # Steps of 20 examples: of a, b, d and e.
      self.assertEqual(engine.cost.values(), (num_epochs * (1 + 1 + 3 + 3), 4 * 4 * 7, 4 * 4 * 7))

  def test_says_whose_training_diverged(self, name):
    own, common = self._own_models()
    how = personalization.Personalization(pull=1e30)
    with self.assertRaisesRegex(divergence.TrainingDiverged, "round 4.*'[abde]'"):
      self._engine(name, None, 20, 1e25).train_own(own, _ALL, _ROUND, common, how)


@parameterized.parameters(*both_engines.ENGINES)
class LossesTest(_ContractTest):

  def test_cost_the_models_down_and_a_number_each_up(self, name):
    engine = self._engine(name)
    engine.losses(_vectors(3), letters.clients("ae"))
    self.assertEqual(engine.cost, cost_lib.Cost(0, 2 * 3 * 4 * _TASK.num_parameters, 2 * 3 * 4))

  def test_a_model_without_a_loss_is_never_the_best(self, name):
    engine, vectors = self._engine(name), _vectors(3)
    expected = engine.losses(vectors, _ALL[:2])
    vectors[0] = np.nan
    vectors[2] = 1e38
    losses = engine.losses(vectors, _ALL[:2])
    np.testing.assert_array_equal(losses[[0, 2]], np.inf)
    np.testing.assert_array_equal(losses[1], expected[1])

  def test_new_clients_have_losses_moments_and_subspaces(self, name):
    clients, asked = _TASK.clients, letters.clients("eda")
    task = dataclasses.replace(_TASK, clients=clients[:-2], new_clients=clients[-2:])
    engines = self._engine(name), self._engine(name, task)
    np.testing.assert_array_equal(*(one.losses(_vectors(2), asked) for one in engines))
    np.testing.assert_allclose(
        *(one.moments(_vectors(1)[0], asked, by_label=True) for one in engines), atol=1e-6
    )
    for bases, expected in zip(*(one.subspaces(asked, 1) for one in engines), strict=True):
      self.assertCountEqual(bases, expected)
      for label, basis in bases.items():
        np.testing.assert_array_equal(basis, expected[label])

  def test_outputs_that_are_not_finite_are_no_results(self, name):
    a, *others = _TASK.clients
    blank = dataclasses.replace(a.test, features=np.zeros_like(a.test.features))
    engine = self._engine(name, dataclasses.replace(_TASK, clients=federated_task.PooledClients.of(
        [dataclasses.replace(a, test=blank), *others]
    )))
    (good,) = _vectors(1)
    # Finite, unlike their sums; of a blank image's, the bias is left.
    vectors = np.stack([good, np.full_like(good, 3e38)])
    members = letters.clusters("abcde", "ab")
    engine.confusions(vectors, members[:1])
    with self.assertRaisesRegex(divergence.TrainingDiverged, "test rows of client 'b'"):
      engine.confusions(vectors, members)
    with self.assertRaisesRegex(divergence.TrainingDiverged, "the global test rows"):
      engine.global_confusions(vectors)
    # Of the last, the squares alone are not finite.
    for vector in (vectors[1], np.full_like(good, np.nan), 1e25 * good):
      with self.assertRaisesRegex(divergence.TrainingDiverged, "training rows of client 'b'"):
        engine.moments(vector, letters.clients("b"), by_label=True)


@parameterized.parameters(*both_engines.ENGINES)
class MomentsTest(_ContractTest):

  def test_equal_numpys(self, name):
    vector = np.random.default_rng(0).normal(size=_TASK.num_parameters).astype(np.float32) / 20
    kernel, bias = vector[:-10].reshape(784, 10).astype(np.float64), vector[-10:]
    engine, clients = self._engine(name), letters.clients("ecabd")
    found = engine.moments(vector, clients, by_label=True)
    self.assertEqual((found.shape, found.dtype), ((5, 11, 2, 10), np.float32))
    for client, of_client in zip(clients, found):
      train = _TASK.clients[client].train
      outputs = _rows(train) @ kernel + bias
      for moments, rows in (
          (of_client[0], outputs),
          *((of_client[1 + k], outputs[train.labels == k]) for k in range(10)),
      ):
        if len(rows):
          np.testing.assert_allclose(moments, [rows.mean(axis=0), rows.std(axis=0)], atol=1e-5)
        else:
          self.assertTrue(np.all(np.isnan(moments)))
    overall = engine.moments(vector, clients, by_label=False)
    self.assertEqual(overall.shape, (5, 1, 2, 10))
    np.testing.assert_allclose(overall, found[:, :1], rtol=1e-6)
    self.assertEqual(engine.moments(vector, _ALL[:0], by_label=True).shape, (0, 11, 2, 10))

  def test_cost_the_model_down_and_the_numbers_up(self, name):
    engine = self._engine(name)
    engine.moments(_vectors(1)[0], letters.clients("be"), by_label=False)
    down = 2 * 4 * _TASK.num_parameters
    self.assertEqual(engine.cost, cost_lib.Cost(0, down, 2 * 2 * 10 * 4))
    engine.moments(_vectors(1)[0], letters.clients("b"), by_label=True)
    # Nothing is sent for a label that the client doesn't have.
    num_labels = len(set(_TASK.clients[1].train.labels))
    up = (1 + num_labels) * 2 * 10 * 4
    self.assertLess(num_labels, 10)
    self.assertEqual(
        engine.cost, cost_lib.Cost(0, down + 4 * _TASK.num_parameters, 2 * 2 * 10 * 4 + up)
    )


def _with_odd_clients(task):
  """Returns the task with a client of dependent images and one of blank paper."""
  images = task.clients[4].train.features[[0, 0, 1, 1, 1]]
  twins = examples_lib.Examples(images, np.array([7, 7, 7, 7, 2], np.uint8))
  blank = examples_lib.Examples(np.zeros_like(images), np.full(5, 3, np.uint8))
  test = task.clients[4].test
  return dataclasses.replace(
      task,
      clients=federated_task.PooledClients.of((
          *task.clients,
          federated_task.ClientData("twins", twins, test),
          federated_task.ClientData("blank", blank, test),
      )),
  )


@parameterized.parameters(("tff",))  # Both engines have the same.
class SubspacesTest(_ContractTest):

  def _assert_spans(self, found, client, num_vectors, rows_of):
    self.assertCountEqual(found, set(client.train.labels.tolist()))
    for label, basis in found.items():
      rows = rows_of(client.train)[client.train.labels == label].astype(np.float64)
      expected = np.linalg.svd(rows.T, full_matrices=False)[0][:, :num_vectors]
      expected *= np.sign(expected[np.abs(expected).argmax(0), range(expected.shape[1])])
      self.assertEqual(basis.dtype, np.float32)
      np.testing.assert_allclose(basis, expected, atol=1e-5)

  def test_equal_numpys_svd_of_the_training_images(self, name):
    engine, clients = self._engine(name), letters.clients("eb")
    for num_vectors in (1, 3, 10**9):
      for client, bases in zip(clients, engine.subspaces(clients, num_vectors), strict=True):
        self._assert_spans(bases, _TASK.clients[client], num_vectors, _rows)
    self.assertEqual(engine.subspaces(_ALL[:0], 2), [])
    with self.assertRaisesRegex(ValueError, "^`num_vectors`"):
      engine.subspaces(_ALL, 0)

  def test_equal_those_of_rows_of_a_table_as_they_are(self, name):
    task = own_tasks.table_task()
    for client, bases in zip(task.clients, self._engine(name, task).subspaces(_ALL, 2)):
      self._assert_spans(bases, client, 2, lambda examples: examples.features)

  def test_dependent_images_have_fewer_vectors_and_blank_ones_none(self, name):
    engine = self._engine(name, _with_odd_clients(_TASK))
    bases, blank = engine.subspaces(np.array([5, 6]), 3)
    self.assertEqual({k: basis.shape for k, basis in bases.items()}, {2: (784, 1), 7: (784, 2)})
    np.testing.assert_allclose(bases[7].T @ bases[7], np.eye(2), atol=1e-6)
    twins = _rows(_TASK.clients[4].train)[:2].T
    np.testing.assert_allclose(bases[7] @ (bases[7].T @ twins), twins, atol=1e-5)
    self.assertEqual({k: basis.shape for k, basis in blank.items()}, {3: (784, 0)})

  def test_cost_the_vectors_up(self, name):
    engine = self._engine(name)
    (bases,) = engine.subspaces(letters.clients("b"), 2)
    num_vectors = sum(basis.shape[1] for basis in bases.values())
    self.assertGreater(num_vectors, len(bases))
    self.assertEqual(engine.cost, cost_lib.Cost(0, 0, num_vectors * 784 * 4))
