"""What the numbers say: scores over the seeds, gains with intervals, weights, and what is drawn."""

from typing import Any, Mapping, Sequence

import pandas as pd

from experiment_shell import frames
from experiment_shell import tidy_experiment
from experiments.multi_view import data as data_lib
from experiments.multi_view import methods
from experiments.multi_view import simulated_dha
from experiments.own_tables import confusion
from fl_clustering.points import privacy

WEIGHTS, POINTS = "view_weights", "points"
# The partition of a central method, which has no clients.
POOLED = "pooled"
_SCORES = ("nmi", "ari")
_SINGLE = "single_view"
# What the federated fit with equal weights is compared with.  The central one is the same fit.
_OTHERS = (_SINGLE, "concatenated", "local_only", "mvkm", "regret")
# The rules whose fits are drawn.
_DRAWN = {rule: methods.RULES[rule] for rule in (methods.OURS, "mvkm")}


def _text(values: pd.Series) -> str:
  """Returns mean and standard deviation; of a single value, that alone."""
  return f"{values.mean():.3f}" + (f" ± {values.std():.3f}" if len(values) > 1 else "")


def _texts(rows: pd.DataFrame, index: Sequence[str], columns: Sequence[str]) -> pd.DataFrame:
  """Returns means and deviations over the seeds, by the rows' `column`, in these orders."""
  texts = rows.groupby([*index, "column"], sort=False)["value"].agg(_text).reset_index()
  return frames.wide(texts, index, columns, column="column")


def _best_views(results: pd.DataFrame) -> dict[str, str]:
  """Returns the view of every data set on which k-means has the largest mean NMI."""
  alone = results[(results["method"] == _SINGLE) & (results["metric"] == "nmi")]
  means = alone.groupby(["dataset", "view"], sort=False)["value"].mean()
  return dict(means.groupby("dataset", sort=False).idxmax().tolist())


def _everywhere(results: pd.DataFrame, best: Mapping[str, str]) -> pd.DataFrame:
  """Returns the numbers of every method at every partition; of single views, those of the best."""
  rows = results[(results["method"] != _SINGLE) | (results["view"] == results["dataset"].map(best))]
  is_pooled = rows["partition"] == POOLED
  partitions = rows.loc[~is_pooled, ["dataset", "partition"]].drop_duplicates()
  pooled = rows[is_pooled].drop(columns="partition").merge(partitions, on="dataset")
  return pd.concat([pooled, rows[~is_pooled]], ignore_index=True)


def _at_last(rows: pd.DataFrame, partitions: Mapping[str, str]) -> pd.DataFrame:
  """Returns the rows at the last partition of every data set, which is the most skewed."""
  return rows[rows["partition"] == rows["dataset"].map(partitions)]


def _scores(rows: pd.DataFrame, best: Mapping[str, str]) -> pd.DataFrame:
  """Returns a row for every data set and method."""
  rows = rows[rows["metric"].isin(_SCORES)]
  rows = rows.assign(column=rows["metric"] + ", " + rows["partition"])
  columns = [
      f"{metric}, {partition}" for partition in rows["partition"].unique() for metric in _SCORES
  ]
  found = _texts(rows, ["dataset", "method"], columns)
  rows_of = list(map(_method, found["dataset"], found["method"]))
  found.insert(2, "points", [one.place for one in rows_of])
  for place, metric in enumerate(_SCORES):
    claims = [one.claim and one.claim[place] for one in rows_of]
    found.insert(3 + place, f"{metric} claimed", claims)
  return found.assign(method=[
      one.label + (f" ({best[dataset]})" if one.by_view else "")
      for dataset, one in zip(found["dataset"], rows_of)
  ])


def _method(dataset: str, method: str) -> methods.Method:
  is_demonstration = dataset == data_lib.DEMONSTRATION
  return (simulated_dha.METHODS if is_demonstration else methods.METHODS)[method]


def _gains(rows: pd.DataFrame, datasets: Sequence[str]) -> pd.DataFrame:
  """Returns how far the ARI of equal weights is above that of each other method."""
  rows = rows[(rows["metric"] == "ari") & rows["dataset"].isin(datasets)]
  ari = frames.wide(rows, ["dataset", "seed"], column="method")
  return pd.DataFrame([
      {
          "dataset": dataset, "method": methods.METHODS[method].label,
          "points": methods.METHODS[method].place, "other": own[method].mean(),
          "ours": own[methods.OURS].mean(),
          **frames.compared(own[methods.OURS], own[method], len(datasets) * len(_OTHERS)),
      }
      for dataset, own in ari.groupby("dataset", sort=False) for method in _OTHERS
  ])


