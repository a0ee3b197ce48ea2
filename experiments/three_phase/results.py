"""What a finished three-phase run found, looked up in the files of its folder."""

import dataclasses
import functools
import os
import statistics
from typing import TYPE_CHECKING, Any, Mapping, Sequence

import numpy as np

from clustering_basics import model_folder
from experiment_shell import finished_run
from experiment_shell import scores
from experiments.three_phase import method_names
from fl_clustering.methods import client_weights
from fl_clustering.methods import cluster_assignment
from fl_clustering.three_phase import judging

if TYPE_CHECKING:
  import pandas as pd

TRUE_GROUPS = "true groups"
PROFILES = "profiles.csv"
BASELINE = "baseline"  # The phase and method of who uses no feature in `client_metrics.csv`.
NEW_CLIENTS = "new_clients"  # The phase of new clients in `client_metrics.csv`.

_METRICS = ("phase", "method", "cluster", "round", "metric", "value")


def chosen_methods(summary: Mapping[str, Any]) -> list[str]:
  """Returns the methods that are no controls, in the order of `summary.json`."""
  return [method for method in summary["methods"] if method not in method_names.CONTROLS]


def ordered_methods(summary: Mapping[str, Any]) -> list[str]:
  """Returns the methods in the order of `summary.json`, then the controls."""
  controls = [control for control in method_names.CONTROLS if control in summary["methods"]]
  return chosen_methods(summary) + controls


def metric(summary: Mapping[str, Any]) -> str:
  """Returns the metric by which methods were compared, a key of `judging.METRICS`."""
  return summary["comparison"].get("metric", judging.ACCURACY)


def is_by_accuracy(summary: Mapping[str, Any]) -> bool:
  """Returns whether that is the accuracy."""
  return metric(summary) == judging.ACCURACY


def metric_label(summary: Mapping[str, Any]) -> str:
  """Returns what readers call that metric."""
  return metric(summary).replace("_", " ")


def clients_text(num_clients: int) -> str:
  """Returns a number of clients in words, such as `1 client`."""
  return f"{num_clients:,} {'client' if num_clients == 1 else 'clients'}"


def rounds_before(method: str, num_rounds: int, pretrain_rounds: int, cluster_rounds: int) -> int:
  """Returns how many rounds of training came before a method's own.

  A method that does not build on phase 1 has rounds in place of those of phase 1.

  Args:
    method: The method's name, or `pretrain`.
  """
  if method == method_names.FEDAVG_MATCHED:
    return pretrain_rounds + cluster_rounds
  if method == method_names.PRETRAIN or num_rounds == pretrain_rounds + cluster_rounds:
    return 0
  return pretrain_rounds


def main_clusters(assignment: cluster_assignment.ClusterAssignment) -> dict[str, int]:
  """Returns for each client id its largest cluster, and of equals the first."""
  clusters = assignment.clusters
  # Each client once, though it may be in many clusters.
  client_ids = dict.fromkeys(client_id for members in clusters for client_id in members)
  return {
      client_id: max(assignment.clusters_of(client_id), key=lambda k: len(clusters[k]))
      for client_id in client_ids
  }


