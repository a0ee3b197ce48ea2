
from absl.testing import parameterized
import pandas as pd
from scipy import stats

from experiments.study import summary
from tests.experiments.study import sample_study


def _found(scores_of, study):
  return summary.cells(sample_study.results(study, scores_of)), study.to_json()


def _gains(scores_of, study=None):
  """Returns the gains of a study by setting, method and reference."""
  study = study or sample_study.config(("iid",), num_seeds=3)
  gains = summary.gains(*_found(scores_of, study))
  return gains.set_index(["setting", "method", "reference"])


class GainsTest(parameterized.TestCase):

  def test_of_the_same_seed_and_fold(self):
    accuracies = {
        "fedavg": {(0, 1): 0.2, (1, 1): 0.1}, "kmeans": {(0, 1): 0.5, (0, 2): 0.7, (1, 1): 0.9},
    }
    gain = _gains(
        lambda setting, seed, fold: {
            method: own[seed, fold] for method, own in accuracies.items() if (seed, fold) in own
        },
        sample_study.config(("iid",), num_seeds=2, num_folds=2),
    ).loc["iid", "kmeans", "fedavg"]

    self.assertEqual(gain["repetitions"], 2)
    self.assertAlmostEqual(gain["gain"], 100 * (0.3 + 0.8) / 2)

  @parameterized.parameters((False, 3), (True, 2))
  def test_what_trains_more_is_compared_with_the_control_of_as_many_steps(
      self, failed, repetitions
  ):
    def scores_of(unused_setting, seed, unused_fold):
      found = {
          "fedavg": 0.5, "kmeans": 0.7,
          "ifca": {"accuracy": 0.8, "steps": 200 if seed else 104},
          "fedavg_matched": {"accuracy": 0.65, "steps": 205},
      }
      if failed and seed == 2 or not seed:
        del found["fedavg_matched"]
      return found

    gains = _gains(scores_of)

    self.assertAlmostEqual(gains.loc["iid", "kmeans", "fedavg"]["gain"], 20)
    gain = gains.loc["iid", "ifca", "fedavg"]
    self.assertEqual(gain["repetitions"], repetitions)
    self.assertAlmostEqual(gain["gain"], (30 + 15 * (repetitions - 1)) / repetitions)
    self.assertNotIn("fedavg_matched", gains.index.get_level_values("method"))

  def test_a_method_that_failed_leaves_out_its_pairs(self):
    gains = _gains(
        lambda setting, seed, fold: {"fedavg": 0.5} | ({} if seed == 1 else {"kmeans": 0.6})
    )

    self.assertEqual(gains.loc["iid", "kmeans", "fedavg"]["repetitions"], 2)
    failed = gains.loc["iid", "ifca", "fedavg"]
    self.assertEqual((failed["repetitions"], failed["verdict"]), (0, "unclear"))

  @parameterized.parameters((4, None, 1 / 4), (1, 4, 1 / 4 + 1 / 3))
  def test_intervals_hold_at_once_and_are_wider_with_folds(self, num_seeds, num_folds, share):
    study = sample_study.config(num_seeds=num_seeds, num_folds=num_folds)
    gains = summary.gains(summary.cells(sample_study.results(study)), study.to_json())

    found = summary.cells(sample_study.results(study)).set_index(["setting", "method"])
    # From FedAvg: K-means, IFCA, local, fine-tuned; from fine-tuned: K-means, IFCA, local.
    quantile = stats.t.ppf(1 - 0.05 / (2 * 2 * (4 + 3)), 3)
    for gain in gains.to_dict("records"):
      own, other = (
          found.loc[gain["setting"], gain[one]]["accuracy"].to_numpy()
          for one in ("method", "reference")
      )
      half = quantile * (own - other).std(ddof=1) * share**0.5
      self.assertAlmostEqual(gain["high"], min(100, gain["gain"] + 100 * half))
      self.assertAlmostEqual(gain["low"], max(-100, gain["gain"] - 100 * half))

  @parameterized.parameters((4, None, 1 / 4), (1, 4, 1 / 4 + 1 / 3))
  def test_scores_have_the_interval_of_their_method(self, num_seeds, num_folds, share):
    study = sample_study.config(num_seeds=num_seeds, num_folds=num_folds)
    found = summary.cells(sample_study.results(study))
    for row in summary.scores(found, study.to_json()).to_dict("records"):
      is_own = (found["setting"] == row["setting"]) & (found["method"] == row["method"])
      own = found[is_own]["accuracy"]
      half = stats.t.ppf(0.975, 3) * own.std() * share**0.5
      self.assertAlmostEqual(row["sd"], own.std())
      self.assertAlmostEqual(row["low"], max(0, own.mean() - half))
      self.assertAlmostEqual(row["high"], min(1, own.mean() + half))

  @parameterized.parameters((1, None), (2, None), (1, 2))
  def test_fewer_than_three_repetitions_tell_nothing(self, num_seeds, num_folds):
    study = sample_study.config(num_seeds=num_seeds, num_folds=num_folds)
    frames = summary.summarise(sample_study.tables(study), sample_study.document(study))

    for name in ("over_fedavg", "over_finetuned", "methods"):
      self.assertTrue(frames[name][["low", "high"]].isna().all(axis=None), name)
    self.assertEqual(frames["headline"]["verdict"].item(), "none")

  @parameterized.parameters((3, None), (2, 2))
  def test_no_interval_reaches_beyond_what_can_be(self, num_seeds, num_folds):
    def scores_of(unused_setting, seed, fold):
      even = (seed + fold) % 2
      return {"fedavg": 0.9 - 0.8 * even, "kmeans": 0.1 + 0.8 * even}

    study = sample_study.config(("iid",), num_seeds=num_seeds, num_folds=num_folds)
    gain = _gains(scores_of, study).loc["iid", "kmeans", "fedavg"]
    self.assertEqual((gain["low"], gain["high"]), (-100, 100))
    for ends in summary.scores(*_found(scores_of, study))[["low", "high"]].to_numpy():
      self.assertEqual(list(ends), [0, 1])


