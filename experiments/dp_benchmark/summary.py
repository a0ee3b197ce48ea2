"""What the losses say: means, spreads, comparisons with intervals, and published figures beside.

The peer is google/differential-privacy.  Its losses were measured once with its
`learning/clustering` at commit b5b0286e, on data sets prepared as `data.py` prepares
them, as means over at least five runs.  The synthetic points were another draw of the
same mixture.
"""

import math
from typing import Any, Mapping, Sequence

import pandas as pd

from experiment_shell import frames
from experiment_shell import tidy_experiment
from experiments.dp_benchmark import methods

LOSS = "loss_per_point"
PEER = "google/differential-privacy"
# Our method, which all others are compared with.
_OURS = "refine"
# The privacy parameters of the peer's losses.
_PEER_EPSILON, _PEER_DELTA = 1.0, 1e-6
# Data set, number of points, k and the peer's loss.
_PEER_LOSSES = pd.DataFrame(
    [
        ("synthetic", 100_000, 16, 0.563),
        ("synthetic", 100_000, 64, 0.0756),
        ("letter", 20_000, 16, 0.0985),
        ("letter", 20_000, 64, 0.0778),
        ("sklearn_digits", 1_797, 16, 0.457),
        ("sklearn_digits", 1_797, 64, 0.486),
    ],
    columns=["dataset", "num_points", "k", "published"],
)
_CASE = ["dataset", "k", "epsilon"]
_GAIN = {"method": "{}", "k": "{}", "epsilon": "{:g}", **frames.gain_columns()}


def _losses(results: pd.DataFrame) -> pd.DataFrame:
  """Returns mean and spread of the losses of every case and method, in the order of measuring."""
  found = frames.spread(
      results, ["dataset", "method", "k", "epsilon"], worst="max", losses=list,
      low=lambda values: values.quantile(0.25), high=lambda values: values.quantile(0.75),
  )
  without = frames.at_reference(found, methods.NOT_PRIVATE, ["dataset", "k"], "mean")
  return found.assign(of_not_private=found["mean"] / without)


def _is_private(losses: pd.DataFrame) -> pd.Series:
  return losses["method"] != methods.NOT_PRIVATE


def _comparisons(losses: pd.DataFrame, datasets: Mapping[str, Any]) -> pd.DataFrame:
  """Returns our method compared with every other private one, in every case of both."""
  ours = losses[losses["method"] == _OURS]
  others = losses[_is_private(losses) & (losses["method"] != _OURS)]
  both = others.merge(ours, on=_CASE, suffixes=("", "_of_ours"))
  return pd.DataFrame([
      {
          **row, "data": "new data" if datasets[row["dataset"]]["is_new"] else "known data",
          **frames.compared(
              row["losses"], row["losses_of_ours"], len(both), in_pairs=False,
              scale=100 / row["mean"], limits=(-math.inf, 100),  # No loss is below zero.
          ),
      }
      for row in both.to_dict("records")
  ], columns=["dataset", "data", *_GAIN])


def _opponents(comparisons: pd.DataFrame) -> pd.DataFrame:
  """Returns how our method did against each other one, on known and on new data."""
  return pd.DataFrame([
      {
          "method": method, "data": data, **frames.counts(own),
          "smaller_mean": (own["gain"] > 0).sum(), "median_gain": own["gain"].median(),
      }
      for (method, data), own in comparisons.groupby(["method", "data"], sort=False)
  ])


def _over(
    losses: pd.DataFrame, column: str, settings: Sequence[tuple[int, float]]
) -> pd.DataFrame:
  """Returns the rows at pairs of k and epsilon, by the column that differs between the pairs.

  What is not private has the same losses at every epsilon.
  """
  pairs = pd.DataFrame(settings, columns=["k", "epsilon"]).astype({"epsilon": float})
  pairs = pairs.drop_duplicates()
  private = losses[_is_private(losses)].merge(pairs, on=["k", "epsilon"])
  other = losses[~_is_private(losses)].drop(columns="epsilon").merge(pairs, on="k")
  found = pd.concat([other, private])[["dataset", "method", "k", "epsilon", "mean", "low", "high"]]
  return frames.in_order(
      found.sort_values(column, kind="stable"), dataset=losses["dataset"].unique()
  )


