import functools
import math
import tempfile
import types

from absl.testing import absltest
from absl.testing import parameterized
import numpy as np
import pandas as pd

from clustering_basics import intervals
from experiment_shell import figure_style
from experiment_shell import tidy_experiment
from experiments.cluster_tables import cluster_profiles
from experiments.study import summary as study_summary
from experiments.three_phase_emnist import experiment
from experiments.three_phase_emnist import figures
from experiments.three_phase_emnist import report
from experiments.three_phase_emnist import summary
from fl_clustering.methods import registry
from fl_clustering.three_phase import rows
from tests.experiments.three_phase_emnist import sample_run


def _frames(**changes):
  with tempfile.TemporaryDirectory() as folder:
    run = sample_run.write(folder, **changes)
    return summary.summarise(tidy_experiment.tidy(experiment.EXPERIMENT, run), run.document)


_usual = functools.cache(_frames)


def _headline(**changes):
  row = _frames(**changes)["headline"].iloc[0]
  return experiment.EXPERIMENT.headlines[row.get("verdict", "")].format(**row)


# Metrics that no table or figure shows: whoever wants them reads results.csv.
_IN_RESULTS_ALONE = {
    "global_precision", "global_weighted_precision", "global_blended_recall",
    "global_blended_precision", "purity", "validation_accuracy",
}


