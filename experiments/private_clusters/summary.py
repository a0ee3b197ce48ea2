"""What a simulation says: means over seeds, comparisons with intervals, and its texts.

It compares methods on data whose true groups and exact accuracies are known, so nothing of it is
private.
"""

import dataclasses
import math
from typing import Any, Mapping

import pandas as pd

from experiment_shell import frames
from experiment_shell import tidy_experiment
from experiments.private_clusters import figures
from experiments.private_clusters import released
from fl_clustering.private_clusters import plan as plan_lib

OURS, IFCA, DP_FEDAVG, FEDAVG = "private_ifca", "ifca", "dp_fedavg", "fedavg"
_LABELS = {
    OURS: figures.OURS, IFCA: figures.IFCA, DP_FEDAVG: figures.DP_FEDAVG, FEDAVG: figures.FEDAVG,
}
ARI, ACCURACY, FINETUNED = "ari", "accuracy", "finetuned_accuracy"
PLANNING_NUMBER = "planning_number"
_SCORES = (ACCURACY, FINETUNED, ARI)
# What ours is compared with, and by which score.
_COMPARED = ((DP_FEDAVG, FINETUNED), (IFCA, ACCURACY))
_CASE = ["method", "epsilon"]
_GAIN = {
    "epsilon": "{:g}", PLANNING_NUMBER: "{:.2f}", "seeds": "{}", "lost": "{}",
    **frames.gain_columns(),
}


def _methods(cells: pd.DataFrame) -> pd.DataFrame:
  """Returns means over seeds, a row for each method and epsilon."""
  found = cells.groupby(_CASE, sort=False).agg(
      {PLANNING_NUMBER: "max", **dict.fromkeys(_SCORES, "mean")}
  ).reset_index()
  return found.replace({"epsilon": {math.inf: math.nan}})


def _over_epsilon(results: pd.DataFrame) -> pd.DataFrame:
  """Returns means and ranges of scores over epsilon; what has no budget is the same at each."""
  tried = sorted(set(results["epsilon"]) - {math.inf})
  rows = results[results["metric"].isin(_SCORES)].merge(pd.Series(tried, name="tried"), how="cross")
  rows = rows[(rows["epsilon"] == math.inf) | (rows["epsilon"] == rows["tried"])]
  rows = rows.assign(epsilon=rows["tried"])
  found = frames.spread(rows, ["metric", *_CASE], low="min", high="max")
  found = frames.in_order(found, metric=_SCORES, epsilon=tried)
  return found.assign(metric=found["metric"].str.replace("_", " "))


def _pairs(cells: pd.DataFrame, other: str, score: str) -> pd.DataFrame:
  """Returns our scores, `ours`, and another method's with the same seed, `theirs`."""
  theirs = cells[cells["method"] == other]
  keys = ["seed"] if (theirs["epsilon"] == math.inf).all() else ["seed", "epsilon"]
  pairs = cells[cells["method"] == OURS].merge(
      theirs[[*keys, score]], on=keys, suffixes=("", "_theirs")
  )
  against = f"{_LABELS[other]}: {score}".replace("_", " ")
  return pairs.assign(against=against, ours=pairs[score], theirs=pairs[f"{score}_theirs"])


def _comparisons(cells: pd.DataFrame) -> pd.DataFrame:
  """Returns mean gains at every epsilon, in points, with intervals for all of them together."""
  groups = pd.concat([_pairs(cells, *compared) for compared in _COMPARED]).groupby(
      ["against", "epsilon"], sort=False
  )
  return pd.DataFrame([
      {
          "against": against, "epsilon": epsilon, PLANNING_NUMBER: own[PLANNING_NUMBER].max(),
          "seeds": len(own), "lost": (own["ours"] < own["theirs"]).sum(),
          # No accuracy is below zero or above one.
          **frames.compared(
              own["ours"], own["theirs"], len(groups), scale=100, limits=(-100, 100)
          ),
      }
      for (against, epsilon), own in groups
  ], columns=["against", *_GAIN])