def _published(
    losses: pd.DataFrame, settings: Mapping[str, Any], datasets: Mapping[str, Any]
) -> pd.DataFrame:
  """Returns the peer's losses on the same data with the same privacy."""
  same = (settings["fixed_epsilon"], settings["delta"]) == (_PEER_EPSILON, _PEER_DELTA)
  sizes = {name: one["num_points"] for name, one in datasets.items()}
  peer = _PEER_LOSSES[
      (_PEER_LOSSES["dataset"].map(sizes) == _PEER_LOSSES["num_points"])
      & _PEER_LOSSES["k"].isin(settings["k_to_try"]) & same
  ]
  ours = losses[(losses["method"] == _OURS) & (losses["epsilon"] == settings["fixed_epsilon"])]
  found = peer.merge(ours[["dataset", "k", "mean"]], on=["dataset", "k"], how="left")
  return found.rename(columns={"mean": "ours"}).assign(ratio=found["mean"] / found["published"])


def _optimum(losses: pd.DataFrame, datasets: Mapping[str, Any]) -> pd.DataFrame:
  """Returns losses divided by the best one that is known, at the k for which it is."""
  known = pd.DataFrame([
      {"dataset": name, "unit_points": one["unit_points"], **one["optimum"]}
      for name, one in datasets.items() if one["optimum"]
  ], columns=["dataset", "unit_points", "k", "loss"])
  found = losses[_is_private(losses)].merge(known, on=["dataset", "k"])
  return found.assign(
      **{name: found[name] / found["loss"] for name in ("mean", "sd", "worst")}
  ).sort_values(["dataset", "epsilon"], kind="stable")[
      ["dataset", "unit_points", "epsilon", "method", "mean", "sd", "worst"]
  ]


def summarise(
    tidy: Mapping[str, pd.DataFrame], document: Mapping[str, Any]
) -> frames.Frames:
  """Returns the frames of the report."""
  settings, datasets = document["config"], document["inputs"]["datasets"]
  losses = _losses(tidy[tidy_experiment.RESULTS])
  comparisons = _comparisons(losses, datasets)
  over_k = _over(losses, "k", [(k, settings["fixed_epsilon"]) for k in settings["k_to_try"]])
  over_epsilon = _over(
      losses, "epsilon", [(settings["fixed_k"], epsilon) for epsilon in settings["epsilon_to_try"]]
  )
  published = _published(losses, settings, datasets)
  peer = published.rename(columns={"published": "mean"}).assign(method=PEER)
  over_k = pd.concat([over_k, peer[["dataset", "method", "k", "mean"]]])
  central = comparisons[comparisons["method"].isin(methods.CENTRAL)]
  return frames.labelled({
      "headline": frames.headline(central, runs=settings["runs"]),
      "opponents": _opponents(comparisons),
      "over_k": frames.wide(
          over_k.assign(k=over_k["k"].map("k={}".format)), ["dataset", "method"], column="k",
          value="mean",
      ),
      "published": published if _OURS in losses["method"].values else published[:0],
      "optimum": _optimum(losses, datasets),
      "comparisons": comparisons,
      "losses": losses.drop(columns="losses"),
      "datasets": pd.DataFrame([{"dataset": name, **one} for name, one in datasets.items()]),
      "loss_over_k": over_k,
      # A single epsilon makes no line.
      "loss_over_epsilon": over_epsilon if len(settings["epsilon_to_try"]) > 1 else over_epsilon[:0],
  }, methods.LABELS)


HEADLINES = {
    "": "Split and refine loses less than other central private methods in {better} of {cases} "
    "comparisons, and more in {worse}; unclear: {unclear}; runs: {runs}.",
}

