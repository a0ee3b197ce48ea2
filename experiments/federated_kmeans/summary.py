"""What the scores say: means and spreads, beside those that the papers print."""

from typing import Any, Mapping

import pandas as pd

from experiment_shell import frames
from experiment_shell import tidy_experiment
from experiments.federated_kmeans import data
from experiments.federated_kmeans import methods

BY_ROUND = "curves"
# How far the inertia is above that of central k-means of the same data and seed.
EXCESS = "over central, %"
_METRICS = [
    "client_ari", "ari", "inertia", "silhouette", "simplified_silhouette", "bytes_down_per_client",
    "bytes_up_per_client",
]
# A fit this much above central k-means has missed clusters, in percent of the inertia.
_MISSED = 1.0
_JUDGED = (methods.DEFAULT, "fkm_lloyd", "fkm", "kfed")

_DATA = pd.DataFrame(
    [
        *((data.grid_name(*one), f"beta {one[0]:g}", *one) for one in data.GRID),
        *((data.extreme_name(noise), f"noise {noise:g}", None, None, noise)
          for noise in data.EXTREME_NOISES),
        *((data.table_name(name), name.replace("_", " ")) for name in data.TABLES),
        (data.REAL, "digits"),
    ],
    columns=["data", "of", "beta", "points", "noise"],
)
# Garst and Reinders: mean adjusted Rand index of 200 runs, averaged over the clients, on the grid
# with noise 1 and 1.5.  The central method does not depend on beta.
_PAPER = {
    "central": {beta: (0.955, 0.725) for beta in data.BETAS},
    "fkm": {0.1: (0.949, 0.697), 1.0: (0.958, 0.707), 10.0: (0.957, 0.709)},
    "kfed": {0.1: (0.690, 0.432), 1.0: (0.729, 0.520), 10.0: (0.852, 0.607)},
}
_PUBLISHED = pd.DataFrame(
    [
        *((data.grid_name(beta, 50, noise), method, value)
          for method, by_beta in _PAPER.items() for beta, values in by_beta.items()
          for noise, value in zip((1.0, 1.5), values)),
        (data.extreme_name(1.0), "fkm", 0.902),
    ],
    columns=["data", "method", "paper"],
)


def _measured(results: pd.DataFrame) -> pd.DataFrame:
  """Returns a row for each data set, seed and method."""
  found = frames.wide(results, ["data", "seed", "method"], _METRICS)
  central = frames.at_reference(found, methods.CENTRAL, ["data", "seed"], "inertia")
  return found.assign(**{EXCESS: 100 * (found["inertia"] / central - 1)})


def _scores(measured: pd.DataFrame) -> pd.DataFrame:
  """Returns means and standard deviations of every data set and method, and the paper's means."""
  groups = measured.groupby(["data", "method"])[[*_METRICS, EXCESS]]
  found = groups.mean().join(groups.std().add_suffix("_sd")).reset_index()
  return _DATA.merge(found, on="data").merge(_PUBLISHED, on=["data", "method"], how="left")


def _shown(scores: pd.DataFrame, figure: str, settings: Mapping[str, Any]) -> pd.DataFrame:
  """Returns the rows that a figure shows, in its order; none if it was not chosen."""
  of_figure = methods.FIGURES[figure] if figure in settings["figures"] else {}
  pairs = [(name, method) for name, compared in of_figure.items() for method in compared]
  return pd.DataFrame(pairs, columns=["data", "method"]).merge(scores, on=["data", "method"])


def _with_ends(rows: pd.DataFrame) -> pd.DataFrame:
  """Returns rows with the mean index, less and plus a deviation; no index exceeds 1."""
  mean, deviation = rows["ari"], rows["ari_sd"]
  return rows.assign(mean=mean, low=mean - deviation, high=(mean + deviation).clip(upper=1))


def _by_round(rows: pd.DataFrame) -> pd.DataFrame:
  """Returns the mean ARI after each round, up to the last of any seed; fits that ended stay."""
  keys = ["data", "method"]
  if not len(rows):
    return _DATA[:0].assign(method="", ari=0.0)
  wide = rows.pivot(index=[*keys, "seed"], columns="round", values="value")
  means = wide.ffill(axis="columns").groupby(keys).mean()
  means = means.where(wide.notna().groupby(keys).any())
  return _DATA.merge(means.melt(ignore_index=False, value_name="ari").dropna().reset_index())


def _missed(measured: pd.DataFrame) -> pd.DataFrame:
  """Returns how many fits on the papers' synthetic data missed clusters."""
  synthetic = {*methods.FIGURES["noise"], *methods.FIGURES["extreme"]}
  judged = measured[measured["data"].isin(synthetic) & measured["method"].isin(_JUDGED)]
  found = judged.groupby("method")[EXCESS].agg(
      fits="size", exceeded=lambda values: (values > _MISSED).sum(), worst="max"
  ).reset_index()
  return frames.in_order(found, method=_JUDGED)


