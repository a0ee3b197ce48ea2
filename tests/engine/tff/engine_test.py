import dataclasses
from unittest import mock

from absl.testing import absltest
import numpy as np

from fl_clustering.engine import cost as cost_lib
from fl_clustering.engine import divergence
from fl_clustering.engine import participation
from fl_clustering.engine.tff import heads
from fl_clustering.tasks import federated_task
from tests import letters
from tests import local_runtime
from tests import small_task
from tests.engine.tff import small_engine

# All clients.
_ALL = np.arange(5)
_TASK = small_task.small_task()

setUpModule = local_runtime.use


def _engine(task=None):
  return small_engine.engine(task)


def _vectors(num_models):
  return small_engine.vectors(_TASK, num_models)


class EngineTest(absltest.TestCase):

  def test_clients_that_do_not_take_part_are_trained_alone_too(self):
    vectors = _vectors(2)
    everyone = participation.Round(2, _ALL, 1)
    expected, expected_losses = _engine().train_each(vectors, letters.clients("bd"), everyone)
    trained, losses = _engine().train_each(
        vectors, letters.clients("bd"), participation.Round(2, letters.clients("ad"), 1)
    )
    np.testing.assert_array_equal(trained, expected)
    self.assertEqual(letters.losses([losses]), letters.losses([expected_losses]))

  def test_one_model_for_all_is_sent_once(self):
    vectors = _vectors(1)
    view = np.broadcast_to(vectors[0], (3, len(vectors[0])))
    round_ = participation.Round(2, letters.clients("abd"), 1)
    expected, _ = _engine().train_each(np.array(view), letters.clients("dab"), round_)
    do_all = heads.build_own_models(_TASK.model, small_engine.OPTIONS)
    sent = []

    def train(models, jobs):
      sent.append(models)
      return do_all(models, jobs)

    with mock.patch.object(heads, "build_own_models", return_value=train):
      trained, _ = _engine().train_each(view, letters.clients("dab"), round_)
    np.testing.assert_array_equal(trained, expected)
    self.assertEqual([models.shape for models in sent], [vectors.shape])

  def test_models_are_drawn_anew(self):
    found = _engine().initial_vectors(3, np.random.default_rng(0))
    self.assertEqual((found.shape, found.dtype), ((3, _TASK.num_parameters), np.float32))
    self.assertLen(np.unique(found, axis=0), 3)

  def test_training_lowers_the_members_losses(self):
    engine_ = _engine()
    vectors = _vectors(1)
    before = engine_.losses(vectors, letters.clients("ed"))
    for number in range(1, 4):
      vectors, _ = engine_.train(
          vectors, letters.clusters("de"), participation.Round(number, _ALL, 2)
      )
    after = engine_.losses(vectors, letters.clients("ed"))
    self.assertEqual(after.shape, (1, 2))
    np.testing.assert_array_less(after, before - 0.1)

  def test_outputs_that_are_not_finite_are_no_results(self):
    a, *others = _TASK.clients
    blank = dataclasses.replace(a.test, features=np.zeros_like(a.test.features))
    engine_ = _engine(dataclasses.replace(_TASK, clients=federated_task.PooledClients.of(
        [dataclasses.replace(a, test=blank), *others]
    )))
    (good,) = _vectors(1)
    # Finite, unlike their sums; of a blank image's, the bias is left.
    vectors = np.stack([good, np.full_like(good, 3e38)])
    members = letters.clusters("abcde", "ab")
    of_test = "test rows of client 'b'"
    engine_.confusions(vectors, members[:1])
    with self.assertRaisesRegex(divergence.TrainingDiverged, of_test):
      engine_.confusions(vectors, members)
    with self.assertRaisesRegex(divergence.TrainingDiverged, "the global test rows"):
      engine_.global_confusions(vectors)
    alone = vectors[[0, 1, 0, 0, 0]]
    nobody = participation.Round(4, _ALL[:0], 1)
    with self.assertRaisesRegex(divergence.TrainingDiverged, f"{of_test} after round 4"):
      engine_.train_alone(alone, [nobody])
    for vector in (vectors[1], np.full_like(good, np.nan)):
      with self.assertRaisesRegex(divergence.TrainingDiverged, "training rows of client 'b'"):
        engine_.moments(vector, letters.clients("b"), by_label=True)

  def test_new_clients_have_losses_and_subspaces(self):
    clients = _TASK.clients
    task = dataclasses.replace(_TASK, clients=clients[:-1], new_clients=clients[-1:])
    old, new = _engine(), _engine(task)
    np.testing.assert_array_equal(
        *(one.losses(_vectors(2), letters.clients("ea")) for one in (new, old))
    )
    ((bases,), (expected,)) = (engine_.subspaces(letters.clients("e"), 1) for engine_ in (new, old))
    self.assertCountEqual(bases, expected)

  def test_losses_cost_the_models_down_and_a_number_each_up(self):
    engine_ = _engine()
    engine_.losses(_vectors(3), letters.clients("ae"))
    self.assertEqual(engine_.cost, cost_lib.Cost(0, 2 * 3 * 4 * _TASK.num_parameters, 2 * 3 * 4))

  def test_models_that_clients_have_are_not_sent_again(self):
    engine_, round_ = _engine(), participation.Round(1, letters.clients("ae"), 1)
    engine_.train(_vectors(1), letters.clusters("abe"), round_, already_sent=True)
    expected = engine_.training_cost(letters.clients("ae"), 1)
    self.assertEqual(engine_.cost, dataclasses.replace(expected, bytes_down=0))

  def test_moments_cost_the_model_down_and_the_numbers_up(self):
    engine_ = _engine()
    engine_.moments(_vectors(1)[0], letters.clients("be"), by_label=False)
    down = 2 * 4 * _TASK.num_parameters
    self.assertEqual(engine_.cost, cost_lib.Cost(0, down, 2 * 2 * 10 * 4))
    engine_.moments(_vectors(1)[0], letters.clients("b"), by_label=True)
    # Nothing is sent for a label that the client doesn't have.
    num_labels = len(set(_TASK.clients[1].train.labels))
    up = (1 + num_labels) * 2 * 10 * 4
    self.assertLess(num_labels, 10)
    self.assertEqual(
        engine_.cost, cost_lib.Cost(0, down + 4 * _TASK.num_parameters, 2 * 2 * 10 * 4 + up)
    )

  def test_subspaces_cost_the_vectors_up(self):
    engine_ = _engine()
    (bases,) = engine_.subspaces(letters.clients("b"), 2)
    num_vectors = sum(basis.shape[1] for basis in bases.values())
    self.assertGreater(num_vectors, len(bases))
    self.assertEqual(engine_.cost, cost_lib.Cost(0, 0, num_vectors * 784 * 4))


if __name__ == "__main__":
  absltest.main()
