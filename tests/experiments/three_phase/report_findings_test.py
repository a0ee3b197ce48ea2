from unittest import mock

from absl.testing import absltest
from absl.testing import parameterized

from experiment_shell import finished_run
from experiments.three_phase import report
from tests.experiments.three_phase import sample_run


def _accuracy(**mean_accuracy):
  return {"pretrain": 0.6, **mean_accuracy}


class FindingsTest(parameterized.TestCase):

  def _run(self, **changes):
    run = sample_run.sample_run(**changes)
    return sample_run.results(run, self.create_tempdir().full_path)

  @parameterized.named_parameters(
      ("grouping_wins", 0.8, 0.7, "Grouping the clients beats"),
      ("control_wins", 0.7, 0.8, "No grouping beats"),
      ("level", 0.7, 0.7004, "The best grouping is level with"),
  )
  def test_verdict_follows_the_numbers(self, kmeans, fedavg, verdict):
    run = self._run(
        groupings=("kmeans",),
        mean_accuracy=_accuracy(kmeans=kmeans, fedavg=fedavg, local=0.5),
    )

    self.assertStartsWith(report.verdict(run), verdict)
    self.assertEndsWith(report.verdict(run), "for as many rounds in this run.")

  def test_the_best_grouping_is_judged(self):
    run = self._run(mean_accuracy=_accuracy(
        kmeans=0.6, dynamic_distance=0.8, fedavg=0.7, local=0.5
    ))

    self.assertStartsWith(report.verdict(run), "Grouping the clients beats")
    self.assertIn("with the control, dynamic distance is more accurate", report.notes(run)[0])

  @parameterized.named_parameters(
      ("best_of_all", 0.9, True), ("not_best", 0.65, False), ("as_good_as_the_best", 0.8, False)
  )
  def test_says_when_local_training_is_best(self, local, expected):
    run = self._run(mean_accuracy=_accuracy(
        kmeans=0.8, dynamic_distance=0.75, fedavg=0.7, local=local
    ))

    self.assertEqual("Local training" in report.notes(run)[0], expected)

  def test_counts_clients_against_the_control(self):
    # In the sample every client is better with K-means by the same amount.
    self.assertIn(
        "more accurate for 6 clients, less for 0 and equal for 0", report.notes(self._run())[0]
    )

  def test_what_training_longer_brings_is_not_credited_to_grouping(self):
    self.assertStartsWith(
        report.notes(self._run())[0],
        "Only the difference from the FedAvg control can be credited to grouping",
    )

  def test_overlapping_clusters_are_said_to_train_more(self):
    run = self._run(mean_accuracy=_accuracy(
        kmeans=0.75, dynamic_distance=0.8, fedavg=0.7, local=0.5
    ))

    # Seven memberships of six clients.
    self.assertEndsWith(
        report.verdict(run), "for as many rounds in this run, with 1.2 times the local training."
    )
    self.assertIn("With overlapping clusters", report.notes(run)[0])

  def test_without_overlap_rounds_are_work(self):
    run = self._run(groupings=("kmeans",), clients_per_round=4)

    self.assertEndsWith(report.verdict(run), "for as many rounds in this run.")
    self.assertNotIn("verlapping", " ".join(report.notes(run)))

  def test_says_how_many_clients_take_part_in_a_round(self):
    sampled = " ".join(report.notes(self._run(clients_per_round=4)))

    self.assertIn("In each round 4 of the 6 clients take part, the same ones", sampled)
    self.assertIn("counted as if all did", sampled)
    self.assertNotIn("take part", " ".join(report.notes(self._run())))

  def test_a_grouping_without_assignments_is_judged_without_its_overlap(self):
    run = self._run()
    path = run.finished.join("assignments.json")
    with open(path, "w", encoding="utf-8") as file:
      file.write("{}")

    self.assertEndsWith(report.verdict(run), "for as many rounds in this run.")

  def test_one_seed_is_said_to_be_one_seed(self):
    self.assertIn("single seed (7)", report.notes(self._run())[-1])

  def test_without_groupings_there_is_no_claim_about_any(self):
    run = self._run(groupings=())

    self.assertEqual(report.verdict(run), "This run has no grouping, only controls.")
    self.assertNotIn("grouping", " ".join(report.notes(run)))

  def test_without_the_control_nothing_is_credited_to_grouping(self):
    run = self._run(
        groupings=("kmeans",), mean_accuracy=_accuracy(kmeans=0.8, local=0.5)
    )

    self.assertIn("can't say", report.verdict(run))
    self.assertNotIn("FedAvg", " ".join(report.notes(run)))

  def test_warnings(self):
    run = self._run(fallback_reason="no network", aggregator="clipped")

    text = [": ".join(warning) for warning in report.warnings(run)]

    self.assertLen(text, 3)
    self.assertIn("no network", text[0])
    self.assertIn("dynamic distance: too many cliques", text[1])
    self.assertIn("--aggregator=clipped", text[2])

  def test_warnings_of_the_data_are_shown_once(self):
    run = self._run(
        groupings=("kmeans",),
        fallback_reason="no network",
        data_warnings=("Not EMNIST: no network.", "There are 30 writers."),
    )

    text = [": ".join(warning) for warning in report.warnings(run)]

    self.assertLen(text, 2)
    self.assertIn("no network", text[0])
    self.assertIn("30 writers", text[1])

  def test_warnings_of_the_run_are_shown(self):
    self.enter_context(mock.patch.object(
        finished_run.FinishedRun, "warnings", (("Other versions", "of numpy"),)
    ))

    warnings = report.warnings(self._run(groupings=("kmeans",)))

    self.assertEqual(warnings, [("Other versions", "of numpy")])

  def test_no_warning_without_a_reason(self):
    self.assertEmpty(report.warnings(self._run(groupings=("kmeans",))))

  def test_privacy_notes_say_what_is_seen_and_what_is_covered(self):
    private = {
        "epsilon": 1.5, "delta": 1e-5, "neighboring_relation": "add_or_remove_one",
        "covers": "phase 1 only",
    }

    plain = " ".join(report.privacy_notes(self._run()))
    dp = " ".join(report.privacy_notes(self._run(privacy=private)))

    self.assertIn("every client's own model weights", plain)
    self.assertIn("Nothing in this run is differentially private", plain)
    self.assertIn("every client's own model weights", dp)
    self.assertIn("epsilon 1.5 at delta 1e-05", dp)
    self.assertIn("add or remove one", dp)
    self.assertIn("phase 1 only", dp)


if __name__ == "__main__":
  absltest.main()