def _headline(missed: pd.DataFrame) -> pd.DataFrame:
  own = missed[missed["method"] == methods.DEFAULT]
  return own.assign(verdict=["some" if count else "none" for count in own["exceeded"]])


def summarise(
    tidy: Mapping[str, pd.DataFrame], document: Mapping[str, Any]
) -> frames.Frames:
  """Returns the frames of the report; they are empty for figures that were not chosen."""
  settings = document["config"]
  measured = _measured(tidy[tidy_experiment.RESULTS])
  scores, missed = _scores(measured), _missed(measured)
  shown = {figure: _shown(scores, figure, settings) for figure in methods.FIGURES}
  noise, sse = _with_ends(shown["noise"]), shown["sse"]
  noise = noise.assign(
      panel=[f"{points:g} points, {of}" for points, of in zip(noise["points"], noise["of"])]
  ).sort_values(["beta", "points"], kind="stable")
  rounds = _shown(_by_round(tidy[BY_ROUND]), "rounds", settings)
  return frames.labelled({
      "headline": _headline(missed),
      "missed": missed,
      "published": scores.dropna(subset="paper"),
      "regular": shown["regular"],
      "noise": noise,
      "rounds": rounds.assign(
          panel=[f"{methods.LABELS[one]}, {of}" for one, of in zip(rounds["method"], rounds["of"])]
      ),
      "extreme": _with_ends(shown["extreme"]),
      "real": shown["real"],
      "sse": frames.wide(
          sse[sse["method"] != methods.CENTRAL], ["method"], column="of", value=EXCESS
      ),
  }, methods.LABELS)


HEADLINES = {
    verdict: count + " of {fits} default fits on the synthetic data exceeded the inertia of "
    f"central k-means with ten restarts by more than {_MISSED:g}%" + " (the worst: {worst:+.2f}%)."
    for verdict, count in (("none", "None"), ("some", "{exceeded}"))
}

_ARI = {"method": "{}", "client_ari": "{:.3f}", "client_ari_sd": "{:.3f}", "ari": "{:.3f}",
        "ari_sd": "{:.3f}", EXCESS: "{:.2f}"}

TABLES = (
    tidy_experiment.Table(
        "missed", "Fits that missed clusters",
        f"Exceeded: the inertia is more than {_MISSED:g}% above that of central k-means with ten "
        "restarts on the same points. Worst: the largest excess, in percent.",
        {"method": "{}", "fits": "{}", "exceeded": "{}", "worst": "{:+.2f}"}, printed=True,
    ),
    tidy_experiment.Table(
        "published", "Beside the paper's numbers",
        "The paper averages the clients' own adjusted Rand indices (client ari), and pools the "
        "points for the central method (ari). Its extreme split has a standard deviation of 0.053.",
        {"data": "{}", "method": "{}", "paper": "{:.3f}", **_ARI}, is_text=True, folded=True,
    ),
    tidy_experiment.Table(
        "regular", "Figure 1: regular grid",
        "Adjusted Rand index, averaged over clients and of all points, with standard deviations.",
        _ARI, by="of",
    ),
    tidy_experiment.Table(
        "extreme", "Figure 4: extreme split",
        "Adjusted Rand index, averaged over clients and of all points, with standard deviations.",
        _ARI, by="of",
    ),
    tidy_experiment.Table(
        "real", "Figure 5: real data",
        "Bytes per client: what it is sent and sends in the best restart's rounds, times the "
        "number of restarts. Rounds that find the columns' scales and the final inertia are not in "
        "it.",
        {
            "method": "{}", "silhouette": "{:.4f}", "silhouette_sd": "{:.4f}",
            "simplified_silhouette": "{:.4f}", "simplified_silhouette_sd": "{:.4f}",
            EXCESS: "{:.2f}", "ari": "{:.3f}", "bytes_down_per_client": "{:,.0f}",
            "bytes_up_per_client": "{:,.0f}",
        },
        printed=True,
    ),
    tidy_experiment.Table(
        "sse", "Child/parent: sums of squared errors, percent over central k-means",
        "The child/parent document has 1498.28 on its own data, and 1362.20 for central k-means: "
        "10.0%.", form="{:.2f}", printed=True,
    ),
)

READING = (
    "The reason to federate is privacy, not traffic: with many columns and few points per client, "
    "a few rounds send more than the points themselves.",
    "The synthetic data have five clients, as in the paper's figures (its text says four). Points "
    "that no client claims go to the nearest one: 94% of them at beta 0.1, 55% at 1 and 1% at 10.",
    "One machine plays the server and the clients here: messages and modulus are real, the secrecy "
    "of a secure sum is not.",
    "Central k-means sees all points. In FKM as printed, clients begin by sending rows. The local "
    "number of clusters of informed k-FED is chosen by the true classes.",
)