_LOSS = "{:#.3g}"
TABLES = (
    tidy_experiment.Table(
        "opponents", "Split and refine against the others",
        "Gain: by how many percent its mean loss is smaller than the other method's. Better and "
        "worse: the interval of the gain leaves out zero. New data were never used to choose the "
        "constants of split and refine, and are no mixture of Gaussians.",
        {
            "method": "{}", "cases": "{}", "smaller_mean": "{}", "better": "{}", "unclear": "{}",
            "worse": "{}", "median_gain": "{:+.1f}",
        },
        by="data",
    ),
    tidy_experiment.Table(
        "over_k",
        "Mean loss over k (epsilon {fixed_epsilon:g}, delta {delta:g}, runs: {runs}; seeded noise, "
        "for benchmarks only)",
        "The nearer to k-means without privacy, the less privacy costs.",
        form=_LOSS, by="dataset", printed=True,
    ),
    tidy_experiment.Table(
        "published", "Beside google/differential-privacy",
        "Its learning/clustering at commit b5b0286e was not run here: its losses were measured "
        "once, on data sets prepared in the same way, as means over at least five runs; the "
        "synthetic points are another draw.",
        {"dataset": "{}", "k": "{}", "published": _LOSS, "ours": _LOSS, "ratio": "{:.3f}"},
    ),
    tidy_experiment.Table(
        "optimum", "Beside the best loss that is known",
        "Loss, divided by that of k-means without privacy from the true means, on the mixtures of "
        "Scott, Lampert, Saulpic (ICML 2025). Privacy protects so many points together. Their "
        "method starts from data that the server has; here it has none.",
        {
            "unit_points": "{}", "epsilon": "{:g}", "method": "{}", "mean": "{:.4f}",
            "sd": "{:.4f}", "worst": "{:.4f}",
        },
        by="dataset",
    ),
    tidy_experiment.Table(
        "comparisons", "All comparisons",
        "Split and refine against every other private method. Gain, and the ends of its interval, "
        "in percent of the other's mean loss.",
        _GAIN, by="dataset", folded=True,
    ),
    tidy_experiment.Table(
        "losses", "All losses",
        "Mean, standard deviation and worst of the runs; the mean in multiples of that of k-means "
        "without privacy.",
        {
            "method": "{}", "k": "{}", "epsilon": "{:g}", "mean": _LOSS, "sd": _LOSS,
            "worst": _LOSS, "of_not_private": "{:.2f}",
        },
        by="dataset", folded=True,
    ),
    tidy_experiment.Table(
        "datasets", "Data sets",
        "Epsilon is for so many points together (unit_points). Clients are those of the federated "
        "methods.",
        {
            "dataset": "{}", "num_points": "{:,}", "dim": "{}", "unit_points": "{:,}",
            "num_clients": "{:,}", "source": "{}",
        },
        is_text=True,
    ),
)

READING = (
    "Loss is the mean squared distance of the points to the nearest center. An interval of a gain "
    f"(Welch's t) is about other runs on the same data. {frames.READING_OF_GAINS}",
    "Nothing in this folder is private: losses are computed exactly, and the noise is seeded, for "
    "benchmarks only. All data sets but the synthetic ones are centered at their mean and divided "
    "by their largest norm, which is not private either. The methods treat the resulting radius "
    "of 1 as public.",
    "scikit-learn's k-means is the best of ten starts. It has no privacy and shows what could be "
    "reached.",
    "The federated methods are split and refine on secure sums over the clients. Where privacy is "
    "for a point, they find the same centers as the central form with the same noise, bit for "
    "bit, however the points are split over clients; here every run has its own noise. Where "
    "privacy is for a client, the central methods get the epsilon of one point at which all "
    "points of a client together have the stated epsilon, and their noise grows with the number "
    "of points; the federated methods bound the sums of a client as a whole, and their noise "
    "grows with its root.",
    "dp-clustering-icml17 (Balcan et al., ICML 2017), which Google's benchmarks include, is left "
    "out: it is for pure epsilon, with delta = 0.",
)
