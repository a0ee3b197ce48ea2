"""Writes the output folder of an invented run, small and with known numbers."""

import csv
import dataclasses
import json
import os
from typing import Optional

import numpy as np

from clustering_basics import file_format
from experiment_shell import finished_run
from experiments.own_tables import cluster_profiles
from experiments.three_phase import results as results_lib

GROUPINGS = ("kmeans", "dynamic_distance")
CONTROLS = ("fedavg", "finetuned", "local", "fedavg_matched")
COSTS = ("client_steps", "bytes_down", "bytes_up")
_COST_PER_CLIENT = {"client_steps": 10, "bytes_down": 2000, "bytes_up": 1000}
_KINDS = ("mean", "weighted", "blended")


@dataclasses.dataclass(frozen=True)
class SampleRun:
  """What can differ between invented runs.

  Attributes:
    mean_accuracy: The clients' mean accuracy per method, phase 1 as "pretrain".
    client_ids: The clients.
    assignments: The document of assignments.json.
    true_groups: Whether the true groups are known.
    num_classes: Number of labels.
    rounds: Rounds of phase 1, and of phase 2.
    matched_rounds: Rounds of `fedavg_matched`; None for as many as phase 2 has.
    fallback_reason: Why the data are not those asked for.
    data_warnings: What else is to be known about the data.
    aggregator: How phase 1 averages.
    clients_per_round: How many take part in a round; None for all.
    privacy: The summary's part on privacy.
    keeps_weights: Whether there is a client_weights.npz.
    half_width: Half the width of every gain's interval; None for no intervals.
    control_repeats: How often FedAvg was trained again.
    work: From a method to how much of FedAvg's work it has in a round, where not as much.
    from_start: Methods that don't build on phase 1.
    new_client_ids: The clients that came after the training.
    chooses_num_clusters: Whether the number of clusters was left to the run.
    tests_on_clients: Whether the global test set is the clients' test data.
    validation_examples: How many there are.
    class_names: What the labels mean; None if they are numbers.
    label_column: The column of tables with the labels; None for data that are no tables.
  """
  mean_accuracy: dict
  client_ids: tuple[str, ...]
  assignments: dict
  true_groups: bool = True
  num_classes: int = 3
  rounds: int = 2
  matched_rounds: Optional[int] = None
  fallback_reason: Optional[str] = None
  data_warnings: tuple[str, ...] = ()
  aggregator: str = "mean"
  clients_per_round: Optional[int] = None
  privacy: Optional[dict] = None
  keeps_weights: bool = True
  half_width: Optional[float] = 0.03
  control_repeats: int = 4
  work: dict = dataclasses.field(default_factory=dict)
  from_start: tuple[str, ...] = ("local",)
  new_client_ids: tuple[str, ...] = ()
  chooses_num_clusters: bool = False
  tests_on_clients: bool = False
  validation_examples: int = 0
  class_names: Optional[tuple[str, ...]] = None
  label_column: Optional[str] = None

  @property
  def methods(self):
    return tuple(method for method in self.mean_accuracy if method != "pretrain")


def sample_run(num_clients=6, groupings=GROUPINGS, **changes):
  """Returns a `SampleRun` with two clusters per grouping, the dynamic ones overlapping."""
  ids = tuple(f"client_{i:04d}" for i in range(num_clients))
  half = num_clients // 2
  assignments = {
      "kmeans": {"clusters": [ids[:half], ids[half:]], "overlapping": False, "warning": None},
      "dynamic_distance": {
          "clusters": [ids[:half + 1], ids[half:]],
          "overlapping": True,
          "warning": "too many cliques",
      },
  }
  mean_accuracy = {
      "pretrain": 0.6, "kmeans": 0.8, "dynamic_distance": 0.75, "fedavg": 0.7, "finetuned": 0.72,
      "local": 0.65,
  }
  values = {
      "mean_accuracy": {
          method: mean for method, mean in mean_accuracy.items()
          if method in ("pretrain", *groupings, *CONTROLS)
      },
      "client_ids": ids,
      "assignments": {name: assignments[name] for name in groupings},
  }
  return SampleRun(**{**values, **changes})


def _accuracies(run, method):
  """Returns the clients' accuracies, spread evenly around their mean."""
  spread = np.linspace(-0.1, 0.1, len(run.client_ids))
  return run.mean_accuracy[method] + spread


def _num_clusters(run, method):
  if method in run.assignments:
    return len(run.assignments[method]["clusters"])
  return 1 if method.startswith("fedavg") else len(run.client_ids)


def num_rounds(run, method):
  """Returns how many rounds of its own a method has."""
  if method == "fedavg_matched" and run.matched_rounds is not None:
    return run.matched_rounds
  return 2 * run.rounds if method in run.from_start else run.rounds


def _cost_of_round(run, method):
  work = len(run.client_ids) * run.work.get(method, 1)
  return {name: cost * work for name, cost in _COST_PER_CLIENT.items()}


