from absl.testing import absltest
from absl.testing import parameterized
import numpy as np

from experiments.three_phase import results as results_lib
from fl_clustering import cluster_assignment
from tests.experiments.three_phase import sample_run


class ResultsTest(parameterized.TestCase):

  def _read(self, run=None):
    run = run or sample_run.sample_run()
    return sample_run.results(run, self.create_tempdir().full_path)

  def test_unknown_method_stands_among_the_groupings_and_is_named_in_words(self):
    summary = {"methods": {"kmeans": {}, "fedavg": {}, "local": {}, "my_grouping": {}}}

    self.assertEqual(
        results_lib.ordered_methods(summary), ["kmeans", "my_grouping", "local", "fedavg"]
    )
    self.assertEqual(results_lib.method_label("my_grouping"), "my grouping")

  def test_main_cluster_is_the_largest_then_the_first(self):
    clusters = (("a", "b"), ("b", "c", "d"), ("d", "e", "f"))

    self.assertEqual(
        results_lib.main_clusters(cluster_assignment.ClusterAssignment(clusters)),
        {"a": 0, "b": 1, "c": 1, "d": 1, "e": 2, "f": 2},
    )

  def test_groupings_are_those_of_the_run(self):
    groupings = self._read().groupings

    self.assertEqual(list(groupings), ["kmeans", "dynamic_distance"])
    self.assertFalse(groupings["kmeans"].overlapping)
    self.assertTrue(groupings["dynamic_distance"].overlapping)
    self.assertEqual(groupings["dynamic_distance"].warning, "too many cliques")

  def test_memberships_count_a_client_once_per_cluster(self):
    results = self._read()

    self.assertEqual(results.num_memberships("kmeans"), 6)
    self.assertEqual(results.num_memberships("dynamic_distance"), 7)
    self.assertEqual(results.num_memberships("fedavg"), 6)
    self.assertIsNone(results.num_memberships("absent"))

  def test_curve_has_ascending_rounds_of_all_clusters_together(self):
    folder = sample_run.write(sample_run.sample_run(), self.create_tempdir().full_path)
    with open(f"{folder}/metrics.csv", "w", encoding="utf-8") as file:
      file.write("phase,method,cluster,round,metric,value\n")
      for cluster, round_num, value in (("", 10, 0.9), ("", 2, 0.5), ("", 0, 0.1), (0, 1, 0.7)):
        file.write(f"cluster,kmeans,{cluster},{round_num},accuracy,{value}\n")
    results = sample_run.read(folder)

    curve = results.curve("cluster", "kmeans", "accuracy")

    self.assertEqual(curve, ([0, 2, 10], [0.1, 0.5, 0.9]))
    self.assertEqual(results.curve("cluster", "absent", "accuracy"), ([], []))

  def test_evaluation_of_a_model_per_cluster_is_their_mean(self):
    results = self._read()

    # Cluster 0 has 0.2 and the only other 0.4, see sample_run.py.
    self.assertAlmostEqual(results.evaluation("kmeans", "global_blended_recall_class_0"), 0.3)
    self.assertEqual(results.evaluation("kmeans", "global_mean_recall_class_0"), 0.4)
    self.assertIsNone(results.evaluation("kmeans", "global_mean_recall_class_99"))

  def test_best_accuracy_of_a_cluster(self):
    results = self._read()

    self.assertEqual(results.best_accuracy("kmeans", 1), 0.91)
    self.assertIsNone(results.best_accuracy("kmeans", 2))

  def test_true_groups_or_none(self):
    groups = self._read().true_groups
    self.assertEqual(
        groups.clusters,
        (("client_0000", "client_0002", "client_0004"),
         ("client_0001", "client_0003", "client_0005")),
    )
    self.assertIsNone(self._read(sample_run.sample_run(true_groups=False)).true_groups)

  def test_client_ids_that_read_as_numbers_stay_text(self):
    ids = ("01", "2", "1e3")
    results = self._read(sample_run.sample_run(3, (), client_ids=ids))

    self.assertEqual([client["client_id"] for client in results.clients], list(ids))
    self.assertEqual(tuple(results.client_accuracy["cluster", "fedavg"]), ids)
    self.assertEqual(results.true_groups.clusters, (("01", "1e3"), ("2",)))

  def test_partition_in_words(self):
    groups, no_groups = self._read(), self._read(sample_run.sample_run(true_groups=False))
    self.assertEqual(groups.partition, "rotated (2 groups, alpha 0.5)")
    self.assertEqual(no_groups.partition, "dirichlet (alpha 0.5)")
    no_groups.dataset["dirichlet_alpha"] = None
    self.assertEqual(no_groups.partition, "dirichlet")

  @parameterized.named_parameters(
      ("weights", "weights", [[3, 4], [0, 0], [1, 0]]),
      ("update", "update", [[3, 4], [0, 0], [1, 0]]),
      ("normalized_update", "normalized_update", [[0.6, 0.8], [0, 0], [1, 0]]),
  )
  def test_vectors_are_the_representation_that_was_grouped(self, representation, expected):
    folder = sample_run.write(sample_run.sample_run(3), self.create_tempdir().full_path)
    update = np.array([[3, 4], [0, 0], [1, 0]], np.float32)
    global_vector = np.array([10, 20], np.float32)
    np.savez(f"{folder}/client_weights.npz",
             client_ids=np.array(["client_0002", "client_0000", "client_0001"]),
             vectors=(global_vector + update)[[2, 0, 1]], global_vector=global_vector)
    results = sample_run.read(folder)
    results.settings["representation"] = representation

    vectors = results.vectors(["client_0000", "client_0001", "client_0002"])

    if representation == "weights":
      expected = np.array(expected) + global_vector
    np.testing.assert_allclose(vectors, expected, rtol=1e-6)

  def test_vectors_follow_the_ids_asked_for(self):
    results = self._read()

    one, two = results.vectors(["client_0004"]), results.vectors(["client_0001", "client_0004"])

    np.testing.assert_array_equal(one[0], two[1])

  def test_no_vectors_without_weights(self):
    results = self._read(sample_run.sample_run(keeps_weights=False))

    self.assertIsNone(results.vectors(["client_0000"]))

  def test_unknown_representation_is_refused(self):
    results = self._read()
    results.settings["representation"] = "signs"

    with self.assertRaisesRegex(ValueError, "`representation` must be"):
      results.vectors(["client_0000"])


if __name__ == "__main__":
  absltest.main()
