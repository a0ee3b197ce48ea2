import pathlib
import re
from unittest import mock

from absl.testing import absltest
from absl.testing import parameterized
import numpy as np

from experiment_shell import finished_run
from experiments.three_phase import findings
from tests.experiments.three_phase import sample_run


_PRIVACY = {
    "epsilon": 1.5, "delta": 1e-5, "neighboring_relation": "add_or_remove_one",
    "covers": "phase 1 only",
}


def _accuracy(**mean_accuracy):
  return {"pretrain": 0.6, **mean_accuracy}


class FindingsTest(parameterized.TestCase):

  def _run(self, **changes):
    run = sample_run.sample_run(**changes)
    return sample_run.results(run, self.create_tempdir().full_path)

  def _notes(self, **changes):
    return " ".join(findings.notes(self._run(**changes)))

  @parameterized.named_parameters(
      ("better", 0.8, "^K-means is more accurate than training everyone together for as many "
       r"rounds \(FedAvg\)\.$"),
      ("worse", 0.6, "^K-means is less accurate than training everyone together for as many "
       r"rounds \(FedAvg\)\.$"),
      # A lead of two points within an interval of three.
      ("unclear", 0.72, "^This run can't tell whether K-means is more or less accurate than "
       r"training everyone together for as many rounds \(FedAvg\)\.$"),
  )
  def test_verdict_follows_from_the_interval(self, kmeans, expected):
    run = self._run(
        groupings=("kmeans",), mean_accuracy=_accuracy(kmeans=kmeans, fedavg=0.7, local=0.5)
    )

    self.assertRegex(findings.verdict(run), expected)

  def test_tables_tell_what_the_most_frequent_class_alone_gives(self):
    run = self._run(label_column="num")
    counts = np.array([run.label_counts(client) for client in run.clients])
    share = (counts.max(axis=1) / counts.sum(axis=1)).mean()

    self.assertIn(
        f"A client's most frequent class has {share:.0%} of its training rows",
        " ".join(findings.notes(run)),
    )
    self.assertNotIn("most frequent class", self._notes())

  def test_known_groups_with_what_was_found_and_where_grouping_does_not_pay(self):
    run = self._run()
    found = "as by chance): K-means 0.95. These clients differ in kind."
    page = "grouping gains little or nothing: <code>docs/replication.md</code>."
    self.assertIn(found, " ".join(findings.notes(run)))
    self.assertIn(page, " ".join(findings.notes(run)))
    self.assertNotIn("differ in kind", self._notes(true_groups=False))

  def test_links_to_a_page_of_the_same_project(self):
    project = pathlib.Path(self.create_tempdir().full_path).resolve()
    folder = project / "results" / "run"
    folder.mkdir(parents=True)
    run = sample_run.results(sample_run.sample_run(), str(folder))
    with mock.patch.object(findings, "_PROJECT", project):
      self.assertNotIn("href", " ".join(findings.notes(run)))
      page = project / "docs" / "replication.md"
      page.parent.mkdir()
      page.touch()
      text = " ".join(findings.notes(run))
    (path,) = re.findall('href="(.*?)"', text)
    self.assertEqual((folder / path).resolve(), page)

  def test_all_methods_are_judged_and_none_is_picked(self):
    run = self._run(mean_accuracy=_accuracy(
        kmeans=0.8, ifca=0.78, cfl=0.6, pacfl=0.71, fesem=0.69, fedavg=0.7, local=0.9
    ), assignments={})

    self.assertEqual(
        findings.verdict(run),
        "K-means and IFCA are more accurate than training everyone together for as many rounds "
        "(FedAvg); CFL is less accurate; for PACFL and FeSEM, this run can't tell.",
    )

  def test_an_unclear_lead_is_no_win(self):
    run = self._run(half_width=0.2)

    self.assertStartsWith(findings.verdict(run), "This run can't tell whether K-means and dynamic")

  def test_says_what_it_rests_on(self):
    text = self._notes()

    self.assertIn("60 test examples of 6 clients", text)
    self.assertIn("intervals at 95%, for all 6 comparisons", text)
    self.assertIn(
        "FedAvg was trained again (times: 4), and so was every method, start included (2). The "
        "other controls are taken to vary as much as FedAvg.", text,
    )
    self.assertRegex(text, r"A gain of \d+\.\d points would be told from chance four times in")
    self.assertIn("this phase 1 (one seed, 7); what other seeds would say is not known", text)

  def test_without_repeats_it_is_about_these_models_only(self):
    text = self._notes(control_repeats=0)

    self.assertIn("leave out the chance in training", text)
    self.assertIn("about these trained models only", text)
    self.assertNotIn("include the chance", text)

  def test_one_client_has_no_interval(self):
    run = self._run(
        num_clients=1, groupings=("kmeans",), half_width=None,
        assignments={"kmeans": {"clusters": [["client_0000"]], "overlapping": False,
                                "warning": None}},
    )

    self.assertStartsWith(findings.verdict(run), "This run can't tell whether K-means is")
    self.assertIn("10 test examples of 1 client. With one client there is no interval",
                  findings.notes(run)[0])

  def test_controls_are_judged_apart(self):
    text = self._notes()

    self.assertNotIn("local", findings.verdict(self._run()))
    self.assertIn(
        "Of the controls, local is less accurate than FedAvg; for fine-tuned, this run can't tell.",
        text,
    )

  @parameterized.parameters((0.9, "less"), (0.78, "can't tell"), (0.6, "more"))
  def test_the_verdict_is_on_fine_tuning_too(self, finetuned, expected):
    found = findings.verdict(self._run(mean_accuracy=_accuracy(
        kmeans=0.8, dynamic_distance=0.8, fedavg=0.7, finetuned=finetuned, local=0.5
    )))
    over_fedavg, over_finetuned = found.split(". ")
    self.assertIn("more", over_fedavg)
    self.assertIn(expected, over_finetuned)

  def test_more_steps_are_said_with_what_the_matched_control_reaches(self):
    text = self._notes(
        mean_accuracy=_accuracy(
            kmeans=0.8, dynamic_distance=0.75, fedavg=0.7, local=0.5, fedavg_matched=0.78
        ),
        work={"dynamic_distance": 3},
    )

    # Three rounds of phase 1 (one for the clients' own weights) and two of three times the work.
    self.assertIn("more client steps than FedAvg: dynamic distance 1.8 times.", text)
    self.assertIn("Mean accuracy: dynamic distance 0.750, FedAvg matched 0.780.", text)

  def test_equal_steps_need_no_word(self):
    self.assertNotIn("client steps", self._notes())

  def test_counts_clients_against_the_control(self):
    # In the sample every client differs from the control by the same amount.
    self.assertIn(
        "than under FedAvg: K-means 6 and 0; dynamic distance 6 and 0.", self._notes()
    )
    self.assertIn(
        "than under FedAvg: K-means 0 and 6.",
        self._notes(groupings=("kmeans",), mean_accuracy=_accuracy(kmeans=0.6, fedavg=0.7)),
    )
    self.assertIn(
        "than under FedAvg: K-means 0 and 0.",
        self._notes(groupings=("kmeans",), mean_accuracy=_accuracy(kmeans=0.7, fedavg=0.7)),
    )

  def test_says_how_many_clients_take_part_in_a_round(self):
    self.assertIn(
        "In each round 4 of the 6 clients take part, the same ones",
        self._notes(clients_per_round=4),
    )
    self.assertNotIn("take part", self._notes())

  def test_says_that_the_global_test_set_is_the_clients(self):
    not_apart, too_high = "all of it is clients' own test data", "so its accuracy is too high"
    by_test = self._notes(tests_on_clients=True)
    self.assertIn(not_apart, by_test)
    self.assertIn(too_high, by_test)
    by_validation = self._notes(tests_on_clients=True, validation_examples=9)
    self.assertIn(not_apart, by_validation)
    self.assertNotIn(too_high, by_validation)
    self.assertNotIn("global test set", self._notes())

  def test_without_methods_there_is_no_claim_about_any(self):
    run = self._run(groupings=())

    self.assertEqual(findings.verdict(run), "This run has no methods, only controls.")
    self.assertNotIn("grouping", " ".join(findings.notes(run)))

  def test_a_private_run_s_verdict_says_what_is_covered(self):
    run = self._run(privacy=_PRIVACY)

    self.assertEndsWith(findings.verdict(run), " (epsilon 1.5 covers phase 1 only).")

  def test_warnings(self):
    run = self._run(fallback_reason="no network", aggregator="clipped")

    text = [": ".join(warning) for warning in findings.warnings(run)]

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

    text = [": ".join(warning) for warning in findings.warnings(run)]

    self.assertLen(text, 2)
    self.assertIn("no network", text[0])
    self.assertIn("30 writers", text[1])

  def test_warnings_of_the_run_are_shown(self):
    self.enter_context(mock.patch.object(
        finished_run.FinishedRun, "warnings", (("Other versions", "of numpy"),)
    ))

    warnings = findings.warnings(self._run(groupings=("kmeans",)))

    self.assertEqual(warnings, [("Other versions", "of numpy")])

  def test_no_warning_without_a_reason(self):
    self.assertEmpty(findings.warnings(self._run(groupings=("kmeans",))))

  def test_privacy_notes_say_what_is_seen_and_what_is_covered(self):
    plain = " ".join(findings.privacy_notes(self._run()))
    dp = " ".join(findings.privacy_notes(self._run(privacy=_PRIVACY)))

    self.assertIn("every client's own model weights", plain)
    self.assertIn("Nothing in this run is differentially private", plain)
    self.assertIn("every client's own model weights", dp)
    self.assertIn("epsilon 1.5 at delta 1e-05", dp)
    self.assertIn("add or remove one", dp)
    self.assertIn("phase 1 only", dp)

  def test_privacy_notes_say_what_each_method_shows_besides(self):
    run = self._run(
        mean_accuracy=_accuracy(pacfl=0.8, cfl=0.8, fedavg=0.7), assignments={}
    )

    text = " ".join(findings.privacy_notes(run))

    self.assertIn("For PACFL it also sees directions of every client's raw data", text)
    self.assertEqual(text.count("For CFL it also sees every client's update"), 1)
    self.assertNotIn("also sees", " ".join(findings.privacy_notes(self._run())))


if __name__ == "__main__":
  absltest.main()
