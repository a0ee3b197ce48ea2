import json

from absl.testing import absltest
from absl.testing import parameterized
from scipy import stats

from experiment_shell import finished_run
from experiments.grouping_study import cells
from experiments.grouping_study import findings
from experiments.grouping_study import report
from experiments.grouping_study import results as results_lib
from fl_clustering.tables import schema as schema_lib
from tests.experiments.grouping_study import sample_study

_SCHEMA = schema_lib.strict(("x", "sick", "part"), label="sick", split="part")


class ResultsTest(parameterized.TestCase):

  def _results(self, rows_of_group, study=None):
    """Returns the `Results` of a study with these rows; an argument of groups -> rows."""
    study = study or sample_study.config(("iid",), num_seeds=3)
    rows = [row for group in study.groups for row in rows_of_group(group)]
    folder = self.create_tempdir().full_path
    return results_lib.read(sample_study.write(folder, study, rows))

  def test_gains_are_paired_by_seed(self):
    def rows(group):
      return [
          sample_study.row(group, "fedavg", accuracy=0.5 + group.seed / 10),
          sample_study.row(group, "kmeans", accuracy=0.6 + group.seed / 9),
          sample_study.row(group, "finetuned", accuracy=0.7 - group.seed / 10),
      ]

    results = self._results(rows)

    over_fedavg = results.gain("iid", "kmeans", "fedavg")
    self.assertAlmostEqual(over_fedavg.mean, 0.1 + 1 / 90)
    self.assertAlmostEqual(over_fedavg.sd, 1 / 90)
    self.assertTrue(over_fedavg.leaves_out_zero)
    over_finetuned = results.gain("iid", "kmeans", "finetuned")
    self.assertAlmostEqual(over_finetuned.mean, 0.1 + 1 / 90)
    self.assertAlmostEqual(over_finetuned.sd, 0.1 + 1 / 9)
    self.assertFalse(over_finetuned.leaves_out_zero)
    of_kmeans = results_lib.summary(results)["settings"]["iid"]["kmeans"]
    self.assertEqual(of_kmeans["gain_over_fedavg"]["mean"], over_fedavg.mean)
    self.assertEqual(of_kmeans["gain_over_finetuned"]["mean"], over_finetuned.mean)
    self.assertAlmostEqual(of_kmeans["accuracy"]["mean"], 0.6 + 1 / 9)

  def test_pairs_have_the_same_seed_and_fold(self):
    accuracies = {
        "fedavg": {(0, 0): 0.2, (1, 0): 0.1}, "kmeans": {(0, 0): 0.5, (0, 1): 0.7, (1, 0): 0.9},
    }

    def rows(group):
      return [
          sample_study.row(group, method, accuracy=of_method[group.seed, group.fold])
          for method, of_method in accuracies.items() if (group.seed, group.fold) in of_method
      ]

    study = sample_study.config(("iid",), num_seeds=2, num_folds=2)
    gain = self._results(rows, study).gain("iid", "kmeans", "fedavg")

    self.assertEqual(gain.count, 2)
    self.assertAlmostEqual(gain.mean, (0.3 + 0.8) / 2)

  def test_what_trains_more_is_compared_with_the_control_of_as_many_steps(self):
    def rows(group):
      steps = 200 if group.seed else 104
      found = [
          sample_study.row(group, "fedavg", accuracy=0.5),
          sample_study.row(group, "kmeans", accuracy=0.7),
          sample_study.row(group, "ifca", accuracy=0.8, client_steps=steps),
      ]
      if group.seed:
        found.append(sample_study.row(group, "fedavg_matched", accuracy=0.65, client_steps=205))
      return found

    results = self._results(rows)

    self.assertAlmostEqual(results.gain("iid", "kmeans", "fedavg").mean, 0.2)
    self.assertAlmostEqual(results.gain("iid", "ifca", "fedavg").mean, (0.3 + 0.15 + 0.15) / 3)
    self.assertNotIn("fedavg_matched", results.compared_with("fedavg"))

  def test_what_trains_more_is_not_compared_where_the_control_of_as_many_steps_failed(self):
    def rows(group):
      matched = (
          sample_study.row(group, "fedavg_matched", "nan in round 3") if group.seed == 2 else
          sample_study.row(group, "fedavg_matched", accuracy=0.75, client_steps=205)
      )
      return [
          sample_study.row(group, "fedavg", accuracy=0.5),
          sample_study.row(group, "ifca", accuracy=0.8, client_steps=200), matched,
      ]

    gain = self._results(rows).gain("iid", "ifca", "fedavg")

    self.assertEqual(gain.count, 2)
    self.assertAlmostEqual(gain.mean, 0.05)

  def test_cells_that_fail_leave_out_their_pairs(self):
    def rows(group):
      failed = "nan in round 2" if group.seed == 1 else None
      accuracy = {} if failed else {"accuracy": 0.6}
      return [
          sample_study.row(group, "fedavg", accuracy=0.5),
          sample_study.row(group, "kmeans", failed, **accuracy),
          sample_study.row(group, "ifca", "no memory"),
      ]

    results = self._results(rows)

    self.assertEqual(results.gain("iid", "kmeans", "fedavg").count, 2)
    self.assertIsNone(results.gain("iid", "ifca", "fedavg"))
    self.assertIn("iid, kmeans, seed 1: nan in round 2", results_lib.text(results).splitlines())
    self.assertEqual(
        results_lib.problem(results), "4 of 9 cells failed; they are listed above."
    )
    summary = results_lib.summary(results)
    json.dumps(summary, allow_nan=False)
    self.assertLen(summary["failures"], 4)
    self.assertEqual(
        dict(findings.warnings(results))["4 of 9 cells failed"],
        "K-means failed in some runs; their means are over the others. IFCA failed in all runs. "
        "The list is below.",
    )

  @parameterized.named_parameters(
      ("unknown_setting", {"settings": ["sorted"]}, "`settings` must be one of "),
      ("unknown_option", {"shade": 9}, ".*shade"),
      ("no_folds", {"num_folds": ...}, "it has no 'num_folds'"),
  )
  def test_a_study_of_other_settings_is_damaged(self, changes, reason):
    run = sample_study.write(self.create_tempdir().full_path)
    document = {**run.document, "config": {**run.settings, **changes}}
    for name, value in changes.items():
      if value is ...:
        del document["config"][name]
    with open(run.join("config.json"), "w", encoding="utf-8") as file:
      json.dump(document, file)

    results = results_lib.read(finished_run.FinishedRun(run.path))

    with self.assertRaisesRegex(
        finished_run.DamagedFile, f"^'[^']*config.json' can't be read .{reason}"
    ):
      results_lib.text(results)

  def test_a_study_without_failures_has_no_problem(self):
    results = results_lib.read(sample_study.write(self.create_tempdir().full_path))

    self.assertEqual(results_lib.problem(results), "")
    self.assertEqual(results.failures, [])

  def test_with_folds_the_interval_is_wider(self):
    def rows(group):
      more = group.seed / 100 + (group.fold or 0) / 50
      return [
          sample_study.row(group, "fedavg", accuracy=0.5),
          sample_study.row(group, "kmeans", accuracy=0.6 + more),
      ]

    results = self._results(rows, sample_study.config(("iid",), num_seeds=1, num_folds=4))

    gain = results.gain("iid", "kmeans", "fedavg")
    self.assertEqual(gain.count, 4)
    # As four methods and controls are compared with one reference, and three more with the other.
    quantile = stats.t.ppf(1 - 0.05 / 14, 3)
    self.assertAlmostEqual(gain.high - gain.mean, quantile * gain.sd * (1 / 4 + 1 / 3) ** 0.5)

  def test_all_intervals_of_a_study_hold_at_once(self):
    results = results_lib.read(sample_study.write(self.create_tempdir().full_path))

    # From FedAvg: K-means, IFCA, fine-tuned, local; from fine-tuned: K-means, IFCA, local.
    self.assertEqual(results.num_comparisons, 2 * (4 + 3))
    for reference in results_lib.REFERENCES:
      gain = results.gain("rotated", "local", reference)
      quantile = stats.t.ppf(1 - 0.05 / 28, 3)
      self.assertAlmostEqual(gain.high - gain.mean, quantile * gain.sd / 2)
    found = results_lib.summary(results)
    self.assertEqual(found["num_comparisons"], 14)

  def test_where_clients_are_in_several_clusters_the_groups_are_not_found(self):
    def rows(group):
      several = {} if group.seed else {"adjusted_rand_index": None}
      return [
          sample_study.row(
              group, "kmeans", accuracy=0.5, **{"adjusted_rand_index": 1.0, **several}
          ),
          sample_study.row(group, "ifca", accuracy=0.5),
          sample_study.row(group, "finetuned", accuracy=0.5),
      ]

    results = self._results(rows)

    self.assertEqual(results.num_found("iid", "kmeans"), (2, 3))
    self.assertEqual(results.num_found("iid", "ifca"), (0, 3))
    self.assertEqual(results.num_found("iid", "finetuned"), (0, 0))

  def test_groups_found_in_some_repetitions(self):
    def rows(group):
      return [
          sample_study.row(
              group, method, accuracy=0.5, adjusted_rand_index=1.0 if group.seed < more else 0.9
          )
          for method, more in (("kmeans", 2), ("ifca", 3))
      ]

    text = findings.of_setting(self._results(rows), "iid")

    self.assertEndsWith(
        text, "Groups are found in some repetitions only (ARI at least 0.95): K-means in 2 of 3."
    )

  def test_curves_are_means_over_the_seeds(self):
    study = sample_study.config(("iid",), num_seeds=2)
    run = sample_study.write(self.create_tempdir().full_path, study)
    with open(run.join(cells.ROUNDS), "a", encoding="utf-8") as file:
      file.write("iid,1,,kmeans,3,0.9,150,3000\n")  # Of one seed alone.

    curves = results_lib.read(run).curves
    curve = curves[(curves["setting"] == "iid") & (curves["method"] == "kmeans")]

    self.assertEqual(list(curve["round"]), [1, 2])
    self.assertEqual(list(curve["client_steps"]), [50, 100])
    of_kmeans = [row for row in sample_study.round_rows(study) if row[3] == "kmeans"]
    for number, accuracy in zip(curve["round"], curve["mean"]):
      first, second = (row[5] for row in of_kmeans if row[4] == number)
      self.assertNotEqual(first, second)
      self.assertAlmostEqual(accuracy, (first + second) / 2)

  def test_text(self):
    results = results_lib.read(sample_study.write(self.create_tempdir().full_path))

    lines = results_lib.text(results).splitlines()

    self.assertRegex(lines[0], r"^method +iid +rotated$")
    self.assertRegex(lines[1], r"^K-means +-\d\.\d[* ] +\+2\d\.\d\*$")
    self.assertRegex(lines[5], r"^FedAvg \(control\) +0\.\d{3} +0\.\d{3}$")

  def test_findings(self):
    results = results_lib.read(sample_study.write(self.create_tempdir().full_path))

    self.assertEqual(
        findings.verdict(results),
        "Grouping the clients beats training everyone together (FedAvg) in rotated; in rotated a "
        "method also beats the fine-tuned models.",
    )
    self.assertStartsWith(
        findings.of_setting(results, "iid"),
        "No method is more accurate than FedAvg beyond chance. Less accurate than FedAvg: K-means.",
    )
    self.assertStartsWith(
        findings.of_setting(results, "rotated"),
        "More accurate than FedAvg: K-means and IFCA. The most accurate of them on average is "
        "K-means, with a gain of +2",
    )

  @parameterized.named_parameters(
      ("everywhere", ("iid", "rotated"), "in rotated and iid."),
      ("in one setting", ("iid",), "in rotated and iid; in rotated a method also beats the "
       "fine-tuned models."),
      ("in the other", ("rotated",), "in rotated and iid; no method also beats the fine-tuned "
       "models in iid."),
  )
  def test_the_verdict_where_fine_tuning_failed(self, failed, expected):
    study = sample_study.config(("rotated", "iid"), num_seeds=3)
    rows = []
    for group in study.groups:
      finetuned = 0.5 if group.setting == "rotated" else 0.9
      rows += [
          sample_study.row(group, "fedavg", accuracy=0.5),
          sample_study.row(group, "kmeans", accuracy=0.7 + group.seed / 100),
          sample_study.row(group, "finetuned", "nan") if group.setting in failed
          else sample_study.row(group, "finetuned", accuracy=finetuned),
      ]
    run = sample_study.write(self.create_tempdir().full_path, study, rows)

    self.assertEndsWith(findings.verdict(results_lib.read(run)), f"(FedAvg) {expected}")

  def test_nothing_is_said_of_gains_where_fedavg_failed(self):
    study = sample_study.config(("iid",), num_seeds=3)
    rows = [
        sample_study.row(group, method, "nan") if method == "fedavg"
        else sample_study.row(group, method, accuracy=0.8 + group.seed / 100)
        for group in study.groups for method in ("fedavg", "kmeans", "finetuned")
    ]
    run = sample_study.write(self.create_tempdir().full_path, study, rows)

    self.assertEqual(
        findings.of_setting(results_lib.read(run), "iid"),
        "FedAvg failed, so no gain over it is known.",
    )

  @parameterized.named_parameters(
      ("images", {}, ("iid",), "the split over the clients, their test data, the first model and"),
      ("writers", {"dataset": "emnist"}, ("natural",), "the clients, the first model and"),
      ("tables", {"dataset": "files", "schema": _SCHEMA.without("split")}, ("natural",),
       "the clients' test rows, the first model and"),
      ("given test rows",
       {"dataset": "files", "schema": _SCHEMA},
       ("natural",), "the first model and"),
  )
  def test_what_seeds_draw(self, values, settings, expected):
    study = sample_study.config(settings, **values)
    results = results_lib.read(sample_study.write(self.create_tempdir().full_path, study))

    self.assertStartsWith(
        findings.notes(results)[0],
        "The intervals are Student's t over the seeds. Each seed draws "
        f"{expected} the order of training; the data set is the same.",
    )

  @parameterized.parameters((9, True), (10, False))
  def test_few_seeds_are_a_warning(self, num_seeds, expected):
    study = sample_study.config(num_seeds=num_seeds)
    results = results_lib.read(sample_study.write(self.create_tempdir().full_path, study))

    titles = [title for title, _ in findings.warnings(results)]
    self.assertEqual("Few repetitions" in titles, expected)

  @parameterized.parameters((1, None), (2, None), (1, 2))
  def test_fewer_than_three_repetitions_tell_nothing(self, num_seeds, num_folds):
    study = sample_study.config(num_seeds=num_seeds, num_folds=num_folds)
    run = sample_study.write(self.create_tempdir().full_path, study)

    results = results_lib.read(run)

    self.assertIn("no difference can be told from chance", findings.verdict(results))
    self.assertNotIn("*", results_lib.text(results))
    self.assertIn("no interval", results_lib.text(results))
    if num_folds:
      report.write_report(run)
      with open(run.join("report.html"), encoding="utf-8") as file:
        self.assertNotRegex(file.read(), r"unknown|\d to [-+]?\d+\.\d")
    measured = self._measured(results)
    self.assertNotEmpty(measured)
    for one in measured:
      self.assertEqual((one["low"], one["high"]), (None, None))

  def _measured(self, results):
    """Returns what the summary says of accuracies and gains."""
    return [
        one for of_setting in results_lib.summary(results)["settings"].values()
        for of_method in of_setting.values() for one in of_method.values() if isinstance(one, dict)
    ]

  @parameterized.parameters((3, None), (2, 2))
  def test_no_interval_reaches_beyond_what_can_be(self, num_seeds, num_folds):
    def rows(group):
      even = (group.seed + (group.fold or 0)) % 2
      return [
          sample_study.row(group, "fedavg", accuracy=0.9 - 0.8 * even),
          sample_study.row(group, "kmeans", accuracy=0.1 + 0.8 * even),
      ]

    study = sample_study.config(("iid",), num_seeds=num_seeds, num_folds=num_folds)
    results = self._results(rows, study)

    gain = results.gain("iid", "kmeans", "fedavg")
    self.assertEqual((gain.low, gain.high), (-1, 1))
    for one in self._measured(results):
      self.assertBetween(one["low"], 0.0 if one["mean"] > 0.2 else -1.0, one["mean"])
      self.assertBetween(one["high"], one["mean"], 1.0)


if __name__ == "__main__":
  absltest.main()
