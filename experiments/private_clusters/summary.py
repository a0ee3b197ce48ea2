"""What a simulation says: means over seeds, comparisons with intervals, and its texts.

It compares methods on data whose true groups and exact accuracies are known, so nothing of it is
private.
"""

import dataclasses
import math
from typing import Any, Mapping

import pandas as pd

from clustering_basics import intervals
from experiment_shell import tidy_experiment
from experiments.private_clusters import figures
from experiments.private_clusters import released
from fl_clustering.private_clusters import plan as plan_lib

OURS, IFCA, DP_FEDAVG, FEDAVG = "private_ifca", "ifca", "dp_fedavg", "fedavg"
_LABELS = {
    OURS: figures.OURS, IFCA: figures.IFCA, DP_FEDAVG: figures.DP_FEDAVG, FEDAVG: figures.FEDAVG,
}
ARI, ACCURACY, FINETUNED = "adjusted_rand_index", "accuracy", "finetuned_accuracy"
PLANNING_NUMBER = "planning_number"
# From a score to its heading.
_SCORES = {ACCURACY: "accuracy", FINETUNED: "fine-tuned accuracy", ARI: "adjusted Rand index"}
# What ours is compared with, and by which score.
_COMPARED = ((DP_FEDAVG, FINETUNED), (IFCA, ACCURACY))
_CASE = ["method", "epsilon"]


def _wide(results: pd.DataFrame) -> pd.DataFrame:
  """Returns a row for each cell, in the order of measuring; NaN for what it has no score of."""
  keys = [*_CASE, "seed"]
  found = results.pivot(index=keys, columns="metric", values="value")
  order = pd.MultiIndex.from_frame(results[keys].drop_duplicates())
  return found.reindex(index=order, columns=[*_SCORES, PLANNING_NUMBER]).reset_index()


def _methods(cells: pd.DataFrame) -> pd.DataFrame:
  """Returns means over seeds, a row for each method and epsilon."""
  found = cells.groupby(_CASE, sort=False).agg(**{
      "planning number": (PLANNING_NUMBER, "max"),
      **{heading: (score, "mean") for score, heading in _SCORES.items()},
  }).reset_index()
  return found.assign(
      method=found["method"].map(_LABELS), epsilon=found["epsilon"].replace(math.inf, math.nan)
  )


def _over_epsilon(cells: pd.DataFrame) -> pd.DataFrame:
  """Returns means and ranges of scores over epsilon; what has no budget is the same at each."""
  tried = pd.DataFrame({"tried": sorted(set(cells["epsilon"]) - {math.inf})})
  rows_ = cells.melt([*_CASE, "seed"], list(_SCORES), "score").dropna().merge(tried, how="cross")
  rows_ = rows_[(rows_["epsilon"] == math.inf) | (rows_["epsilon"] == rows_["tried"])]
  found = rows_.groupby(["score", "method", "tried"], sort=False)["value"].agg(
      mean="mean", low="min", high="max"
  ).reset_index().rename(columns={"tried": "epsilon"})
  order = {score: place for place, score in enumerate(_SCORES)}
  found = found.sort_values(["score", "epsilon"], key=lambda one: one.replace(order), kind="stable")
  return found.assign(method=found["method"].map(_LABELS), score=found["score"].map(_SCORES))


def _pairs(cells: pd.DataFrame, other: str, score: str) -> pd.DataFrame:
  """Returns our score less another method's with the same seed, in points."""
  theirs = cells[cells["method"] == other]
  keys = ["seed"] if (theirs["epsilon"] == math.inf).all() else ["seed", "epsilon"]
  pairs = cells[cells["method"] == OURS].merge(
      theirs[[*keys, score]], on=keys, suffixes=("", " of theirs")
  )
  gain = 100 * (pairs[score] - pairs[f"{score} of theirs"])
  return pairs.assign(against=f"{_LABELS[other]}: {_SCORES[score]}", gain=gain)


