from absl.testing import absltest
from absl.testing import parameterized
import numpy as np

from experiments.three_phase import method_names
from experiments.three_phase import results as results_lib
from fl_clustering.methods import cluster_assignment
from fl_clustering.methods import registry as method_registry
from tests.experiments.three_phase import sample_run


class ResultsTest(parameterized.TestCase):

  def _read(self, run=None):
    run = run or sample_run.sample_run()
    return sample_run.results(run, self.create_tempdir().full_path)

  def test_personal_models_are_controls_with_names_of_their_own(self):
    methods = dict.fromkeys(("kmeans", "fedavg", "finetuned", *method_registry.PERSONAL), {})

    self.assertEqual(
        results_lib.ordered_methods({"methods": methods}),
        ["kmeans", "finetuned", *method_registry.PERSONAL, "fedavg"],
    )
    for name in method_registry.PERSONAL:
      self.assertEndsWith(method_names.method_label(name), " (control)")

  def test_controls_come_last_and_unknown_methods_are_named_in_words(self):
    methods = dict.fromkeys(
        ("fedavg_matched", "kmeans", "fedavg", "finetuned", "local", "my_method"), {}
    )

    self.assertEqual(
        results_lib.ordered_methods({"methods": methods}),
        ["kmeans", "my_method", "local", "finetuned", "fedavg", "fedavg_matched"],
    )
    self.assertEqual(
        results_lib.chosen_methods({"methods": methods}), ["kmeans", "my_method"]
    )
    self.assertEqual(method_names.method_label("my_method"), "my method")
    self.assertEqual(method_names.method_label("fedavg"), "FedAvg (control)")
    self.assertEqual(method_names.method_name("fedavg"), "FedAvg")

  @parameterized.parameters((1, "1 client"), (2, "2 clients"), (3383, "3,383 clients"))
  def test_a_number_of_clients_in_words(self, num_clients, expected):
    self.assertEqual(results_lib.clients_text(num_clients), expected)

  @parameterized.named_parameters(
      ("phase_1", "pretrain", 4, 0),
      ("builds_on_phase_1", "kmeans", 3, 4),
      ("in_place_of_phase_1", "local", 7, 0),
      ("goes_on_after_fedavg", "fedavg_matched", 2, 7),
      ("goes_on_for_as_many_rounds_as_both_phases", "fedavg_matched", 7, 7),
  )
  def test_rounds_before_a_method(self, method, num_rounds, expected):
    self.assertEqual(results_lib.rounds_before(method, num_rounds, 4, 3), expected)

  def test_main_cluster_is_the_largest_then_the_first(self):
    clusters = (("a", "b"), ("b", "c", "d"), ("d", "e", "f"))

    self.assertEqual(
        results_lib.main_clusters(cluster_assignment.ClusterAssignment(clusters)),
        {"a": 0, "b": 1, "c": 1, "d": 1, "e": 2, "f": 2},
    )

  def test_assignments_are_those_of_the_run(self):
    assignments = self._read().assignments

    self.assertEqual(list(assignments), ["kmeans", "dynamic_distance"])
    self.assertFalse(assignments["kmeans"].overlapping)
    self.assertTrue(assignments["dynamic_distance"].overlapping)
    self.assertEqual(assignments["dynamic_distance"].warning, "too many cliques")

  def test_cost_is_added_up_from_the_first_round_of_all(self):
    accuracy = dict.fromkeys(("pretrain", "kmeans", "fedavg", "local", "fedavg_matched"), 0.7)
    results = self._read(sample_run.sample_run(
        mean_accuracy=accuracy, groupings=("kmeans",), work={"kmeans": 2}
    ))

    # A round has ten steps of six clients; phase 1 one round more than it tells.
    curves = dict(iter(results.curves.groupby("method")))
    self.assertEqual({method: list(curves[method]["steps"]) for method in accuracy}, {
        "pretrain": [60, 120],
        "kmeans": [180, 300, 420],
        "fedavg": [180, 240, 300],
        "local": [0, 60, 120, 180, 240],
        "fedavg_matched": [300, 360, 420],
    })
    self.assertEqual(list(curves["fedavg"]["bytes"]), [54_000, 72_000, 90_000])

  def test_new_clients_are_apart_from_those_that_train(self):
    results = self._read(sample_run.sample_run(new_client_ids=("late", "later")))

    self.assertEqual([client["client_id"] for client in results.new_clients], ["late", "later"])
    self.assertEqual(results.num_clients, 6)
    self.assertLen(results.clients, 6)
    self.assertNotIn("late", sum(results.true_groups.clusters, ()))
    self.assertLen(results.client_accuracy("kmeans"), 6)
    self.assertEqual(results.new_client("kmeans", "later"), ("0 1", 0.76))
    clusters, accuracy = results.new_client("pretrain", "late")
    self.assertEqual(clusters, "")
    self.assertAlmostEqual(accuracy, 0.55)
    self.assertIn("6 clients", results.data_line)

  def test_curves_have_ascending_rounds_of_all_clusters_together(self):
    folder = sample_run.write(sample_run.sample_run(), self.create_tempdir().full_path)
    with open(f"{folder}/metrics.csv", "w", encoding="utf-8") as file:
      file.write("phase,method,cluster,round,metric,value\n")
      for cluster, round_num, value in (("", 10, 0.9), ("", 2, 0.5), ("", 0, 0.1), (0, 1, 0.7)):
        file.write(f"cluster,kmeans,{cluster},{round_num},accuracy,{value}\n")
        for cost in sample_run.COSTS:
          file.write(f"cluster,kmeans,,{round_num},{cost},0\n")

    curves = sample_run.read(folder).curves.dropna()

    # They come after the two rounds of phase 1.
    self.assertEqual(list(curves["round"]), [2, 4, 12])
    self.assertEqual(list(curves["accuracy"]), [0.1, 0.5, 0.9])
    self.assertEqual(set(curves["method"]), {"kmeans"})

  def test_evaluation_of_a_model_per_cluster_is_their_mean(self):
    results = self._read()

    # Cluster 0 has 0.2 and the only other 0.4, see sample_run.py.
    self.assertAlmostEqual(results.evaluation("kmeans", "global_blended_recall_class_0"), 0.3)
    self.assertEqual(results.evaluation("kmeans", "global_mean_recall_class_0"), 0.4)
    self.assertIsNone(results.evaluation("kmeans", "global_mean_recall_class_99"))

  def test_best_accuracy_of_a_cluster(self):
    results = self._read()

    self.assertEqual(results.best_of_cluster("kmeans", 1), 0.91)
    self.assertIsNone(results.best_of_cluster("kmeans", 2))

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
    self.assertEqual(tuple(results.client_accuracy("fedavg")), ids)
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