class SummaryTest(parameterized.TestCase):

  def test_every_metric_is_shown_or_in_the_results_alone(self):
    validation = np.array([[[3, 1, 0], [0] * 3, [0] * 3]])
    run = sample_run.write(
        self.create_tempdir().full_path, on=sample_run.task(num_new=2), validation=validation
    )
    tidy = tidy_experiment.tidy(experiment.EXPERIMENT, run)
    # Every metric has a value of its own, by which it is found again.
    values = {one: 1000.5 + i for i, one in enumerate(tidy["results"]["metric"].unique())}
    tidy["results"]["value"] = tidy["results"]["metric"].map(values)
    frames = summary.summarise(tidy, run.document)
    shown = [
        frames[one.name].reindex(columns=[*one.columns] if one.columns else None).to_csv()
        for one in report.TABLES
    ]
    in_studies = {name for table in study_summary.TABLES for name in table.columns}
    hidden = {
        metric for metric, value in values.items()
        if metric not in in_studies and not any(str(value) in text for text in shown)
    }
    self.assertEqual(hidden, _IN_RESULTS_ALONE)

  def _tidy(self, **changes):
    run = sample_run.write(self.create_tempdir().full_path, **changes)
    return tidy_experiment.tidy(experiment.EXPERIMENT, run), run.document

  def test_accuracies_of_clients_are_those_of_the_models_that_they_keep(self):
    tidy, document = self._tidy()
    expected = summary.summarise(tidy, document)["client_accuracy"]
    clients = tidy["clients"]
    is_blended = clients["phase"] == summary.EVALUATE
    tidy["clients"] = clients.assign(value=clients["value"].where(~is_blended, 0.0))
    found = summary.summarise(tidy, document)["client_accuracy"]
    pd.testing.assert_frame_equal(found, expected)

  def test_steps_are_in_multiples_of_those_of_fedavg(self):
    tidy, document = self._tidy()
    rows_ = tidy["results"]
    is_more = (rows_["method"] == "kmeans") & (rows_["metric"] == "steps")
    tidy["results"] = rows_.assign(value=rows_["value"].where(~is_more, 180.0))
    found = summary.summarise(tidy, document)["costs"].set_index("method")["of FedAvg"]
    self.assertEqual((found["K-means"], found["FedAvg (control)"]), (3, 1))

  def test_what_the_server_sees(self):
    tidy, document = self._tidy(means={"ifca": 13, "mr_mtl": 13})
    for what in ("weights in the clear", "a sketch of every client"):
      seen = summary.summarise(tidy, document)["server_sees"].set_index("method")["what"]
      self.assertIn(what, seen["all runs"])
      self.assertEqual(list(seen.index), ["all runs", "IFCA", "MR-MTL (control)"])
      clients = tidy["clients"]  # Where sketches are grouped, nobody's own weights are known.
      tidy["clients"] = clients[clients["method"] != summary.OWN_WEIGHTS]

  def test_methods_stand_before_controls_with_groups_and_cost(self):
    found = _usual()["methods"].set_index("method")

    self.assertEqual(list(found.index), [
        "phase 1", "K-means", "dynamic distance", "local (control)", "fine-tuned (control)",
        "FedAvg (control)",
    ])
    row = found.loc["K-means", ["accuracy", "clusters", "ari", "steps", "bytes"]]
    self.assertEqual([round(row["accuracy"], 9), *row.iloc[1:]], [0.8, 2, 1, 60, 8e6])
    self.assertTrue(math.isnan(found.loc["FedAvg (control)", "ari"]))
    self.assertNotIn("recall", found)
    self.assertTrue(found["new_accuracy"].isna().all())

  def test_gains_in_points_over_both_controls(self):
    gains = _usual()["all_gains"].set_index(["over", "method"])

    row = gains.loc["over FedAvg", "K-means"]
    self.assertAlmostEqual(row["gain"], 20)
    self.assertBetween(row["low"], 10, 20)
    self.assertBetween(row["high"], 20, 30)
    self.assertGreater(row["detectable"], 0)
    self.assertEqual(row["verdict"], "better")
    self.assertEqual(gains.loc["over FedAvg", "local (control)"]["verdict"], "unclear")
    row = gains.loc["over fine-tuning", "dynamic distance"]
    self.assertEqual((round(row["gain"], 9), row["verdict"]), (0, "unclear"))
    self.assertNotIn(("over fine-tuning", "local (control)"), gains.index)
    found = _usual()["accuracies"].set_index("method")
    self.assertEqual(found.loc["K-means", ["higher", "lower"]].tolist(), [6, 0])
    self.assertTrue(math.isnan(found.loc["FedAvg (control)", "higher"]))

  @parameterized.named_parameters(
      ("better", {}, r"better .*FedAvg\): \+20.0 points \(.* told from fine-tuning"),
      ("worse", {"kmeans": 5, "dynamic_distance": 4}, r"worse .*: -35.0 points \(.* worse"),
      ("neither", {"kmeans": 12, "dynamic_distance": 11, "finetuned": 12}, "told from .*told from"),
      ("controls_alone", {"kmeans": None, "dynamic_distance": None}, "only controls"),
  )
  def test_headline(self, means, text):
    self.assertRegex(_headline(means=means, spread=3.0), text)

  def test_headline_has_numbers_by_their_names_in_the_results(self):
    run = sample_run.write(self.create_tempdir().full_path)
    tidy = tidy_experiment.tidy(experiment.EXPERIMENT, run)
    results = tidy["results"][tidy["results"]["cluster"].isna()]
    own = results[results["method"] == "kmeans"].set_index("metric")["value"]
    row = summary.summarise(tidy, run.document)["headline"].iloc[0]
    self.assertEqual(row["method"], "K-means")
    names = ["accuracy", "gain", "gain_low", "gain_high"]
    names += [f"finetuned_{name}" for name in names[1:]]
    self.assertEqual(row[names].tolist(), own[names].tolist())

  @parameterized.named_parameters(
      ("phase_1", "pretrain", 3, 1, 3, 30),
      ("builds_on_phase_1", "kmeans", 2, 3, 5, 60),
      ("from_the_start", "local", 5, 0, 5, 60),
      ("goes_on", "fedavg_matched", 4, 5, 9, 60),
  )
  def test_curves_count_rounds_and_costs_from_the_start(self, method, rounds, first, last, steps):
    run = sample_run.write(
        self.create_tempdir().full_path, matched_rounds=rounds, means={"fedavg_matched": 13}
    )
    tidy = tidy_experiment.tidy(experiment.EXPERIMENT, run)
    found = summary.curves(tidy["curves"], run.settings)

    own = found[found["method"] == method]
    self.assertEqual([own["round"].iloc[0], own["round"].iloc[-1]], [first, last])
    self.assertEqual(own["steps"].iloc[-1], steps)
    self.assertTrue(own["steps"].is_monotonic_increasing)

  def test_no_figure_shows_a_model_that_nobody_trained(self):
    frames = _usual()
    self.assertEqual(frames["learning_curves"]["round"].min(), 1)
    costs = frames["accuracy_by_cost"].groupby("panel")["cost"].min()
    self.assertGreater(costs.filter(like="steps").item(), 0)

  def test_distances_are_of_every_two_clients_and_symmetric(self):
    frame = _usual()["distance_matrix"]
    self.assertEqual(
        list(frame["panel"].unique()), ["K-means", "dynamic distance", "true groups"]
    )
    own = frame[frame["panel"] == "K-means"]
    own = own.pivot(index="client", columns="other", values="distance")
    self.assertEqual(own.shape, (6, 6))
    np.testing.assert_array_equal(own, own.T)
    self.assertTrue(np.isnan(np.diag(own)).all())

  def test_new_clients(self):
    found = _frames(on=sample_run.task(num_new=2))["new_clients"].set_index("method")
    self.assertAlmostEqual(found.loc["K-means", "new_accuracy"], 0.8)

  def test_a_client_is_where_its_largest_cluster_is(self):
    members = pd.DataFrame(
        [("a", "x", 0), ("a", "y", 0), ("a", "z", 0), ("a", "z", 1), ("b", "y", 1), ("b", "x", 0)],
        columns=["panel", "client", "cluster"],
    )
    found = summary.main_clusters(members)
    self.assertEqual(found.to_numpy().tolist(), [
        ["a", "x", 0, 1], ["a", "y", 0, 1], ["a", "z", 0, 2], ["b", "x", 0, 1], ["b", "y", 1, 1],
    ])

  def test_labels_warnings_and_profiles_of_the_saved_method(self):
    run = sample_run.write(
        self.create_tempdir().full_path, saved="kmeans", means={"my_method": 13}
    )
    rows = [(0, 5, "age", 3.0, 1.0, 0.5)]
    pd.DataFrame(rows, columns=cluster_profiles.COLUMNS).to_csv(run.join("profiles.csv"))
    frames = summary.summarise(tidy_experiment.tidy(experiment.EXPERIMENT, run), run.document)
    self.assertEqual(frames["profiles"]["method"].tolist(), ["K-means"])
    self.assertIn("my method", set(frames["methods"]["method"]))
    self.assertIn("too many cliques", set(frames["warnings"]["warning"]))