def cost(run, method):
  """Returns what a method and all before it cost, a dict.

  After phase 1, its cost is that of one round more than it has, for the clients' own weights.
  """
  before = dict.fromkeys(COSTS, 0)
  rounds = num_rounds(run, method)
  if method == "pretrain":
    rounds += 1
  elif method == "fedavg_matched":
    before = cost(run, "fedavg")
  elif method not in run.from_start:
    before = cost(run, "pretrain")
  of_round = _cost_of_round(run, method)
  return {name: before[name] + rounds * of_round[name] for name in COSTS}


def _gain(run, method, control):
  """Returns a method's gain, with an interval that is as wide for all."""
  mean = run.mean_accuracy[method] - run.mean_accuracy[control]
  if run.half_width is None:
    return {"mean": mean, "low": None, "high": None, "detectable": None, "verdict": "unclear"}
  low, high = mean - run.half_width, mean + run.half_width
  verdict = "better" if low > 0 else "worse" if high < 0 else "unclear"
  detectable = 1.5 * run.half_width
  return {"mean": mean, "low": low, "high": high, "detectable": detectable, "verdict": verdict}


def _distribution(values):
  return {
      "mean": float(np.mean(values)),
      "sd": float(np.std(values)),
      "p10": float(np.percentile(values, 10)),
      "max": float(np.max(values)),
  }


def _clients(values):
  return {
      "accuracy": _distribution(values),
      "pooled_accuracy": float(np.mean(values)) - 0.003,
      "recall": _distribution(values - 0.01),
      "share_at_target": float(np.mean(values >= 0.8)),
  }


def _new_accuracies(run, method):
  return run.mean_accuracy[method] - 0.05 + 0.01 * np.arange(len(run.new_client_ids))


def _model(accuracy):
  return {"accuracy": accuracy, "recall": accuracy - 0.01, "precision": accuracy - 0.02}


def summary(run):
  """Returns the document of summary.json."""
  methods = {}
  for method in run.methods:
    values = _accuracies(run, method)
    methods[method] = {"num_clusters": _num_clusters(run, method), "clients": _clients(values)}
    for index, kind in enumerate(_KINDS):
      methods[method][f"global_{kind}"] = _model(run.mean_accuracy[method] - 0.1 * index)
    methods[method]["clients_blended"] = _clients(values + 0.01)
    methods[method]["cost"] = cost(run, method)
    if method != "fedavg":
      methods[method]["gain"] = _gain(run, method, "fedavg")
    if method not in CONTROLS and "finetuned" in run.methods:
      methods[method]["gain_over_finetuned"] = _gain(run, method, "finetuned")
    if run.validation_examples:
      methods[method]["validation"] = _clients(values)
    if run.new_client_ids:
      methods[method]["new_clients"] = _clients(_new_accuracies(run, method))
  if run.true_groups and "kmeans" in methods:
    methods["kmeans"].update(adjusted_rand_index=0.951, purity=0.975)
  document = {
      "dataset": "digits",
      "num_clients": len(run.client_ids),
      "num_test_examples": {
          "clients": 10 * len(run.client_ids), "new_clients": 10 * len(run.new_client_ids),
          "global": 1000,
      },
      "seed": 7,
      "pretrain": {
          "global": _model(0.5),
          "clients": _clients(_accuracies(run, "pretrain")),
          "cost": cost(run, "pretrain"),
      },
      "methods": methods,
      "comparison": {
          "control": "fedavg",
          "level": 0.95,
          "num_comparisons": sum(
              key.startswith("gain") for one in methods.values() for key in one
          ),
          "control_repeats": run.control_repeats,
          "method_repeats": 2 if run.control_repeats else 0,
      },
  }
  if run.new_client_ids:
    document["pretrain"]["new_clients"] = _clients(_new_accuracies(run, "pretrain"))
  if run.privacy:
    document["privacy"] = run.privacy
  return document


def _config(run):
  settings = {
      "dataset": "auto",
      "pretrain_rounds": run.rounds,
      "cluster_rounds": run.rounds,
      "aggregator": run.aggregator,
      "clients_per_round": run.clients_per_round,
      "methods": [method for method in run.methods if method not in CONTROLS],
      "article_weights": False,
      "representation": "update" if run.assignments else None,
      "grouping_epochs": None,
      "num_clusters_criterion": "eigengap" if run.chooses_num_clusters else None,
      "schema": None if run.label_column is None else {
          "label": run.label_column, "missing": "error",
      },
      "target_accuracy": 0.8,
      "seed": 7,
  }
  dataset = {
      "requested": "auto",
      "name": "digits",
      "source": "invented digits",
      "partition": "rotated" if run.true_groups else "dirichlet",
      "dirichlet_alpha": 0.5,
      "num_groups": 2 if run.true_groups else None,
      "num_classes": run.num_classes,
      "class_names": run.class_names,
      "global_test_source": "invented as well",
      "global_test_is_clients": run.tests_on_clients,
      "validation_examples": run.validation_examples,
      "fallback_reason": run.fallback_reason,
      "warnings": list(run.data_warnings),
  }
  return file_format.stamped({
      "experiment": "three_phase_emnist",
      "config": settings,
      "dataset": dataset,
      "model": {"name": "cnn_small", "num_parameters": 5},
      "versions": {"python": "3.11"},
  })


