"""What a run found: gains with verdicts, curves, clusters, as the frames of its report."""

from typing import Any, Mapping, Sequence

import pandas as pd

from clustering_basics import intervals
from experiment_shell import figure_style
from experiment_shell import frames as frames_lib
from experiment_shell import tidy_experiment
from experiments.three_phase_emnist import report
from fl_clustering.methods import registry

# The tables of a run beside the results, and its files.
CURVES, CLIENTS, EXAMPLES, WARNINGS = "curves", "clients", "examples", "warnings"
NUM_CLUSTERS, RECOVERY, DISTANCES = "num_clusters", "group_recovery", "distances"
PROFILES, WEIGHTS, TENSORBOARD = "profiles", "client_weights.npz", "tensorboard"
# Phases of `clients.csv`, beside phase 1: with the models of phase 2, and those of phase 3.
CLUSTER, EVALUATE, NEW_CLIENTS = "cluster", "evaluate", "new_clients"
OWN_WEIGHTS = "own_weights"  # As a method there: every client's own, after phase 1.
SAVED = "saved"  # The metric of the method whose models are saved.

TRUE_GROUPS, _EVERYONE = "true groups", "all clients"
# Rows of a table on the page, and clients of a cluster that are named there.
_MOST_ROWS, _MOST_NAMED = 100, 4
# Of more clients, so many are shown by their labels, evenly spaced by size.
MOST_BARS = 40
_OVER = {"": "over FedAvg", "finetuned_": "over fine-tuning"}
_CONTROLS = ("training everyone together (FedAvg)", "fine-tuning at every client")
_RELATIONS = {
    intervals.BETTER: "is better than", intervals.WORSE: "is worse than",
    intervals.UNCLEAR: "can't be told from",
}
_ALL = "all runs"
# Frames whose methods have their own names, for their looks.
_DRAWN = ("headline", "learning_curves", "accuracy_by_cost", "client_accuracy")
_SEEN_WEIGHTS = (
    "When phase 1 ends, every client's own model weights in the clear; weights can reveal a "
    "client's data."
)
_SEEN_SKETCHES = (
    "When phase 1 ends, a sketch of every client in the clear: numbers that say how its features "
    "and labels go together."
)


def methods(results: pd.DataFrame, of_clients: pd.DataFrame) -> pd.DataFrame:
  """Returns the metrics of methods as a whole in columns, in the order of the report.

  Beside those of `rows.py` these are the steps as a multiple of those of FedAvg, and how many
  clients have a higher and a lower accuracy than under FedAvg.
  """
  of_all = results[results["cluster"].isna()]
  found = frames_lib.wide(of_all, ["method"]).set_index("method")
  found = found.loc[registry.ordered(found.index)]
  found["of FedAvg"] = found["steps"] / found.loc[registry.FEDAVG, "steps"]
  others = of_clients[of_clients["method"] != registry.FEDAVG]
  more = others["accuracy"] - frames_lib.at_reference(
      of_clients, registry.FEDAVG, ["client"], "accuracy"
  )
  counts = others.assign(higher=more > 0, lower=more < 0).groupby("method")
  return found.join(counts[["higher", "lower"]].sum())


def _shown(wide: pd.DataFrame, table: tidy_experiment.Table) -> pd.DataFrame:
  """Returns the columns of a table, of the methods that have one of them."""
  found = wide.reindex(columns=[name for name in table.columns if name != "method"])
  return found.dropna(how="all").reset_index()


def _gains(wide: pd.DataFrame) -> pd.DataFrame:
  """Returns every gain in points, with its interval and its verdict."""
  ends = {"gain": "gain", "low": "gain_low", "high": "gain_high", "detectable": "gain_detectable"}
  found = pd.concat(
      wide.reindex(columns=[part + name for name in ends.values()]).set_axis(
          list(ends), axis="columns"
      ).dropna(how="all").assign(over=over) for part, over in _OVER.items()
  ).reset_index()
  return found.assign(verdict=list(map(intervals.verdict, found["low"], found["high"])))