class NoGainTest(absltest.TestCase):

  def _verdicts(self, rng, sd_training, num_repeats):
    """Returns the verdicts of a run whose methods differ from fine-tuning and FedAvg by chance."""
    expected = rng.beta(16, 4, 40)  # Of a client, under every method.

    def trained(num_tests=20):
      right = rng.binomial(num_tests, np.clip(expected + rng.normal(0, sd_training), 0, 1))
      rows = np.stack([right, num_tests - right], axis=-1)
      return np.stack([rows, np.zeros_like(rows)], axis=1)

    groupings = ("kmeans", "dynamic_distance", "hierarchical", "ifca", "cfl")
    result = types.SimpleNamespace(
        methods={
            name: types.SimpleNamespace(clients=trained())
            for name in (*groupings, "local", "finetuned", "fedavg")
        },
        repeats={
            name: [trained()[:, 0, 0] / 20 for _ in range(num_repeats)]
            for name in (*groupings, "fedavg")
        },
    )
    compared = list(rows.compared(result))
    self.assertLen(compared, 7 + 5)
    return {intervals.verdict(gain.low, gain.high) for _, _, gain in compared}

  def test_few_runs_call_any_method_better_or_worse(self):
    rng = np.random.default_rng(0)
    for sd_training, num_repeats in ((0.0, 0), (0.02, 3)):
      wrong = sum(
          self._verdicts(rng, sd_training, num_repeats) != {intervals.UNCLEAR} for _ in range(60)
      )
      # Of 60 with 5% each, nine or more have a probability of .4%.  By intervals that hold one at a
      # time, half of the runs without repeats would call one so.
      self.assertLess(wrong, 9)


class FiguresTest(absltest.TestCase):

  def test_clusters_are_named_in_their_middle_and_separated_between(self):
    frame = pd.DataFrame({
        "place": range(5), "label": "0", "height": 1.0, "cluster": [0, 0, 1, 1, 1],
    })
    (figure,) = (one for one in experiment.EXPERIMENT.figures if one.name == "label_mix")
    axes = figure_style.new_figure(3).add_subplot()
    figure.draw(frame, axes)
    self.assertEqual(axes.get_xticks().tolist(), [0.5, 3])
    self.assertEqual([text.get_text() for text in axes.get_xticklabels()], ["0", "1"])
    self.assertEqual([line.get_xdata()[0] for line in axes.lines], [1.5])


class LooksTest(parameterized.TestCase):

  def test_all_methods_look_different(self):
    methods = ["pretrain", *registry.METHODS, *registry.all_controls(), "first_unknown", "second"]

    looks = [tuple(look.values()) for look in figures.method_looks(methods).values()]

    self.assertLen(set(looks), len(methods))
    # Two methods may share a colour, if their lines or markers differ.
    self.assertGreaterEqual(len({color for color, *_ in looks}), 10)
    for name, look in zip(methods[:-2], looks):  # Whatever else there is.
      self.assertEqual(tuple(figures.method_looks([name])[name].values()), look, name)

  @parameterized.parameters(
      (0, "0"), (999, "999"), (1000, "1 k"), (12_345, "12.3 k"), (999_600, "1 M"), (2.5e6, "2.5 M")
  )
  def test_steps(self, number, text):
    self.assertEqual(report.steps_text(number), text)

  @parameterized.parameters((999, "999 B"), (15_426_208, "15.4 MB"), (1.2e9, "1.2 GB"))
  def test_bytes(self, number, text):
    self.assertEqual(report.bytes_text(number), text)