@dataclasses.dataclass(frozen=True, eq=False)
class Results:
  """What one run found."""

  finished: finished_run.FinishedRun

  @property
  def settings(self) -> Mapping[str, Any]:
    """Every setting's value, by name; None where it is not set."""
    return self.finished.settings

  @property
  def summary(self) -> Mapping[str, Any]:
    """What `summary.json` holds."""
    return self.finished.summary

  @property
  def dataset(self) -> Mapping[str, Any]:
    """The data that were used, as `config.json` describes them."""
    return self.finished.document["dataset"]

  @property
  def partition(self) -> str:
    """How the data were split among the clients, in words."""
    name = self.dataset["partition"]
    details = []
    if self.dataset["num_groups"] is not None:
      details.append(f"{self.dataset['num_groups']} groups")
    if self.dataset["dirichlet_alpha"] is not None:
      details.append(f"alpha {self.dataset['dirichlet_alpha']:g}")
    return f"{name} ({', '.join(details)})" if details else name

  @property
  def data_line(self) -> str:
    """The data, in one line for figures."""
    parts = [self.dataset["name"], clients_text(self.num_clients)]
    # The clients of tables are as they were given.
    return ", ".join(parts if self.has_tables else [*parts, self.partition])

  @property
  def has_tables(self) -> bool:
    """Whether the examples are rows of clients' tables."""
    return self.settings["schema"] is not None

  @property
  def tests_on_clients(self) -> bool:
    """Whether the global test set consists of the clients' own test data."""
    return self.dataset["global_test_is_clients"]

  @property
  def weighs_by_validation(self) -> bool:
    """Whether the clusters weigh in the weighted mean by what they do on validation data."""
    return bool(self.dataset["validation_examples"]) and not self.settings["article_weights"]

  def _rows(self, name: str, *text_columns: str) -> list[dict[str, Any]]:
    """Returns the rows of a table; none if the run has no such file."""
    return self.finished.rows(name, text_columns) if self.finished.has(name) else []

  # The clients.

  @functools.cached_property
  def _all_clients(self) -> list[dict[str, Any]]:
    return self.finished.rows("clients.csv", text_columns=("client_id", "group"))

  @functools.cached_property
  def clients(self) -> list[dict[str, Any]]:
    """The rows of the clients that train, from `clients.csv`.

    A client's `group` is empty where it is unknown.
    """
    return [client for client in self._all_clients if not client["new"]]

  @functools.cached_property
  def new_clients(self) -> list[dict[str, Any]]:
    """The rows of the clients that came after the training, as `clients`."""
    return [client for client in self._all_clients if client["new"]]

  @property
  def client_ids(self) -> list[str]:
    """The ids of the clients that train."""
    return [client["client_id"] for client in self.clients]

  @property
  def num_clients(self) -> int:
    """Number of clients that train."""
    return len(self.clients)

  @property
  def label_names(self) -> list[str]:
    """What the labels mean, as text; their numbers where that is unknown."""
    names = self.dataset["class_names"]
    return list(map(str, range(self.dataset["num_classes"])) if names is None else names)

  @property
  def label_word(self) -> str:
    """What a label is called, with the tables' column if the data are tables."""
    if not self.has_tables:
      return "label"
    return f"class (column {self.settings['schema']['label']})"

  @property
  def mean_majority_share(self) -> float:
    """The share of a client's most frequent label in its training data, a mean over clients."""
    counts = map(self.label_counts, self.clients)
    return statistics.fmean(max(of_client) / sum(of_client) for of_client in counts)

  def label_counts(self, client: Mapping[str, Any]) -> list[int]:
    """Returns how many training examples of each label a row of `clients` has."""
    return [client[f"train_label_{label}"] for label in range(self.dataset["num_classes"])]

  @property
  def representation(self) -> str:
    """What of the weights was grouped; `weights` if nothing was."""
    return self.settings["representation"] or "weights"

  def vectors(self, client_ids: Sequence[str]) -> np.ndarray | None:
    """Returns the clients' vectors as the groupings saw them.

    Returns:
      Array of shape (num_clients, num_parameters), aligned with `client_ids`; None if
      the run has no `client_weights.npz`.
    """
    if not self.finished.has("client_weights.npz"):
      return None
    weights = client_weights.ClientWeights.load(self.finished.join("client_weights.npz"))
    return weights.represented(self.representation, client_ids)[:]

  # The clusters.

  @functools.cached_property
  def assignments(self) -> dict[str, cluster_assignment.ClusterAssignment]:
    """The last assignment of each method, by name in the order of the summary."""
    written = self.finished.json("assignments.json")
    return {
        name: cluster_assignment.ClusterAssignment(
            written[name]["clusters"], written[name]["warning"]
        )
        for name in self.summary["methods"]
        if name in written
    }

  @functools.cached_property
  def true_groups(self) -> cluster_assignment.ClusterAssignment | None:
    """The true groups, or None where they are unknown."""
    groups = {client["group"] for client in self.clients}
    if "" in groups:
      return None
    return cluster_assignment.ClusterAssignment(tuple(
        tuple(client["client_id"] for client in self.clients if client["group"] == group)
        for group in sorted(groups, key=lambda group: (len(group), group))
    ))

  @property
  def partitions(self) -> dict[str, cluster_assignment.ClusterAssignment]:
    """The methods' assignments by name, and the true groups where they are known."""
    true_groups = self.true_groups
    return {**self.assignments, **({TRUE_GROUPS: true_groups} if true_groups else {})}

  @property
  def saved(self) -> Mapping[str, Any]:
    """What the folder `model` says of the clusters whose models it holds."""
    return self.finished.json(os.path.join(model_folder.MODEL, model_folder.DOCUMENT))

  @functools.cached_property
  def profiles(self) -> list[dict[str, Any]]:
    """The rows of `profiles.csv`; empty without tables, and with one cluster."""
    return self._rows(PROFILES, "feature")

  @functools.cached_property
  def recovery(self) -> list[dict[str, Any]]:
    """The rows of `group_recovery.csv`; empty where the true groups are unknown.

    `grouping_epochs` is text: a number, or "last round".
    """
    rows = self._rows("group_recovery.csv", "grouping", "representation", "grouping_epochs")
    return [row for row in rows if row["adjusted_rand_index"] is not None]

  @functools.cached_property
  def num_clusters_choice(self) -> list[dict[str, Any]]:
    """The rows of `num_clusters.csv`; empty where the number of clusters was given."""
    return self._rows("num_clusters.csv", "criterion")

  # The metrics.

  @functools.cached_property
  def _metrics(self) -> "pd.DataFrame":
    """`metrics.csv`; `cluster` and `round` are NaN for a metric of all clusters, or of no round."""
    rows = self.finished.rows("metrics.csv", text_columns=("phase", "method", "metric"))
    return scores.table(rows, _METRICS, "round").astype({"cluster": float, "round": float})

  @functools.cached_property
  def curves(self) -> "pd.DataFrame":
    """Every round of phase 1 (as the method `pretrain`) and of the methods, ascending.

    Columns are `method`, `round`, which counts from the first round of phase 1, the metrics of
    all clusters together, and `steps` and `bytes`: what the method and all before it cost so far.
    """
    of_all = self._metrics[
        self._metrics["cluster"].isna() & self._metrics["phase"].isin((method_names.PRETRAIN, "cluster"))
    ]
    curves = of_all.pivot(index=["method", "round"], columns="metric", values="value").reset_index()
    costs = ["steps", "bytes"]
    curves["steps"] = curves["client_steps"]
    curves["bytes"] = curves["bytes_down"] + curves["bytes_up"]
    curves[costs] = curves.groupby("method")[costs].cumsum()
    pretrain_rounds, cluster_rounds = (
        self.settings[name] for name in ("pretrain_rounds", "cluster_rounds")
    )
    for method, rows in curves.groupby("method").groups.items():
      last = curves.loc[rows[-1]]
      curves.loc[rows, "round"] += rounds_before(
          method, last["round"], pretrain_rounds, cluster_rounds
      )
      if method != method_names.PRETRAIN:
        # Everything was counted in the total, the rounds before the method's own too.
        cost = self.summary["methods"][method]["cost"]
        totals = cost["client_steps"], cost["bytes_down"] + cost["bytes_up"]
        curves.loc[rows, costs] += totals - last[costs].to_numpy(float)
    return curves

  @functools.cached_property
  def _evaluation(self) -> dict[tuple[str, str], dict[float, float]]:
    """(method, metric) -> the metric in phase 3 by cluster, NaN for all clusters together."""
    table = self._metrics[self._metrics["phase"] == "evaluate"]
    return {
        key: dict(zip(of_metric["cluster"], of_metric["value"]))
        for key, of_metric in table.groupby(["method", "metric"])
    }

  def best_of_cluster(self, method: str, cluster: int) -> float | None:
    """Returns the best accuracy that a cluster reached, None if it is unknown."""
    return self._evaluation.get((method, "best_accuracy"), {}).get(cluster)

  def evaluation(self, method: str, metric: str) -> float | None:
    """Returns a metric of phase 3, None if it is unknown.

    For blended models, one per cluster, this is the mean over the clusters.
    """
    values = self._evaluation.get((method, metric), {}).values()
    return sum(values) / len(values) if values else None

  @functools.cached_property
  def _client_metrics(self) -> dict[tuple[str, str], dict[str, dict[str, Any]]]:
    """(phase, method) -> {client id: row of `client_metrics.csv`}."""
    found: dict = {}
    text_columns = ("phase", "method", "client_id", "clusters")
    for row in self.finished.rows("client_metrics.csv", text_columns):
      found.setdefault((row["phase"], row["method"]), {})[row["client_id"]] = row
    return found

  def client_metrics(self, method: str) -> dict[str, dict[str, Any]]:
    """Returns the rows of `client_metrics.csv` of a method or of `pretrain`, by client id."""
    return self._client_metrics[method_names.PRETRAIN if method == method_names.PRETRAIN else "cluster", method]

  def client_accuracy(self, method: str) -> dict[str, float]:
    """Returns the clients' accuracy under a method or after phase 1, by client id."""
    return {client_id: row["accuracy"] for client_id, row in self.client_metrics(method).items()}

  def new_client(self, method: str, client_id: str) -> tuple[str, float]:
    """Returns a new client's clusters, as text, and its accuracy under a method."""
    row = self._client_metrics[NEW_CLIENTS, method][client_id]
    return row["clusters"], row["accuracy"]