def _of_ours(rows_: pd.DataFrame) -> pd.DataFrame:
  """Returns the rows of private clusters, or of DP-FedAvg where there is one cluster."""
  return rows_[rows_["method"] == (OURS if OURS in rows_["method"].values else DP_FEDAVG)]


def _headline(
    cells: pd.DataFrame, comparisons: pd.DataFrame, num_clusters: int
) -> pd.DataFrame:
  least = _of_ours(cells)[PLANNING_NUMBER].min()
  if least > plan_lib.LARGE_NOISE:
    return pd.DataFrame([{"verdict": "noise", "advice": plan_lib.advice(least, num_clusters)}])
  found = comparisons[comparisons["against"].str.startswith(figures.DP_FEDAVG)]
  return frames.headline(found, seeds=found["seeds"].max())


def _of_one(rows_: pd.DataFrame) -> pd.DataFrame:
  """Returns the rows of one training, as only one would be released: as `SHOWN` says."""
  rows_ = _of_ours(rows_)
  for key in ("epsilon", "seed"):
    rows_ = rows_[rows_[key] == rows_[key].min()]
  return rows_


def summarise(
    tidy: Mapping[str, pd.DataFrame], document: Mapping[str, Any]
) -> frames.Frames:
  """Returns the frames of the report."""
  results = tidy[tidy_experiment.RESULTS]
  cells = frames.wide(results, [*_CASE, "seed"], [*_SCORES, PLANNING_NUMBER])
  comparisons = _comparisons(cells)
  return frames.labelled({
      "headline": _headline(cells, comparisons, document["config"]["num_clusters"]),
      "clusters": released.clusters(_of_one(tidy[released.CLUSTERS])),
      "methods": _methods(cells),
      "comparisons": comparisons,
      "scores": _over_epsilon(results),
      "rounds": _of_one(tidy[released.ROUNDS]),
  }, _LABELS)


# Which training's clusters and rounds there are.
SHOWN = (
    "Of one training: of private clusters if they were trained, of the least epsilon, and of that "
    "its first seed."
)
HEADLINES = {
    "noise": "{advice}",
    "": "After fine-tuning, private clusters are more accurate than DP-FedAvg at {better} of "
    "{cases} values of epsilon, and less accurate at {worse}; unclear: {unclear}; seeds: {seeds}.",
}
TABLES = (
    dataclasses.replace(
        released.CLUSTERS_TABLE,
        title="NOT private, as seeded: clusters as a run would release them",
        caption=f"{SHOWN} {released.CLUSTERS_TABLE.caption}",
    ),
    tidy_experiment.Table(
        "methods", "Simulation, NOT private: means over seeds ({num_seeds})",
        "Accuracies are means over the clients, or over --evaluated_clients of them, on their own "
        "test data.",
        {
            "method": "{}", "epsilon": "{:g}", PLANNING_NUMBER: "{:.2f}",
            **dict.fromkeys(_SCORES, "{:.3f}"),
        },
        printed=True,
    ),
    tidy_experiment.Table(
        "comparisons", "Private clusters against others",
        "Gain: their mean score, less that of the other method with the same seed, in points. "
        "Lost: seeds where it is below zero. The interval from low to high is about other seeds "
        "with these data. Against IFCA without privacy, a gain below zero is what privacy costs. "
        + released.CAVEAT,
        _GAIN, by="against",
    ),
)

READING = (
    "NOT private: accuracies are exact, some methods have no privacy at all, the noise follows "
    "the seed, so that anyone can take it off, and the budgets of several runs add up. A "
    "simulation on the data of real clients must not be published.",
    "Fine-tuned: every client has gone on training its model on its own data, which spends "
    "nothing. Compare like with like: fine-tuned with fine-tuned.",
    "The planning number is the noise of the whole training, relative to the signal; it is known "
    "before a run.",
    f"An interval of a gain is Student's t of the paired differences. {frames.READING_OF_GAINS} A "
    "single seed tells nothing about chance.",
)
