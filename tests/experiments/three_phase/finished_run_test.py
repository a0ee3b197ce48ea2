import dataclasses

from absl.testing import absltest
from absl.testing import parameterized
import numpy as np

from experiments.three_phase import finished_run
from tests.experiments.three_phase import sample_run


class FinishedRunTest(parameterized.TestCase):

  def _read(self, run=None):
    run = run or sample_run.sample_run()
    return finished_run.read_run(sample_run.write(run, self.create_tempdir().full_path))

  def test_main_cluster_is_the_largest_then_the_first(self):
    clusters = (("a", "b"), ("b", "c", "d"), ("d", "e", "f"))
    grouping = finished_run.Grouping("g", clusters, overlapping=True, warning=None)

    self.assertEqual(
        grouping.main_clusters(), {"a": 0, "b": 1, "c": 1, "d": 1, "e": 2, "f": 2}
    )
    self.assertEqual(
        grouping.num_memberships(), {"a": 1, "b": 2, "c": 1, "d": 2, "e": 1, "f": 1}
    )

  def test_curve_has_ascending_rounds_of_all_clusters_together(self):
    run = dataclasses.replace(self._read(), metrics={
        ("cluster", "kmeans", "accuracy"): {
            (None, 10): 0.9, (None, 2): 0.5, (None, 0): 0.1, (0, 1): 0.7,
        },
    })

    self.assertEqual(run.curve("cluster", "kmeans", "accuracy"), ([0, 2, 10], [0.1, 0.5, 0.9]))
    self.assertEqual(run.curve("cluster", "absent", "accuracy"), ([], []))

  def test_evaluation_of_a_model_per_cluster_is_their_mean(self):
    run = self._read()

    # Cluster 0 has 0.2 and the only other 0.4, see sample_run.py.
    self.assertAlmostEqual(run.evaluation("kmeans", "global_blended_recall_class_0"), 0.3)
    self.assertEqual(run.evaluation("kmeans", "global_mean_recall_class_0"), 0.4)
    self.assertIsNone(run.evaluation("kmeans", "global_mean_recall_class_99"))

  def test_best_accuracy_of_a_cluster(self):
    run = self._read()

    self.assertEqual(run.best_accuracy("kmeans", 1), 0.91)
    self.assertIsNone(run.best_accuracy("kmeans", 2))

  def test_true_groups_or_none(self):
    groups = self._read().true_groups
    self.assertEqual(
        groups.clusters,
        (("client_0000", "client_0002", "client_0004"),
         ("client_0001", "client_0003", "client_0005")),
    )
    self.assertIsNone(self._read(sample_run.sample_run(true_groups=False)).true_groups)

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
  def test_representation(self, representation, expected):
    folder = sample_run.write(sample_run.sample_run(3), self.create_tempdir().full_path)
    update = np.array([[3, 4], [0, 0], [1, 0]], np.float32)
    global_vector = np.array([10, 20], np.float32)
    np.savez(f"{folder}/client_weights.npz",
             client_ids=np.array(["client_0002", "client_0000", "client_0001"]),
             vectors=(global_vector + update)[[2, 0, 1]], global_vector=global_vector)
    run = finished_run.read_run(folder)
    run.settings["representation"] = representation

    vectors = run.load_representation(["client_0000", "client_0001", "client_0002"])

    if representation == "weights":
      expected = np.array(expected) + global_vector
    np.testing.assert_allclose(vectors, expected, rtol=1e-6)

  def test_rows_of_the_representation_follow_the_ids_asked_for(self):
    run = self._read()

    one, two = run.load_representation(["client_0004"]), run.load_representation(
        ["client_0001", "client_0004"]
    )

    np.testing.assert_array_equal(one[0], two[1])

  def test_no_representation_without_weights(self):
    run = self._read(sample_run.sample_run(keeps_weights=False))

    self.assertIsNone(run.load_representation(["client_0000"]))

  def test_unknown_representation_is_refused(self):
    run = self._read()
    run.settings["representation"] = "signs"

    with self.assertRaisesRegex(ValueError, "`representation` must be"):
      run.load_representation(["client_0000"])


if __name__ == "__main__":
  absltest.main()
