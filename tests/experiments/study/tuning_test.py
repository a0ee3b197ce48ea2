import math

from absl.testing import parameterized
import pandas as pd

from experiments.study import summary
from experiments.study import tuning
from tests.experiments.study import sample_study

# By method and candidate, the accuracies on validation and on test rows with both tuning seeds;
# None where a run failed.
_VALIDATION = {
    "kmeans": {"0.05": (0.5, 0.7), "0.1": (0.8, 0.6), "0.2": (0.9, None)},
    "ifca": {"0.05": (0.4, 0.4), "0.1": (0.4, 0.4), "0.2": (0.3, 0.3)},
    "fedavg": {"0.05": (0.1, 0.2), "0.1": (0.3, 0.2), "0.2": (0.3, 0.4)},
    "local": {"0.05": (None, None), "0.1": (None, 0.9), "0.2": (0.9, None)},
}
_TEST = {
    "kmeans": {"0.05": (0.9, 0.7), "0.1": (0.6, 0.6), "0.2": (0.9, None)},
    "ifca": {"0.05": (0.6, 0.6), "0.1": (0.5, 0.5), "0.2": (0.1, 0.1)},
    "fedavg": {"0.05": (0.1, 0.1), "0.1": (0.3, 0.3), "0.2": (0.3, 0.4)},
    "local": {"0.05": (None, None), "0.1": (None, 0.9), "0.2": (0.9, None)},
}


def _study(**changes):
  return sample_study.config(("iid",), **{
      "num_seeds": 3, "learning_rates": (0.05, 0.1, 0.2), "tuning_seeds": 2,
      "learning_rate": 0.05, **changes,
  })


def _rows(validation=_VALIDATION, test=_TEST):
  """Returns the table of the tuning runs; every run has 3 rounds, 10 steps and 20 bytes."""
  rows = []
  for method, by_candidate in validation.items():
    for candidate, values in by_candidate.items():
      for seed, value in enumerate(values, start=3):
        keys = {"setting": "iid", "seed": seed, "fold": 0, "candidate": candidate, "method": method}
        found = {"failed": 1} if value is None else {
            "validation_accuracy": value, "accuracy": test[method][candidate][seed - 3],
            "rounds": 3, "steps": 10, "bytes": 20,
        }
        rows += [{**keys, "metric": metric, "value": found[metric]} for metric in found]
  return pd.DataFrame(rows).astype({"value": float})


def _chosen(rows, study=None):
  study = study or _study()
  return tuning.choose(
      rows, study.tuned, study.settings, summary.methods(study.to_json()), runs=2
  )


class ChooseTest(parameterized.TestCase):

  def test_takes_the_best_on_validation_rows_of_those_that_never_failed(self):
    chosen = _chosen(_rows())

    # IFCA's first two are equal; each candidate of `local` failed once.
    self.assertEqual(
        tuning.takers(chosen, "iid"),
        {"0.1": ("kmeans",), "0.05": ("ifca",), "0.2": ("fedavg",)},
    )
    self.assertEqual(
        chosen["end"].dropna().tolist(), ["lowest", "highest"]  # IFCA's and FedAvg's.
    )

  def test_what_a_setting_did_not_need_is_left_out_there(self):
    study, rows = _study(), _rows()
    elsewhere = rows[rows["method"] != "ifca"].assign(setting="rotated")
    chosen = tuning.choose(
        pd.concat([rows, elsewhere]), study.tuned, ("iid", "rotated"),
        summary.methods(study.to_json()), runs=2,
    )
    counts = chosen.groupby("setting")["method"].nunique()
    self.assertEqual(counts.to_dict(), {"iid": 4, "rotated": 3})
    self.assertEqual(
        tuning.takers(chosen, "rotated"), {"0.1": ("kmeans",), "0.2": ("fedavg",)}
    )

  def test_has_all_candidates_with_means_errors_and_costs(self):
    chosen = _chosen(_rows()).set_index(["method", "candidate"])

    self.assertLen(chosen, 4 * 3)
    first, lost = chosen.loc["kmeans", "0.1"], chosen.loc["kmeans", "0.2"]
    self.assertAlmostEqual(first["mean"], (0.8 + 0.6) / 2)
    # The standard deviation of two numbers is their distance over the root of 2.
    self.assertAlmostEqual(first["se"], 0.2 / math.sqrt(2) / math.sqrt(2))
    self.assertEqual([first["runs"], first["failed"]], [2, 0])
    self.assertEqual([lost["runs"], lost["failed"], lost["chosen"]], [2, 1, 0])
    self.assertEqual(
        first[["rounds", "steps", "bytes"]].tolist(), [2 * 3, 2 * 10, 2 * 20]
    )

  def test_test_rows_play_no_part(self):
    turned = {
        method: {name: [one and 1 - one for one in values] for name, values in own.items()}
        for method, own in _TEST.items()
    }
    pd.testing.assert_frame_equal(_chosen(_rows(test=turned)), _chosen(_rows()))

  def test_a_run_without_any_row_failed(self):
    rows = _rows()
    is_lost = (rows["method"] == "fedavg") & (rows["candidate"] == "0.2") & (rows["seed"] == 4)

    self.assertIn("fedavg", tuning.takers(_chosen(rows[~is_lost]), "iid")["0.1"])

  def test_a_run_that_needs_no_matched_control_is_no_failure(self):
    of_matched = {"0.05": (None, 0.4), "0.1": (0.6, 0.6), "0.2": (0.8, 0.8)}
    more = {"fedavg_matched": of_matched}
    rows = _rows({**_VALIDATION, **more}, {**_TEST, **more})
    is_not_needed = (rows["method"] == "fedavg_matched") & (
        (rows["candidate"] == "0.2") & (rows["seed"] == 4) | (rows["candidate"] == "0.1")
    )
    chosen = _chosen(rows[~is_not_needed])
    own = chosen[chosen["method"] == "fedavg_matched"]

    self.assertEqual(own["failed"].tolist(), [1, 0, 0])
    self.assertIn("fedavg_matched", tuning.takers(chosen, "iid")["0.2"])

  def test_words_have_no_range(self):
    rows = _rows({"kmeans": {"weights": (0.1, 0.1), "update": (0.2, 0.2)}}, {
        "kmeans": {"weights": (0.1, 0.1), "update": (0.2, 0.2)}
    })
    study = _study(
        learning_rates=None, tune="representation:weights,update", representation="weights"
    )
    chosen = _chosen(rows, study)

    self.assertEqual(tuning.takers(chosen, "iid"), {"update": ("kmeans",)})
    self.assertTrue(chosen["end"].isna().all())

  def test_how_often_the_choice_is_the_best_on_test_rows(self):
    alike = {"finetuned": dict.fromkeys(("0.05", "0.1", "0.2"), (0.5, 0.5))}  # No such option.
    rows = _rows({**_VALIDATION, **alike}, {**_TEST, **alike})

    (found,) = tuning.on_test(rows, _chosen(rows))

    # K-means loses .8 - .6, IFCA and FedAvg nothing; `local` has no choice.
    self.assertEqual((found["choices"], found["best on test"]), (3, 2))
    self.assertAlmostEqual(found["most lost"], 20)
    self.assertAlmostEqual(found["lost"], 20 / 3)