def _comparisons(cells: pd.DataFrame) -> pd.DataFrame:
  """Returns mean gains at every epsilon, with intervals for all of them together."""
  pairs = pd.concat([_pairs(cells, *compared) for compared in _COMPARED])
  found = pairs.groupby(["against", "epsilon"], sort=False).agg(**{
      "planning number": (PLANNING_NUMBER, "max"), "seeds": ("seed", "size"),
      "lost": ("gain", lambda gains: int((gains < 0).sum())), "gain": ("gain", "mean"),
      "gains": ("gain", list),
  }).reset_index()
  ends = [intervals.of_values(gains, len(found)) for gains in found["gains"]]
  low, high = pd.DataFrame(ends, columns=["low", "high"], dtype=float).T.to_numpy()
  # No accuracy is below zero or above one.
  return found.drop(columns="gains").assign(
      low=low.clip(min=-100), high=high.clip(max=100),
      verdict=list(map(intervals.verdict, low, high)),
  )


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
  row = {
      "cases": len(found), **intervals.counts(found["verdict"]), "seeds": found["seeds"].max()
  }
  return pd.DataFrame([row] if len(found) else [])


def _of_one(rows_: pd.DataFrame) -> pd.DataFrame:
  """Returns the rows of one training, as only one would be released: as `SHOWN` says."""
  rows_ = _of_ours(rows_)
  for key in ("epsilon", "seed"):
    rows_ = rows_[rows_[key] == rows_[key].min()]
  return rows_


def summarise(
    tidy: Mapping[str, pd.DataFrame], document: Mapping[str, Any]
) -> dict[str, pd.DataFrame]:
  """Returns the frames of the report."""
  cells = _wide(tidy[tidy_experiment.RESULTS])
  comparisons = _comparisons(cells)
  inputs = document["inputs"]
  return {
      "headline": _headline(cells, comparisons, document["config"]["num_clusters"]),
      "clusters": released.clusters(_of_one(tidy[released.CLUSTERS])),
      "methods": _methods(cells),
      "comparisons": comparisons,
      "data": pd.DataFrame([
          {"of": part, "name": name, "value": str(value)}
          for part, of_part in inputs.items() for name, value in of_part.items() if value
      ]),
      "scores": _over_epsilon(cells),
      "rounds": _of_one(tidy[released.ROUNDS]),
  }


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
_SCORE = "{:.3f}"
_POINTS = "{:+.1f}"
TABLES = (
    dataclasses.replace(
        released.CLUSTERS_TABLE,
        title="NOT private, as seeded: clusters as a run would release them",
        caption=f"{SHOWN} {released.CLUSTERS_TABLE.caption}",
    ),
    tidy_experiment.Table(
        "methods", "Simulation, NOT private: exact means over seeds ({num_seeds})",
        "Accuracies are means over the clients, on their own test data.",
        {
            "method": "{}", "epsilon": "{:g}", "planning number": "{:.2f}",
            **{heading: _SCORE for heading in _SCORES.values()},
        },
        printed=True,
    ),
    tidy_experiment.Table(
        "comparisons", "Private clusters against others",
        "Gain: their mean score, less that of the other method with the same seed, in points. "
        "Lost: seeds where it is below zero. The interval from low to high is about other seeds "
        "with these data, and there is none of fewer than three. Against IFCA without privacy, a "
        "gain below zero is what privacy costs. "
        + released.CAVEAT,
        {
            "epsilon": "{:g}", "planning number": "{:.2f}", "seeds": "{}", "lost": "{}",
            "gain": _POINTS, "low": _POINTS, "high": _POINTS, "verdict": "{}",
        },
        by="against",
    ),
    tidy_experiment.Table("data", "The data", "What was simulated.", is_text=True, folded=True),
)

READING = (
    "NOT private: accuracies are exact, some methods have no privacy at all, the noise follows "
    "the seed, so that anyone can take it off, and the budgets of several runs add up. A "
    "simulation on the data of real clients must not be published.",
    "Fine-tuned: every client has gone on training its model on its own data, which spends "
    "nothing. Compare like with like: fine-tuned with fine-tuned.",
    "The planning number is the noise of the whole training, relative to the signal; it is known "
    "before a run.",
    "Intervals (Student's t of paired differences) hold for all comparisons of the report "
    "together, with probability 95 %. Unclear: the interval has zero in it, or there is none. A "
    "single seed tells nothing about chance.",
)