def _metrics_rows(run):
  values = {"clients_accuracy_mean": 0.0, "clients_accuracy_p10": -0.08}
  for round_num in range(1, run.rounds + 1):
    for metric, shift in values.items():
      accuracy = run.mean_accuracy["pretrain"] + shift
      yield "pretrain", "pretrain", "", round_num, metric, accuracy
    for metric, value in _cost_of_round(run, "pretrain").items():
      yield "pretrain", "pretrain", "", round_num, metric, value
  for method in run.methods:
    for round_num in range(num_rounds(run, method) + 1):
      for metric, value in _cost_of_round(run, method).items():
        yield "cluster", method, "", round_num, metric, value if round_num else 0
      for metric, shift in values.items():
        yield "cluster", method, "", round_num, metric, run.mean_accuracy[method] + shift
    for cluster in range(_num_clusters(run, method)):
      yield "evaluate", method, cluster, "", "best_accuracy", 0.9 + 0.01 * (cluster % 5)
    for kind in _KINDS:
      clusters = range(_num_clusters(run, method)) if kind == "blended" else [""]
      for cluster in clusters:
        for label in range(run.num_classes):
          recall = 0.2 if cluster == 0 else 0.4
          yield "evaluate", method, cluster, "", f"global_{kind}_recall_class_{label}", recall


def _client_metrics_rows(run):
  for method in run.mean_accuracy:
    phase = "pretrain" if method == "pretrain" else "cluster"
    for client_id, accuracy in zip(run.client_ids, _accuracies(run, method)):
      yield phase, method, client_id, "0", 10, accuracy, accuracy - 0.01
    for i, accuracy in enumerate(_new_accuracies(run, method)):
      clusters = "0 1" if method in run.assignments else ""
      yield "new_clients", method, run.new_client_ids[i], clusters, 10, accuracy, accuracy - 0.01


def _write_csv(path, header, rows):
  with open(path, "w", encoding="utf-8", newline="") as file:
    writer = csv.writer(file)
    writer.writerow(header)
    writer.writerows(rows)


def _write_model(path):
  """Writes what a report reads of the model, and the profiles of its two clusters."""
  os.mkdir(path("model"))
  with open(path("model/model.json"), "w", encoding="utf-8") as file:
    json.dump({"method": "kmeans", "num_clusters": 2}, file)
  _write_csv(
      path("profiles.csv"), cluster_profiles.HEADER,
      [[k, 30, name, 1.5 + k, 0.5, 0.9] for k in (0, 1) for name in ("age", "$b$")],
  )


def write(run, folder):
  """Writes all files of the run to `folder`, which must exist; returns `folder`."""
  path = lambda name: os.path.join(folder, name)
  for name, document in (
      ("config.json", _config(run)),
      ("summary.json", summary(run)),
      ("assignments.json", run.assignments),
  ):
    with open(path(name), "w", encoding="utf-8") as file:
      json.dump(document, file)
  rng = np.random.default_rng(0)
  all_ids = (*run.client_ids, *run.new_client_ids)
  counts = rng.integers(1, 9, (len(all_ids), run.num_classes))
  _write_csv(
      path("clients.csv"),
      ["client_id", "group", "new", "num_train", "num_test",
       *(f"train_label_{label}" for label in range(run.num_classes))],
      [[client_id, i % 2 if run.true_groups else "", int(client_id in run.new_client_ids),
        counts[i].sum(), 10, *counts[i]]
       for i, client_id in enumerate(all_ids)],
  )
  _write_csv(path("metrics.csv"), ["phase", "method", "cluster", "round", "metric", "value"],
             _metrics_rows(run))
  _write_csv(path("client_metrics.csv"),
             ["phase", "method", "client_id", "clusters", "num_test", "accuracy", "recall"],
             _client_metrics_rows(run))
  if run.true_groups and run.assignments:
    _write_csv(
        path("group_recovery.csv"),
        ["grouping", "representation", "grouping_epochs", "adjusted_rand_index", "purity",
         "used"],
        [["kmeans", "update", "last round", 0.9, 0.9, 1],
         ["kmeans", "update", 5, 1.0, 1.0, 0],
         ["kmeans", "weights", 5, -0.2, 0.5, 0]],
    )
  if run.label_column is not None:
    _write_model(path)
  if run.chooses_num_clusters:
    _write_csv(path("num_clusters.csv"), ["criterion", "num_clusters", "score", "chosen"],
               [["eigengap", 1, 0.2, 0], ["eigengap", 2, 0.5, 1]])
  if run.keeps_weights:
    np.savez(
        path("client_weights.npz"),
        client_ids=np.array(run.client_ids),
        vectors=rng.normal(size=(len(run.client_ids), 5)).astype(np.float32),
        global_vector=np.ones(5, np.float32),
    )
  return folder


def read(folder):
  """Returns the `Results` of the run in a folder."""
  return results_lib.Results(finished_run.FinishedRun(folder))


def results(run, folder):
  """Writes all files of the run to `folder`; returns its `Results`."""
  return read(write(run, folder))
