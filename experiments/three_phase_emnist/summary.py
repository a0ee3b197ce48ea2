"""What a run found: gains with verdicts, curves, clusters, as the frames of its report."""

import math
from typing import Any, Iterable, Mapping, Sequence

import numpy as np
import pandas as pd

from clustering_basics import intervals
from experiment_shell import tidy_experiment
from experiments.three_phase_emnist import cost_text
from experiments.three_phase_emnist import method_names
from experiments.three_phase_emnist import report
from experiments.three_phase_emnist import tables

TRUE_GROUPS, _EVERYONE = "true groups", "all clients"
# Rows of a table on the page, and clients of a cluster that are named there.
_MOST_ROWS, _MOST_NAMED = 100, 4
# Of more clients, so many are shown by their labels, evenly spaced by size.
MOST_BARS = 40
_OVER = {
    "gain": f"over {method_names.method_name(method_names.FEDAVG)}",
    "gain_over_finetuned": "over fine-tuning",
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
_SEEN = {
    "ifca": "Also which model fits each client best.",
    "cfl": "Also every client's update in every round.",
    "fesem": "Also every client's own weights in every round.",
    "pacfl": "Also directions of every client's raw data: the first one of a label can look like "
    "the client's average example of that label.",
    "clove": "Also every client's loss under every model.",
    "flux": "Also means and standard deviations of what the global model makes of every client's "
    "examples, over all and over each label.",
    "mr_mtl": "Also every client's own model in every round.",
    "fedrep": "Also, in every round, the layers before the last of every client's own model.",
}


def _wide(results: pd.DataFrame) -> pd.DataFrame:
  """Returns the metrics of methods as a whole in columns, in the order of the report."""
  of_all = results[results["cluster"].isna() & results["method"].notna()]
  found = of_all.pivot(index="method", columns="metric", values="value")
  return found.loc[method_names.ordered(of_all["method"].unique())]


def _columns(wide: pd.DataFrame, names: Mapping[str, str]) -> pd.DataFrame:
  """Returns some metrics under other names, of the methods that have one of them."""
  found = wide.reindex(columns=list(names.values()))
  return found.set_axis(list(names), axis="columns").dropna(how="all").reset_index()


def _in_order(frame: pd.DataFrame, column: str, values: Iterable[str]) -> pd.DataFrame:
  """Returns a frame whose values of a column come in an order."""
  order = {value: place for place, value in enumerate(values)}
  return frame.sort_values(column, key=lambda own: own.map(order), kind="stable")


def _of_clients(part: str) -> dict[str, str]:
  return {
      "mean": f"{part}_accuracy_mean", "sd": f"{part}_accuracy_sd", "p10": f"{part}_accuracy_p10",
      "at target": f"{part}_share_at_target", "recall": f"{part}_recall_mean",
      "pooled": f"{part}_pooled_accuracy",
  }


def _methods(wide: pd.DataFrame) -> pd.DataFrame:
  """Returns the first table: every method's accuracy, its groups and what it cost."""
  found = _columns(wide, {
      "clusters": "num_clusters", "mean": "clients_accuracy_mean", "sd": "clients_accuracy_sd",
      "new": "new_clients_accuracy_mean", "ARI": "adjusted_rand_index",
      "steps": "cost_client_steps", "down": "cost_bytes_down", "up": "cost_bytes_up",
  })
  found["bytes"] = (found["down"] + found["up"]).map(cost_text.bytes_text, na_action="ignore")
  found["steps"] = found["steps"].map(cost_text.steps_text, na_action="ignore")
  return found.drop(columns=["down", "up"])


def _costs(wide: pd.DataFrame) -> pd.DataFrame:
  found = _columns(wide, {
      "steps": "cost_client_steps", "bytes down": "cost_bytes_down", "bytes up": "cost_bytes_up",
  })
  together = wide.loc[method_names.FEDAVG, "cost_client_steps"]
  return found.assign(**{"of FedAvg": found["steps"] / together})


def _gains(wide: pd.DataFrame) -> pd.DataFrame:
  """Returns every gain in points, with its interval and its verdict."""
  found = pd.concat(
      _columns(wide, {
          name: f"{key}_{part}" for name, part in
          (("gain", "mean"), ("low", "low"), ("high", "high"), ("detectable", "detectable"))
      }).assign(over=over)
      for key, over in _OVER.items()
  )
  numbers = ["gain", "low", "high", "detectable"]
  found[numbers] = 100 * found[numbers].astype(float)
  return found.assign(verdict=list(map(intervals.verdict, found["low"], found["high"])))


def _headline(wide: pd.DataFrame, gains: pd.DataFrame) -> pd.DataFrame:
  """Returns the best of the methods that group, with its gains."""
  groupings = [
      name for name in wide.index
      if name not in (method_names.PRETRAIN, *method_names.CONTROLS)
  ]
  if not groupings:
    return pd.DataFrame([{"verdict": "none"}])
  scores = wide.loc[groupings, "clients_accuracy_mean"]
  best = scores.idxmax()
  row = {"method": method_names.method_name(best), "score": scores[best]}
  verdicts = []
  for over, name in zip(_OVER.values(), ("fedavg", "finetuned")):
    of_best = gains[(gains["method"] == best) & (gains["over"] == over)]
    if of_best.empty:  # The run is without this control.
      continue
    gain = of_best.iloc[0]
    verdicts.append(report.UNKNOWN if math.isnan(gain["low"]) else gain["verdict"])
    row |= {f"{name}_{part}": gain[part] for part in ("gain", "low", "high")}
  return pd.DataFrame([{"verdict": ", ".join(verdicts), **row}])


def rounds_before(method: str, num_rounds: int, pretrain_rounds: int, cluster_rounds: int) -> int:
  """Returns how many rounds of training came before a method's own.

  A method that does not build on phase 1 has rounds in place of those of phase 1.
  """
  if method == method_names.FEDAVG_MATCHED:
    return pretrain_rounds + cluster_rounds
  if method == method_names.PRETRAIN or num_rounds == pretrain_rounds + cluster_rounds:
    return 0
  return pretrain_rounds


def curves(
    rows: pd.DataFrame, wide: pd.DataFrame, settings: Mapping[str, Any]
) -> pd.DataFrame:
  """Returns every round of phase 1 and of the methods, ascending.

  Columns are `method`, `round`, which counts from the first round of phase 1, the metrics of all
  clusters together, and `steps` and `bytes`: what the method and all before it cost so far.
  """
  of_all = rows[rows["cluster"].isna()]
  found = of_all.pivot(index=["method", "round"], columns="metric", values="value").reset_index()
  found["round"] = found["round"].astype(int)
  costs = ["steps", "bytes"]
  found["steps"] = found["client_steps"]
  found["bytes"] = found["bytes_down"] + found["bytes_up"]
  found[costs] = found.groupby("method")[costs].cumsum()
  for method, places in found.groupby("method").groups.items():
    last = found.loc[places[-1]]
    found.loc[places, "round"] += rounds_before(
        method, last["round"], settings["pretrain_rounds"], settings["cluster_rounds"]
    )
    if method != method_names.PRETRAIN:
      # Everything was counted in the total, the rounds before the method's own too.
      total = wide.loc[method]
      totals = total["cost_client_steps"], total["cost_bytes_down"] + total["cost_bytes_up"]
      found.loc[places, costs] += np.array(totals) - last[costs].to_numpy(float)
  return _in_order(found, "method", wide.index)


def _learning_curves(found: pd.DataFrame, settings: Mapping[str, Any]) -> pd.DataFrame:
  # Nobody has trained a model in round 0, whose accuracy would make all others look alike.
  start = settings["pretrain_rounds"]
  panels = (
      ("mean over the clients, both phases", "clients_accuracy_mean", 1),
      ("mean over the clients, phase 2 enlarged", "clients_accuracy_mean", start),
      ("10th percentile of the clients, both phases", "clients_accuracy_p10", 1),
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
      found.assign(panel=panel, cost=found[cost], mean=found["clients_accuracy_mean"])[
          ["panel", "method", "cost", "mean"]
      ]
      for panel, cost in (("bytes to and from the clients", "bytes"),
                          ("steps of SGD of all clients together", "steps"))
  )


def _accuracy_of_clients(clients: pd.DataFrame, wide: pd.DataFrame) -> pd.DataFrame:
  """Returns every client's accuracy under phase 1 and every method."""
  kept = clients["phase"].isin((method_names.PRETRAIN, tables.CLUSTER))
  found = clients[kept & (clients["metric"] == "accuracy") & (clients["method"] != "own_weights")]
  found = found.rename(columns={"value": "accuracy"})[["method", "client", "accuracy"]]
  return _in_order(found, "method", wide.index)


def _accuracies(
    wide: pd.DataFrame, of_clients: pd.DataFrame, part: str = "clients"
) -> pd.DataFrame:
  """Returns how the accuracy is distributed, and who fares better and worse than under FedAvg."""
  found = _columns(wide, _of_clients(part))
  together = of_clients[of_clients["method"] == method_names.FEDAVG].set_index("client")["accuracy"]
  others = of_clients[of_clients["method"] != method_names.FEDAVG]
  differences = others["accuracy"].to_numpy() - together.reindex(others["client"]).to_numpy()
  counts = others.assign(higher=differences > 0, lower=differences < 0).groupby("method")
  return found.join(counts[["higher", "lower"]].sum(), on="method")


def members(clients: pd.DataFrame, examples: pd.DataFrame) -> pd.DataFrame:
  """Returns the clusters of every method that groups, and the true groups where they are known.

  Returns:
    Columns are `panel`, the method or the true groups; `client`; and `cluster`, a number.
  """
  is_member = (clients["phase"] == tables.CLUSTER) & (clients["metric"] == "cluster")
  found = clients[is_member & ~clients["method"].isin(method_names.CONTROLS)]
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
  for column in ("client", "panel"):
    found = _in_order(found, column, all_members[column].unique())
  return found


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
  return _in_order(found, "panel", main["panel"].unique())


def _label_mix(
    examples: pd.DataFrame, main: pd.DataFrame, names: Sequence[str]
) -> pd.DataFrame:
  """Returns the clients' training labels by size, and their shares by the first clusters."""
  train = examples[(examples["part"] == "train") & (examples["new"] == 0)]
  counts = train.pivot(index="client", columns="label", values="value").fillna(0)
  counts = counts.reindex(columns=range(len(names)), fill_value=0)
  counts = counts.loc[counts.sum(axis=1).sort_values(ascending=False, kind="stable").index]
  if len(counts) > MOST_BARS:
    counts = counts.iloc[np.linspace(0, len(counts) - 1, MOST_BARS).round().astype(int)]
  panels = [("training examples, the largest client first", counts, None)]
  # A client in overlapping clusters has no single place in their order.
  single = main.groupby("panel", sort=False).filter(lambda own: (own["times"] == 1).all())
  for panel, own in single.groupby("panel", sort=False):
    cluster = own.set_index("client")["cluster"].reindex(counts.index).sort_values(kind="stable")
    shares = counts.div(counts.sum(axis=1), axis=0).loc[cluster.index]
    panels.append((f"shares of the labels, by cluster of {_label(panel)}", shares, cluster))
    break
  parts = []
  for panel, table, cluster in panels:
    table = table.set_axis(list(names), axis="columns").assign(
        panel=panel, place=range(len(table)), cluster=cluster
    )
    keys = ["panel", "place", "cluster"]
    parts.append(table.melt(id_vars=keys, var_name="label", value_name="height"))
  return pd.concat(parts)


def _label(method: str) -> str:
  """Returns what readers call a method, or another name as it is."""
  return method if method in (TRUE_GROUPS, _EVERYONE, _ALL) else method_names.method_label(method)


def _named(clients: pd.Series) -> str:
  return ", ".join([*clients.iloc[:_MOST_NAMED], *(["..."] if len(clients) > _MOST_NAMED else [])])


def _clusters(
    all_members: pd.DataFrame, examples: pd.DataFrame, results: pd.DataFrame
) -> pd.DataFrame:
  """Returns the clusters of every method that groups."""
  best = results[results["metric"] == "best_accuracy"].set_index(["method", "cluster"])["value"]
  train = examples[examples["part"] == "train"].groupby("client")["value"].sum()
  groups = examples.drop_duplicates("client").set_index("client")["group"]
  rows = []
  for (method, cluster), own in all_members[all_members["panel"] != TRUE_GROUPS].groupby(
      ["panel", "cluster"], sort=False
  ):
    ids = own["client"]
    counts = ids.map(groups).value_counts().sort_index()
    rows.append({
        "method": method, "cluster": cluster, "clients": len(ids),
        "best accuracy": best.get((method, cluster)), "training examples": ids.map(train).sum(),
        "true groups": ", ".join(f"{group}: {n}" for group, n in counts.items()) or None,
        "who": _named(ids),
    })
  found = pd.DataFrame(rows, columns=[
      "method", "cluster", "clients", "best accuracy", "training examples", "true groups", "who"
  ])
  found = found.sort_values("cluster", kind="stable")
  found = _in_order(found, "method", all_members["panel"].unique())
  return found.groupby("method", sort=False).head(_MOST_ROWS)


def summarise(
    tidy: Mapping[str, pd.DataFrame], document: Mapping[str, Any]
) -> dict[str, pd.DataFrame]:
  """Returns the frames of the report."""
  settings, dataset = document["config"], document["about"]["dataset"]
  names = dataset["class_names"] or list(map(str, range(dataset["num_classes"])))
  results, examples = tidy[tidy_experiment.RESULTS], tidy[tables.EXAMPLES]
  clients = tidy[tables.CLIENTS]
  wide = _wide(results)
  of_clients = _accuracy_of_clients(clients, wide)
  gains = _gains(wide)
  of_rounds = curves(tidy[tables.CURVES], wide, settings)
  all_members = members(clients, examples)
  main = main_clusters(all_members)
  recovery = tidy[tables.RECOVERY]
  saved = results[results["metric"] == tables.SAVED][["method"]]
  has_weights = (clients["method"] == "own_weights").any()
  of_all = _SEEN_WEIGHTS if has_weights else _SEEN_SKETCHES
  seen = [{"method": name, "what": what} for name, what in {_ALL: of_all, **_SEEN}.items()
          if name == _ALL or name in wide.index]
  means = wide["global_mean_accuracy"].fillna(wide["global_accuracy"])
  global_models = _columns(wide.assign(global_mean_accuracy=means), {
      "(a)": "global_mean_accuracy", "(b)": "global_weighted_accuracy",
      "(c)": "global_blended_accuracy", "(c) at the clients": "clients_blended_accuracy_mean",
  })
  frames = {
      "headline": _headline(wide, gains),
      "warnings": tidy[tables.WARNINGS],
      "methods": _methods(wide),
      "all_gains": gains,
      "gains": gains[gains["over"] == _OVER["gain"]],
      "gains_over_finetuned": gains[gains["over"] == _OVER["gain_over_finetuned"]],
      "accuracies": _accuracies(wide, of_clients),
      "costs": _costs(wide),
      "global_models": global_models,
      "new_clients": _columns(wide, _of_clients("new_clients")),
      "clusters": _clusters(all_members, examples, results),
      "saved": saved,
      "group_recovery": recovery.pivot(
          index=["method", "representation", "epochs", "used"], columns="metric", values="value"
      ).reindex(
          pd.MultiIndex.from_frame(
              recovery[["method", "representation", "epochs", "used"]].drop_duplicates()
          ), columns=["adjusted_rand_index", "purity"]
      ).reset_index(),
      "num_clusters": tidy[tables.NUM_CLUSTERS].rename(columns={"value": "score"}).drop(
          columns=["seed", "metric"]
      ),
      "server_sees": pd.DataFrame(seen),
      "learning_curves": _learning_curves(of_rounds, settings),
      "accuracy_by_cost": _accuracy_by_cost(of_rounds),
      "client_accuracy": of_clients.assign(target=settings["target_accuracy"]),
      "distance_matrix": _distance_matrix(tidy[tables.DISTANCES], main),
      "label_mix": _label_mix(examples, main, names),
      tables.PROFILES: saved.merge(tidy.get(tables.PROFILES, pd.DataFrame()), how="cross"),
  }
  for frame in frames.values():
    if "panel" in frame and "method" not in frame:
      frame["panel"] = frame["panel"].map(_label)
  return {
      name: frame if name in _DRAWN or "method" not in frame else frame.assign(
          method=frame["method"].map(_label)
      )
      for name, frame in frames.items()
  }
