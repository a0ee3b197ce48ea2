import tracemalloc

from absl.testing import absltest
from absl.testing import parameterized
import numpy as np

from fl_clustering.engine import cost
from fl_clustering.methods import method
from fl_clustering.three_phase import result as result_lib
from fl_clustering.three_phase import scoring
from tests import letters

_VECTORS = np.array([[1, 10, 0], [2, 30, 0], [6, 20, 3]], np.float32)


class MixTest(absltest.TestCase):

  def test_three_clusters(self):
    vectors, accuracy = _VECTORS.copy(), np.array([0.9, 0.5, 0.1])
    mixed = scoring.mix(vectors, accuracy)
    np.testing.assert_array_equal(vectors, _VECTORS)
    np.testing.assert_array_equal(accuracy, [0.9, 0.5, 0.1])
    np.testing.assert_allclose(mixed.mean, [3, 20, 1])
    # (9 * 1 + 5 * 2 + 1 * 6) / 15, (90 + 150 + 20) / 15, 3 / 15.
    np.testing.assert_allclose(mixed.weighted, [25 / 15, 260 / 15, 0.2], rtol=1e-6)
    np.testing.assert_allclose(mixed.blended, [[2, 15, 0.5], [2.5, 25, 0.5], [4.5, 20, 2]])

  def test_a_cluster_of_no_accuracy_counts_in_the_mean_alone(self):
    mixed = scoring.mix(_VECTORS, np.array([0.5, 0.5, 0.0]))
    np.testing.assert_allclose(mixed.mean, [3, 20, 1])
    np.testing.assert_allclose(mixed.weighted, [1.5, 20, 0])
    # If none has an accuracy, all count alike; without examples one weighs as the others.
    mixed = scoring.mix(_VECTORS, np.zeros(3))
    np.testing.assert_array_equal(mixed.weighted, mixed.mean)
    mixed = scoring.mix(_VECTORS, np.array([0.5, np.nan, 0.1]))
    np.testing.assert_allclose(mixed.weighted[0], (0.5 + 2 * 0.3 + 6 * 0.1) / 0.9, rtol=1e-6)

  def test_one_cluster_is_its_own_mixture(self):
    mixed = scoring.mix(_VECTORS[1:2], np.array([0.3]))
    for vector in (mixed.mean, mixed.weighted, mixed.blended[0]):
      np.testing.assert_array_equal(vector, _VECTORS[1])
      self.assertEqual(vector.dtype, np.float32)

  def test_large_weights_keep_their_small_differences(self):
    vectors = np.array([[2**24], [2**24 + 2], [2**24 + 4]], np.float32)
    mixed = scoring.mix(vectors, np.ones(3))
    self.assertEqual(mixed.mean[0], 2**24 + 2)
    self.assertEqual(mixed.weighted[0], 2**24 + 2)


class BlendedOnGlobalTestTest(absltest.TestCase):

  def test_are_a_hundred_at_most(self):
    self.assertEqual(scoring.blended_on_global_test(1), [0])
    self.assertEqual(scoring.blended_on_global_test(100), list(range(100)))
    tested = scoring.blended_on_global_test(3383)
    self.assertLen(set(tested), 100)
    self.assertEqual(tested, sorted(tested))
    self.assertEqual((tested[0], tested[-1]), (0, 3382))


class _Engine:
  """A model has as many right answers of ten as its number says."""

  def __init__(self, clusters):
    self.clients = np.unique(np.concatenate(clusters))
    self.new_clients = self.validated = self.clients[:0]
    self.rights = {}

  def confusions(self, vectors, members, part="test"):
    return [
        np.array([
            [[r, 10 - r], [0, 0]]
            for client in clients
            for r in [self.rights[client] if part == "validation" else vectors[k][0]]
        ]).reshape(-1, 2, 2)
        for k, clients in enumerate(members)
    ]

  def global_confusions(self, vectors):
    return np.array([[[r, 10 - r], [0, 0]] for r in vectors[:, 0]])


class EvaluateTest(parameterized.TestCase):

  def test_validation_is_of_those_that_are_evaluated(self):
    members = letters.clusters("abc")
    state = method.ClusterState(np.array([[2]], np.float32), members)
    outcome = result_lib.Outcome(state, np.array([0.3]), cost.Cost())
    engine = _Engine(members)
    engine.validated, engine.rights = letters.clients("bc"), {1: 7, 2: 9}
    result = scoring.evaluate(engine, outcome, None, letters.clients("ab"))
    np.testing.assert_array_equal(result.validation, [[[7, 3], [0, 0]]])

  def test_a_cluster_within_another_counts_for_its_clients_alone(self):
    members = letters.clusters("ab", "b", "")
    state = method.ClusterState(np.array([[2], [6], [9]], np.float32), members)
    outcome = result_lib.Outcome(state, np.array([0.3, 0.5, 0.0]), cost.Cost())
    engine = _Engine(members)
    result = scoring.evaluate(engine, outcome, None, engine.clients)
    self.assertEqual(letters.names(result.assignment.clusters), ("ab",))
    self.assertEqual(result.global_mean[0, 0], 2)
    self.assertEqual(result.clients_blended[:, 0, 0].tolist(), [2, 2])
    # As after the last round: "b" has the mean of both models.
    self.assertEqual(result.clients[:, 0, 0].tolist(), [2, 4])

  @parameterized.parameters((False, (2 * 4 + 6 * 1) / 5), (True, (2 * 1 + 6 * 3) / 4))
  def test_validation_examples_decide_what_clusters_weigh(self, article_weights, expected):
    members = letters.clusters("", "ab", "c")  # The first cluster is left out.
    engine = _Engine(members)
    engine.validated, engine.rights = letters.clients("bc"), {1: 4, 2: 1}
    state = method.ClusterState(np.array([[9], [2], [6]], np.float32), members)
    outcome = result_lib.Outcome(state, np.array([0.0, 0.1, 0.3]), cost.Cost())
    result = scoring.evaluate(
        engine, outcome, None, engine.clients, article_weights=article_weights
    )
    np.testing.assert_allclose(result.validation_accuracy, [0.4, 0.1])
    self.assertLen(result.validation, 2)
    self.assertAlmostEqual(result.global_weighted[0, 0], expected, places=5)

  def test_of_many_clusters_few_are_tested_globally(self):
    vectors = np.arange(300, dtype=np.float32)[:, None]
    members = np.arange(300)[:, None]
    outcome = result_lib.Outcome(method.ClusterState(vectors, members), np.ones(300), cost.Cost())
    engine = _Engine(members)
    result = scoring.evaluate(engine, outcome, None, engine.clients)
    mean = 149.5
    tested = scoring.blended_on_global_test(300)
    np.testing.assert_allclose(
        result.global_blended[:, 0, 0], [(k + mean) / 2 for k in tested], rtol=1e-6
    )
    np.testing.assert_allclose(
        result.clients_blended[:, 0, 0], (np.arange(300) + mean) / 2, rtol=1e-6
    )

  def test_many_models_are_not_copied(self):
    vectors = np.ones((1000, 2000), np.float32)
    members = np.arange(1000)[:, None]
    outcome = result_lib.Outcome(method.ClusterState(vectors, members), np.ones(1000), cost.Cost())
    engine = _Engine(members)
    tracemalloc.start()
    scoring.evaluate(engine, outcome, None, engine.clients)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    # The global test set takes copies of a tenth.
    self.assertLess(peak, vectors.nbytes / 2)