def _comparison(gain: Any, control: str) -> str:
  """Returns what a row of `_gains` says of a method and a control, in a sentence."""
  if gain.low != gain.low:  # As with one client alone.
    return f"It is beside {control}: {gain.gain:+.1f} points (no interval)."
  ends = f"{gain.low:+.1f} to {gain.high:+.1f}"
  return f"It {_RELATIONS[gain.verdict]} {control}: {gain.gain:+.1f} points ({ends})."


def _headline(wide: pd.DataFrame, gains: pd.DataFrame) -> pd.DataFrame:
  """Returns the best of the methods that group, with its gains."""
  groupings = list(filter(registry.groups, wide.index))
  if not groupings:
    return pd.DataFrame([{"verdict": "none"}])
  best = wide.loc[groupings, "accuracy"].idxmax()
  of_best = gains[gains["method"] == best]  # Over the controls that the run has.
  names = [part + name for part in _OVER for name in ("gain", "gain_low", "gain_high")]
  return pd.DataFrame([{
      "method": registry.label(best),
      "comparisons": " ".join(map(_comparison, of_best.itertuples(), _CONTROLS)),
      **wide.reindex(columns=["accuracy", *names]).loc[best].dropna(),
  }])


def rounds_before(method: str, num_rounds: int, pretrain_rounds: int, cluster_rounds: int) -> int:
  """Returns how many rounds of training came before a method's own.

  A method that does not build on phase 1 has rounds in place of those of phase 1.
  """
  if method == registry.FEDAVG_MATCHED:
    return pretrain_rounds + cluster_rounds
  if method == registry.PRETRAIN or num_rounds == pretrain_rounds + cluster_rounds:
    return 0
  return pretrain_rounds


def curves(rounds: pd.DataFrame, settings: Mapping[str, Any]) -> pd.DataFrame:
  """Returns every round of phase 1 and of the methods, ascending.

  Columns are `method`, `round`, which counts from the first round of phase 1, and the metrics of
  all clusters together, with costs of everything until then.
  """
  found = frames_lib.wide(rounds[rounds["cluster"].isna()], ["method", "round"])
  found["round"] = found["round"].astype(int)
  for method, own in found.groupby("method")["round"]:
    found.loc[own.index, "round"] += rounds_before(
        method, own.max(), settings["pretrain_rounds"], settings["cluster_rounds"]
    )
  return frames_lib.in_order(found, method=registry.ordered(found["method"].unique()))


def _learning_curves(found: pd.DataFrame, settings: Mapping[str, Any]) -> pd.DataFrame:
  # Nobody has trained a model in round 0, whose accuracy would make all others look alike.
  start = settings["pretrain_rounds"]
  panels = (
      ("mean over the clients, both phases", "accuracy", 1),
      ("mean over the clients, phase 2 enlarged", "accuracy", start),
      ("10th percentile of the clients, both phases", "accuracy_p10", 1),
  )
  return pd.concat(
      found[found["round"] >= first].assign(
          panel=panel, mean=found[metric], start=start
      )[["panel", "method", "round", "mean", "start"]]
      for panel, metric, first in panels
  )


def _accuracy_by_cost(found: pd.DataFrame) -> pd.DataFrame:
  found = found[found["round"] > 0]
  return pd.concat(
      found.assign(panel=panel, cost=found[cost], mean=found["accuracy"])[
          ["panel", "method", "cost", "mean"]
      ]
      for panel, cost in (("bytes to and from the clients", "bytes"),
                          ("steps of SGD of all clients together", "steps"))
  )


def _accuracy_of_clients(clients: pd.DataFrame) -> pd.DataFrame:
  """Returns every client's accuracy under phase 1 and every method."""
  is_one = clients["phase"].isin((registry.PRETRAIN, CLUSTER)) & (clients["metric"] == "accuracy")
  found = clients[is_one & (clients["method"] != OWN_WEIGHTS)].rename(columns={"value": "accuracy"})
  names = registry.ordered(found["method"].unique())
  return frames_lib.in_order(found[["method", "client", "accuracy"]], method=names)


