"""What a finished three-phase run left in its output folder, read back.

The report knows a run by its files alone, so that it can be drawn again later,
or elsewhere, without training anything.
"""

import csv
import dataclasses
import json
import os
from typing import Optional

from experiments.three_phase import comparison
from fl_clustering import client_weights

TRUE_GROUPS = "true groups"


@dataclasses.dataclass(frozen=True)
class Client:
  """One line of clients.csv; `group` is its true group, None where unknown."""
  client_id: str
  group: Optional[str]
  num_train: int
  train_label_counts: tuple[int, ...]


@dataclasses.dataclass(frozen=True)
class Grouping:
  """What one grouping made of the clients (assignments.json)."""
  name: str
  clusters: tuple[tuple[str, ...], ...]
  overlapping: bool
  warning: Optional[str]

  def main_clusters(self):
    """Returns for each client id its largest cluster (of equals, the first)."""
    main = {}
    for index, members in enumerate(self.clusters):
      for client_id in members:
        if client_id not in main or len(members) > len(self.clusters[main[client_id]]):
          main[client_id] = index
    return main

  def num_memberships(self):
    """Returns for each client id the number of clusters that it is in."""
    counts = {}
    for members in self.clusters:
      for client_id in members:
        counts[client_id] = counts.get(client_id, 0) + 1
    return counts


@dataclasses.dataclass(frozen=True)
class RecoveryScore:
  """How well a grouping finds the true groups with one way to take the weights.

  `grouping_epochs` is a number, or words where the weights are not taken after
  epochs of their own.
  """
  grouping: str
  representation: str
  grouping_epochs: str
  adjusted_rand_index: float
  used: bool


@dataclasses.dataclass(frozen=True)
class FinishedRun:
  """The files of one output folder.

  Attributes:
    output_dir: The folder.
    settings: Every setting's value; None where it is not set.
    dataset: The data really used (config.json, "dataset").
    model: The model's name and number of parameters.
    versions: Versions of the software, by name.
    clients: The clients, in the order of clients.csv.
    metrics: (phase, method, metric) -> {(cluster, round): value}; the cluster is
      None for what belongs to all clusters, the round None for what to no round.
    client_accuracy: (phase, method) -> {client id: accuracy}.
    groupings: The groupings, in the order of the summary's methods.
    recovery: Rows of group_recovery.csv; empty where no true groups are known.
    summary: summary.json.
  """
  output_dir: str
  settings: dict
  dataset: dict
  model: dict
  versions: dict
  clients: tuple[Client, ...]
  metrics: dict
  client_accuracy: dict
  groupings: tuple[Grouping, ...]
  recovery: tuple[RecoveryScore, ...]
  summary: dict

  @property
  def num_clients(self):
    return len(self.clients)

  @property
  def partition(self):
    """How the data were split among the clients, in words."""
    name = self.dataset["partition"]
    details = []
    if self.dataset["num_groups"] is not None:
      details.append(f"{self.dataset['num_groups']} groups")
    if self.dataset["dirichlet_alpha"] is not None:
      details.append(f"alpha {self.dataset['dirichlet_alpha']:g}")
    return f"{name} ({', '.join(details)})" if details else name

  @property
  def data_line(self):
    """Which data a figure shows, in one line."""
    clients = "client" if self.num_clients == 1 else "clients"
    return f"{self.dataset['name']}, {self.num_clients:,} {clients}, {self.partition}"

  @property
  def representation(self):
    """What of the clients' weights is shown: what was grouped, if anything was."""
    return self.settings["representation"] or "weights"

  @property
  def true_groups(self):
    """The true groups as a Grouping, or None where they are unknown."""
    if any(client.group is None for client in self.clients):
      return None
    names = sorted({client.group for client in self.clients}, key=lambda g: (len(g), g))
    return Grouping(
        name=TRUE_GROUPS,
        clusters=tuple(
            tuple(c.client_id for c in self.clients if c.group == name) for name in names
        ),
        overlapping=False,
        warning=None,
    )

  @property
  def partitions(self):
    """The groupings, and the true groups where they are known."""
    true_groups = self.true_groups
    return (*self.groupings, true_groups) if true_groups else self.groupings

  def num_memberships(self, method):
    """Returns how many clients its clusters have together; None where it is unknown.

    A client counts once for each cluster it is in: in a round of phase 2 that all
    take part in, it trains as often.
    """
    if method in (comparison.PRETRAIN, *comparison.CONTROLS):
      return self.num_clients
    return next(
        (sum(map(len, g.clusters)) for g in self.groupings if g.name == method), None
    )

  def curve(self, phase, method, metric):
    """Returns ascending rounds and a metric over all clusters in them, as lists."""
    values = self.metrics.get((phase, method, metric), {})
    rounds = sorted(round_num for cluster, round_num in values if cluster is None)
    return rounds, [values[None, round_num] for round_num in rounds]

  def best_accuracy(self, method, cluster):
    """Returns the best accuracy that a cluster reached, None where it is unknown."""
    return self.metrics.get(("evaluate", method, "best_accuracy"), {}).get((cluster, None))

  def evaluation(self, method, metric):
    """Returns a metric of phase 3, None where it is unknown.

    Where every cluster has a model of its own (the blended ones), it is their mean.
    """
    values = self.metrics.get(("evaluate", method, metric), {}).values()
    return sum(values) / len(values) if values else None

  def load_representation(self, client_ids):
    """Returns the clients' vectors as the groupings saw them.

    Args:
      client_ids: The clients wanted.

    Returns:
      Array of shape (num_clients, num_parameters), rows as in `client_ids`; None
      where the run kept no client weights.
    """
    path = os.path.join(self.output_dir, "client_weights.npz")
    if not os.path.exists(path):
      return None
    weights = client_weights.ClientWeights.load(path)
    rows = {client_id: row for row, client_id in enumerate(weights.client_ids)}
    wanted = client_weights.ClientWeights(
        client_ids=client_ids,
        vectors=weights.vectors[[rows[client_id] for client_id in client_ids]],
        global_vector=weights.global_vector,
    )
    return wanted.representation(self.representation)