class SummaryTest(parameterized.TestCase):

  def _frames(self, scores_of=None, study=None):
    study = study or sample_study.config()
    tables = sample_study.tables(study, *([scores_of] if scores_of else []))
    return summary.summarise(tables, sample_study.document(study))

  def test_groups_count_as_found_where_the_index_says_so(self):
    def scores_of(unused_setting, seed, unused_fold):
      # Where clients are in several clusters, there is no index.
      several = {} if seed else {"ari": None}
      return {
          "kmeans": {"accuracy": 0.5, "ari": 1.0, **several}, "fedavg": 0.5,
          "ifca": {"accuracy": 0.5, "ari": 0.9 + seed / 20},
      }

    frames = self._frames(scores_of, sample_study.config(("rotated",), num_seeds=3))

    methods = frames["methods"].set_index("method")
    self.assertEqual(methods.loc[["K-means", "IFCA"], "found"].tolist(), [2, 2])
    self.assertTrue(methods["found"].isna()["FedAvg (control)"])
    never = self._frames(
        lambda *_: {"kmeans": {"accuracy": 0.5, "ari": 0.0}, "fedavg": 0.5},
        sample_study.config(("rotated",), num_seeds=3),
    )
    self.assertEqual(never["methods"].set_index("method").loc["K-means", "found"], 0)
    repetitions = frames["by_repetition"].groupby(["method", "groups"], observed=True).size()
    self.assertEqual(repetitions["K-means"].to_dict(), {"groups found": 2, "not scored": 1})
    self.assertEqual(repetitions["IFCA"].to_dict(), {"groups found": 2, "not found": 1})

  def test_gains_of_repetitions_are_in_points_too(self):
    frames = self._frames()
    means = frames["by_repetition"].groupby(["setting", "method"], observed=True)["gain"].mean()
    expected = frames["over_fedavg"].set_index(["setting", "method"])["gain"]
    for place, gain in expected.items():
      self.assertAlmostEqual(means[place], gain)

  def test_curves_are_means_over_who_did_not_fail_of_rounds_that_all_have(self):
    study = sample_study.config(("iid",), num_seeds=3)
    tables = sample_study.tables(study, lambda setting, seed, fold: (
        {"fedavg": 0.5} if seed == 1 else {"fedavg": 0.5, "kmeans": 0.6}
    ))
    rounds = tables["rounds"]
    is_lost = (rounds["method"] == "kmeans") & (rounds["seed"] == 2) & (rounds["round"] == 2)
    # Nobody trains in round 0.
    first = rounds[(rounds["method"] == "fedavg") & (rounds["round"] == 1)]
    tables["rounds"] = pd.concat([first.assign(round=0, value=0.0), rounds[~is_lost]])

    curves = summary.summarise(tables, sample_study.document(study))["accuracy_by_cost"]

    by_bytes = curves[curves["panel"] == "iid: bytes"].set_index(["method", "round"])["mean"]
    # The accuracies are round (seed + 1) / 10.
    self.assertEqual(by_bytes.round(9).to_dict(), {
        ("kmeans", 1): 0.2, ("fedavg", 1): 0.2, ("fedavg", 2): 0.4,
    })
    by_steps = curves[curves["panel"] == "iid: steps"].set_index(["method", "round"])["cost"]
    # The steps are round (seed + 1) 50.
    self.assertEqual(by_steps.to_dict(), {
        ("kmeans", 1): 100, ("fedavg", 1): 100, ("fedavg", 2): 200,
    })

  def test_what_one_method_gains_over_each_is_not_gained_by_one_over_both(self):
    def scores_of(unused_setting, seed, unused_fold):
      fedavg = 0.1 + 0.2 * seed
      return {
          "fedavg": fedavg, "local": 0.99, "finetuned": 0.2,
          "kmeans": fedavg + 0.05 + seed / 1000, "ifca": 0.3 + seed / 1000,
      }

    frames = self._frames(scores_of, sample_study.config(("rotated",), num_seeds=4))

    (row,) = frames["headline"].to_dict("records")
    self.assertEqual((row["verdict"], row["both"]), ("fedavg", ""))

  @parameterized.named_parameters(
      ("both", 0.6, 3, "both", "rotated, iid", "rotated"),
      ("fedavg", 0.9, 3, "fedavg", "rotated, iid", ""),
      ("none", 0.9, 2, "none", "", ""),
  )
  def test_headline(self, finetuned, repetitions, verdict, settings, both):
    def scores_of(setting, seed, unused_fold):
      return {
          "fedavg": 0.5, "local": 0.99,
          **({"kmeans": 0.7 + seed / 100} if seed < repetitions else {}),
          "finetuned": finetuned if setting == "rotated" else 0.9,
      }

    frames = self._frames(scores_of, sample_study.config(("rotated", "iid"), num_seeds=3))

    (row,) = frames["headline"].to_dict("records")
    self.assertEqual(
        row,
        {"verdict": verdict, "settings": settings, "both": both, "repetitions": repetitions},
    )

  def test_what_was_chosen_is_shown_with_the_ends_of_the_range(self):
    study = sample_study.config(learning_rates=(0.05, 0.1, 0.2), tuning_seeds=2)
    frames = self._frames(study=study)

    shown = frames["chosen_by_setting"].set_index("method")
    # All candidates but the last one, which failed, are equal.
    self.assertEqual(shown.loc["K-means"].tolist(), ["0.05<", "0.05<"])
    self.assertEmpty(frames["choice_on_test"])
    self.assertEqual(set(frames["cells"]["learning_rate"].dropna()), {"0.05"})

  def test_methods_that_failed_with_a_tuning_seed_are_told_apart(self):
    study = sample_study.config(num_seeds=1, learning_rates=(0.1, 0.2), tuning_seeds=2)
    frames = self._frames(study=study)  # It is seed 1 with which a method failed.

    self.assertEmpty(frames["problems"])
    self.assertLen(frames["problems_in_tuning"], 1)
    frames = self._frames(study=sample_study.config(num_seeds=1, seed=1))
    self.assertLen(frames["problems"], 1)
    self.assertEmpty(frames["problems_in_tuning"])

  def test_gains_and_losses_that_are_told_from_chance_have_a_star(self):
    shown = self._frames()["over_fedavg_by_setting"].set_index("method")
    self.assertRegex(shown.loc["local (control)", "iid"], r"^-\d+\.\d\*$")
    self.assertRegex(shown.loc["local (control)", "rotated"], r"^\+\d+\.\d\*$")
    self.assertRegex(shown.loc["IFCA", "iid"], r"^[-+]\d\.\d $")