def members(clients: pd.DataFrame, examples: pd.DataFrame) -> pd.DataFrame:
  """Returns the clusters of every method that groups, and the true groups where they are known.

  Returns:
    Columns are `panel`, the method or the true groups; `client`; and `cluster`, a number.
  """
  is_member = (clients["phase"] == CLUSTER) & (clients["metric"] == "cluster")
  found = clients[is_member & clients["method"].map(registry.groups)]
  found = found.rename(columns={"method": "panel", "value": "cluster"})
  groups = examples[examples["new"] == 0].drop_duplicates("client").dropna(subset="group")
  groups = groups.assign(panel=TRUE_GROUPS, cluster=groups["group"])
  parts = [
      part[["panel", "client", "cluster"]].astype({"cluster": int})
      for part in (found, groups) if len(part) or part is found
  ]
  return pd.concat(parts)


def main_clusters(all_members: pd.DataFrame) -> pd.DataFrame:
  """Returns every client's largest cluster, of equals the first, and in how many it is."""
  sizes, times = (
      all_members.groupby(["panel", one])["client"].transform("size")
      for one in ("cluster", "client")
  )
  found = all_members.assign(size=sizes, times=times).sort_values(
      ["size", "cluster"], ascending=[False, True]
  ).drop_duplicates(["panel", "client"]).drop(columns="size")
  order = {column: all_members[column].unique() for column in ("panel", "client")}
  return frames_lib.in_order(found, **order)


def _distance_matrix(distances: pd.DataFrame, main: pd.DataFrame) -> pd.DataFrame:
  """Returns the distances of every two clients, for each panel of clusters."""
  if distances.empty:
    return pd.DataFrame()
  both = pd.concat([distances, distances.rename(columns={"client": "other", "other": "client"})])
  both = both[["client", "other", "value"]].rename(columns={"value": "distance"})
  names = pd.unique(pd.concat([distances["client"], distances["other"]]))
  if not len(main):
    main = pd.DataFrame({"panel": _EVERYONE, "client": names, "cluster": 0})
  own = main[["panel", "client", "cluster"]]
  found = both.merge(own, on="client").merge(
      own, left_on=["panel", "other"], right_on=["panel", "client"], suffixes=("", " of other")
  ).drop(columns="client of other")
  return frames_lib.in_order(found, panel=main["panel"].unique())


def _label_mix(
    examples: pd.DataFrame, main: pd.DataFrame, names: Sequence[str]
) -> pd.DataFrame:
  """Returns the clients' training labels by size, and their shares by the first clusters."""
  train = examples[(examples["part"] == "train") & (examples["new"] == 0)]
  counts = train.pivot(index="client", columns="label", values="value").fillna(0)
  counts = counts.reindex(columns=range(len(names)), fill_value=0)
  counts = counts.loc[counts.sum(axis=1).sort_values(ascending=False, kind="stable").index]
  counts = counts.loc[figure_style.evenly_spaced(list(counts.index), MOST_BARS)]
  panels = [("training examples, the largest client first", counts, None)]
  # A client in overlapping clusters has no single place in their order.
  single = main.groupby("panel", sort=False).filter(lambda own: (own["times"] == 1).all())
  for panel, own in single.groupby("panel", sort=False):
    cluster = own.set_index("client")["cluster"].reindex(counts.index).sort_values(kind="stable")
    shares = counts.div(counts.sum(axis=1), axis=0).loc[cluster.index]
    panels.append((f"shares of the labels, by cluster of {registry.title(panel)}", shares, cluster))
    break
  parts = []
  for panel, table, cluster in panels:
    table = table.set_axis(list(names), axis="columns").assign(
        panel=panel, place=range(len(table)), cluster=cluster
    )
    keys = ["panel", "place", "cluster"]
    parts.append(table.melt(id_vars=keys, var_name="label", value_name="height"))
  return pd.concat(parts)


def _named(clients: pd.Series) -> str:
  return ", ".join([*clients.iloc[:_MOST_NAMED], *(["..."] if len(clients) > _MOST_NAMED else [])])