def _read_json(output_dir, name):
  with open(os.path.join(output_dir, name), encoding="utf-8") as file:
    return json.load(file)


def _read_rows(output_dir, name):
  with open(os.path.join(output_dir, name), encoding="utf-8", newline="") as file:
    yield from csv.DictReader(file)


def _read_clients(output_dir):
  clients = []
  for row in _read_rows(output_dir, "clients.csv"):
    labels = [column for column in row if column.startswith("train_label_")]
    clients.append(Client(
        client_id=row["client_id"],
        group=row["group"] or None,
        num_train=int(row["num_train"]),
        train_label_counts=tuple(int(row[column]) for column in labels),
    ))
  return tuple(clients)


def _read_metrics(output_dir):
  metrics = {}
  for row in _read_rows(output_dir, "metrics.csv"):
    cluster, round_num = (int(row[c]) if row[c] else None for c in ("cluster", "round"))
    of_metric = metrics.setdefault((row["phase"], row["method"], row["metric"]), {})
    of_metric[cluster, round_num] = float(row["value"])
  return metrics


def _read_client_accuracy(output_dir):
  accuracy = {}
  for row in _read_rows(output_dir, "client_metrics.csv"):
    if row["accuracy"]:
      of_method = accuracy.setdefault((row["phase"], row["method"]), {})
      of_method[row["client_id"]] = float(row["accuracy"])
  return accuracy


def _read_groupings(output_dir, methods):
  assignments = _read_json(output_dir, "assignments.json")
  return tuple(
      Grouping(
          name=name,
          clusters=tuple(map(tuple, assignments[name]["clusters"])),
          overlapping=assignments[name]["overlapping"],
          warning=assignments[name].get("warning"),
      )
      for name in methods
      if name in assignments
  )


def _read_recovery(output_dir):
  if not os.path.exists(os.path.join(output_dir, "group_recovery.csv")):
    return ()
  return tuple(
      RecoveryScore(
          grouping=row["grouping"],
          representation=row["representation"],
          grouping_epochs=row["grouping_epochs"],
          adjusted_rand_index=float(row["adjusted_rand_index"]),
          used=row["used"] == "1",
      )
      for row in _read_rows(output_dir, "group_recovery.csv")
      if row["adjusted_rand_index"]
  )


def read_run(output_dir):
  """Returns the `FinishedRun` in an output folder."""
  config = _read_json(output_dir, "config.json")
  summary = _read_json(output_dir, "summary.json")
  return FinishedRun(
      output_dir=output_dir,
      settings=config["config"],
      dataset=config["dataset"],
      model=config["model"],
      versions=config["versions"],
      clients=_read_clients(output_dir),
      metrics=_read_metrics(output_dir),
      client_accuracy=_read_client_accuracy(output_dir),
      groupings=_read_groupings(output_dir, summary["methods"]),
      recovery=_read_recovery(output_dir),
      summary=summary,
  )