def _views(results: pd.DataFrame, weights: pd.DataFrame) -> pd.DataFrame:
  """Returns a row for every view: what it shows alone, and its weights."""
  alone = results[(results["method"] == _SINGLE) & results["metric"].isin(_SCORES)]
  alone = alone.assign(column=alone["metric"] + " alone")
  learnt = weights[(weights["method"] != methods.OURS) & weights["method"].isin(methods.RULES)]
  learnt = learnt.assign(
      view=learnt["weighed"],
      column=learnt["method"].map(methods.RULES) + ", " + learnt["partition"],
  )
  rows = pd.concat([alone, learnt])
  return _texts(rows, ["dataset", "view"], rows["column"].unique())


def _confusion(points: pd.DataFrame) -> pd.DataFrame:
  """Returns the points of every class in every cluster, with the first seed."""
  rows = points[points["method"].isin(_DRAWN)]
  rows = rows[rows["seed"] == rows.groupby("dataset")["seed"].transform("min")]
  found = []
  for dataset, of_data in rows.groupby("dataset", sort=False):
    for rule, label in _DRAWN.items():
      own = of_data[of_data["method"] == rule]
      counts = own.pivot(index="class", columns="cluster", values="value").rename(index=str)
      found.append(confusion.frame(counts).assign(panel=f"{dataset}\n{label}"))
  return pd.concat(found) if found else pd.DataFrame()


def summarise(
    tidy: Mapping[str, pd.DataFrame], document: Mapping[str, Any]
) -> frames.Frames:
  """Returns the frames of the report."""
  results, datasets = tidy[tidy_experiment.RESULTS], document["inputs"]["datasets"]
  best = _best_views(results)
  rows = _everywhere(results, best)
  partitions = dict(zip(rows["dataset"], rows["partition"]))
  gains = _gains(_at_last(rows, partitions), list(best))
  weights, points = (
      tidy[name][tidy[name]["dataset"].isin(datasets)] for name in (WEIGHTS, POINTS)
  )
  return frames.labelled({
      "headline": frames.headline(
          gains, seeds=results.loc[results["dataset"].isin(best), "seed"].nunique()
      ),
      "scores": _scores(rows, best),
      "gains": gains,
      "views": _views(results, weights),
      "datasets": pd.DataFrame([
          {"dataset": name, **one, "views": ", ".join(one["views"])}
          for name, one in datasets.items()
      ]),
      "confusion": _confusion(_at_last(points, partitions)),
  }, methods.RULES)


HEADLINES = {
    "": "Federated multi-view k-means with equal weights finds the known classes better than other "
    "methods in {better} of {cases} comparisons, and worse in {worse}; unclear: {unclear}; seeds: "
    "{seeds}.",
}

TABLES = (
    tidy_experiment.Table(
        "scores", "Agreement with the known classes, mean ± deviation (seeds: {num_seeds})",
        "NMI is the normalised mutual information of clusters and classes, ARI the adjusted Rand "
        "index: 1 where they agree, and about 0 for ARI by chance. Central methods see all points "
        "in one place, which no federated method may. Local ones see one client's points at a "
        "time, and the mean counts a client by its points. The best single view is chosen by its "
        "NMI, which needs the classes.",
        by="dataset", printed=True,
    ),
    tidy_experiment.Table(
        "gains", "Federated with equal weights against the others",
        "Gain: by how much its mean ARI is above the other method's, of several partitions with "
        "clients of the most skewed one. The interval (Student's t) is about other seeds on the "
        f"same data, and pairs the runs with the same seed. {frames.READING_OF_GAINS}",
        {
            "method": "{}", "points": "{}", "other": "{:.3f}", "ours": "{:.3f}",
            **frames.gain_columns("{:+.3f}"),
        },
        by="dataset",
    ),
    tidy_experiment.Table(
        "views", "The views",
        "Alone: k-means on the view alone. The weights are those of the rules that learn them; "
        "equal ones are one over the number of views. The paper's rule rewards what is easy to "
        "compress, which need not be what shows the clusters.",
        by="dataset",
    ),
    tidy_experiment.Table(
        "datasets", "Data sets", "",
        {
            "dataset": "{}", "num_points": "{:,}", "num_clusters": "{}", "views": "{}",
            "source": "{}",
        },
        is_text=True,
    ),
)

READING = (
    "Data sets are split over clients IID and by Dirichlet label skew, as the settings say. One "
    "federated round equals exactly one iteration over all points.",
    "Of simulated_dha, the claims are what the tutorial prints of its own local and federated "
    f"programs, with seed {simulated_dha.SOURCE_SEED}. Its clusters are so far apart that data "
    "like these can't tell a good method from a bad one if plain k-means has 1.000.",
    "In each round, a client sends integers: sums over its points for every cluster and view. The "
    "first centers and the columns' means and deviations come from such sums, too. The integers "
    "are added up by a secure sum, which one machine can only simulate.",
    privacy.EXACT_TOTALS,
    "The method can add noise to the totals, with a stated (epsilon, delta) per point. This "
    "experiment does not use it.",
)