def _clusters(
    all_members: pd.DataFrame, examples: pd.DataFrame, results: pd.DataFrame
) -> pd.DataFrame:
  """Returns the clusters of every method that groups."""
  best = results[results["metric"] == "best_accuracy"].set_index(["method", "cluster"])["value"]
  train = examples[examples["part"] == "train"].groupby("client")["value"].sum()
  groups = examples.drop_duplicates("client").set_index("client")["group"]
  of_clusters = []
  for (method, cluster), own in all_members[all_members["panel"] != TRUE_GROUPS].groupby(
      ["panel", "cluster"], sort=False
  ):
    ids = own["client"]
    counts = ids.map(groups).value_counts().sort_index()
    of_clusters.append({
        "method": method, "cluster": cluster, "clients": len(ids),
        "best_accuracy": best.get((method, cluster)), "training examples": ids.map(train).sum(),
        "true groups": ", ".join(f"{group}: {n}" for group, n in counts.items()) or None,
        "who": _named(ids),
    })
  found = pd.DataFrame(of_clusters, columns=[
      "method", "cluster", "clients", "best_accuracy", "training examples", "true groups", "who"
  ])
  found = frames_lib.in_order(
      found, method=all_members["panel"].unique(), cluster=sorted(found["cluster"].unique())
  )
  return found.groupby("method", sort=False).head(_MOST_ROWS)


def summarise(
    tidy: Mapping[str, pd.DataFrame], document: Mapping[str, Any]
) -> frames_lib.Frames:
  """Returns the frames of the report."""
  settings, dataset = document["config"], document["about"]["dataset"]
  names = dataset["class_names"] or list(map(str, range(dataset["num_classes"])))
  results, examples = tidy[tidy_experiment.RESULTS], tidy[EXAMPLES]
  clients = tidy[CLIENTS]
  of_clients = _accuracy_of_clients(clients)
  wide = methods(results[results["metric"] != SAVED], of_clients)
  gains = _gains(wide)
  of_rounds = curves(tidy[CURVES], settings)
  all_members = members(clients, examples)
  main = main_clusters(all_members)
  saved = results[results["metric"] == SAVED][["method"]]
  has_weights = (clients["method"] == OWN_WEIGHTS).any()
  entries = {**registry.METHODS, **registry.PERSONAL}
  seen = {_ALL: _SEEN_WEIGHTS if has_weights else _SEEN_SKETCHES} | {
      name: entries[name].sees for name in wide.index if name in entries and entries[name].sees
  }
  frames = {
      "headline": _headline(wide, gains),
      "warnings": tidy[WARNINGS],
      "all_gains": gains,
      "gains": gains[gains["over"] == _OVER[""]],
      "gains_over_finetuned": gains[gains["over"] == _OVER["finetuned_"]],
      "clusters": _clusters(all_members, examples, results),
      "saved": saved,
      "group_recovery": frames_lib.wide(
          tidy[RECOVERY], ["method", "representation", "epochs", "used"], ["ari", "purity"]
      ),
      "num_clusters": tidy[NUM_CLUSTERS].rename(columns={"value": "score"}).drop(
          columns=["seed", "metric"]
      ),
      "server_sees": pd.DataFrame(seen.items(), columns=["method", "what"]),
      "learning_curves": _learning_curves(of_rounds, settings),
      "accuracy_by_cost": _accuracy_by_cost(of_rounds),
      "client_accuracy": of_clients.assign(target=settings["target_accuracy"]),
      "distance_matrix": _distance_matrix(tidy[DISTANCES], main),
      "label_mix": _label_mix(examples, main, names),
      PROFILES: saved.merge(tidy.get(PROFILES, pd.DataFrame()), how="cross"),
  }
  # The columns of all other tables are metrics of the methods.
  frames |= {one.name: _shown(wide, one) for one in report.TABLES if one.name not in frames}
  labels = {name: registry.title(name) for name in wide.index}
  drawn = {name: frames.pop(name) for name in _DRAWN}
  for column in ("method", "panel"):
    frames = frames_lib.labelled(frames, labels, column)
  return {**frames, **drawn}
