"""The result of a run as plain numbers, for its tables and for notebooks.

What does not apply is absent; nothing is filled in.
"""

from __future__ import annotations

import dataclasses
from typing import Any, TYPE_CHECKING

import numpy as np

from clustering_basics import intervals
from fl_clustering.engine import metrics as metrics_lib
from fl_clustering.methods import registry
from fl_clustering.three_phase import gains

if TYPE_CHECKING:
  from fl_clustering.tasks import federated_task
  from fl_clustering.three_phase import config as config_lib
  from fl_clustering.three_phase import result as result_lib


def _mean_model_metrics(confusions: np.ndarray) -> dict[str, float]:
  """Returns the mean over models of their metrics, from matrices (K, C, C), or of one, (C, C)."""
  found = metrics_lib.model_metrics(confusions)
  return {name: float(np.mean(values)) for name, values in found.items()}


def _distribution(values: np.ndarray) -> dict[str, float]:
  return {
      "mean": float(np.mean(values)),
      "sd": float(np.std(values)),
      "p10": float(np.percentile(values, 10)),
      "max": float(np.max(values)),
  }


def _client_distribution(confusions: np.ndarray, target_accuracy: float) -> dict[str, Any]:
  """Returns how metrics are distributed over clients, from matrices (N, C, C)."""
  of_clients = metrics_lib.model_metrics(confusions)
  return {
      "accuracy": _distribution(of_clients["accuracy"]),
      "pooled_accuracy": float(metrics_lib.accuracy(confusions.sum(axis=0))),
      "recall": _distribution(of_clients["recall"]),
      "share_at_target": float(np.mean(of_clients["accuracy"] >= target_accuracy)),
  }


def _comparisons(result: result_lib.ThreePhaseResult) -> list[tuple[str, str, str]]:
  """Returns (method, key of its gain, control) for all that is compared."""
  found = [
      (name, "gain", registry.FEDAVG) for name in result.methods if name != registry.FEDAVG
  ]
  if registry.FINETUNED in result.methods:
    found += [
        (name, "gain_over_finetuned", registry.FINETUNED)
        for name in result.methods if name in registry.METHODS
    ]
  return found


def _gain(
    result: result_lib.ThreePhaseResult, name: str, control: str, num_comparisons: int
) -> dict[str, Any]:
  """Returns a method's `gains.Gain`, a dict for JSON."""

  def scores(name: str) -> np.ndarray:
    return metrics_lib.accuracy(result.methods[name].clients)

  def trained(name: str) -> list[float]:
    return [float(np.mean(one)) for one in (scores(name), *result.repeats.get(name, ()))]

  # Of the controls, FedAvg alone is trained again; the others are taken to vary as much.
  return dataclasses.asdict(gains.gain(
      scores(name) - scores(control), trained(registry.FEDAVG), trained(name), num_comparisons
  ))


def method_summary(result: result_lib.MethodResult, target_accuracy: float) -> dict[str, Any]:
  """Returns the summary of one method or control, as in `summarize` but for the gain.

  `target_accuracy` is the accuracy whose share of clients is reported.
  """

  def of_clients(confusions: np.ndarray) -> dict[str, Any]:
    return _client_distribution(confusions, target_accuracy)

  summary: dict[str, Any] = {
      "num_clusters": len(result.assignment.clusters),
      "clients": of_clients(result.clients),
      "global_mean": _mean_model_metrics(result.global_mean),
      "global_weighted": _mean_model_metrics(result.global_weighted),
      "clients_blended": of_clients(result.clients_blended),
      "global_blended": _mean_model_metrics(result.global_blended),
      "cost": result.cost.by_name(),
  }
  if result.new_clients is not None:
    summary["new_clients"] = of_clients(result.new_clients)
  if result.validation is not None:
    summary["validation"] = of_clients(result.validation)
  for name in ("adjusted_rand_index", "purity"):
    if getattr(result, name) is not None:
      summary[name] = float(getattr(result, name))
  return summary


def pretrain_summary(
    result: result_lib.PretrainResult, target_accuracy: float
) -> dict[str, Any]:
  """Returns the summary of phase 1, as in `summarize`."""
  summary = {
      "global": _mean_model_metrics(result.global_test),
      "clients": _client_distribution(result.clients, target_accuracy),
      "cost": result.cost.by_name(),
  }
  if result.new_clients is not None:
    summary["new_clients"] = _client_distribution(result.new_clients, target_accuracy)
  return summary


def summarize(
    config: config_lib.ThreePhaseConfig, task: federated_task.FederatedTask,
    result: result_lib.ThreePhaseResult,
) -> dict[str, Any]:
  """Returns the summary of a run as a dict that JSON can hold.

  Returns:
    A dict `{"dataset", "num_clients", "num_test_examples", "seed", "pretrain": {"global",
    "clients", "new_clients", "cost"}, "methods": {name: {"num_clusters", "clients",
    "new_clients", "validation", "global_mean", "global_weighted", "clients_blended",
    "global_blended", "cost", "gain", "gain_over_finetuned", "adjusted_rand_index", "purity"}},
    "comparison"}`,
    with `"num_clusters_choice"`, the number by criterion, where it was chosen.
    `"validation"` is of the clients that have such rows.  A model on a test set is
    `{"accuracy", "recall", "precision"}`; clients are `{"accuracy": {"mean",
    "sd", "p10", "max"}, "pooled_accuracy", "recall": as accuracy, "share_at_target"}`,
    where all clients weigh alike but in the pooled accuracy, which is of all their test
    examples together.  Standard deviations are over clients (divided by N).
    `"num_test_examples"` are the examples of `"clients"`, of `"new_clients"` and of the
    `"global"` test set. A cost is `{"client_steps", "bytes_down", "bytes_up"}`, phase 1
    included where the method builds on it. A gain over `fedavg`, and of a grouping over
    `finetuned`, is `{"mean", "low", "high", "detectable", "verdict"}`, see `gains.py`;
    `"comparison"` says what its interval rests on.
  """
  compared = _comparisons(result)
  summary: dict[str, Any] = {
      "dataset": task.name,
      "num_clients": len(task.clients),
      "num_test_examples": _num_test_examples(task, result.evaluated),
      "seed": config.seed,
      "pretrain": pretrain_summary(result.pretrain, config.target_accuracy),
      "methods": {
          name: method_summary(method, config.target_accuracy)
          for name, method in result.methods.items()
      },
      "comparison": {
          "control": registry.FEDAVG,
          "level": intervals.LEVEL,
          "num_comparisons": len(compared),
          "control_repeats": config.control_repeats,
          "method_repeats": config.method_repeats,
      },
  }
  for name, key, control in compared:
    summary["methods"][name][key] = _gain(result, name, control, len(compared))
  if result.num_clusters_choice is not None:
    summary["num_clusters_choice"] = result.num_clusters_choice.choices
  return summary


def _num_test_examples(
    task: federated_task.FederatedTask, evaluated: np.ndarray
) -> dict[str, int]:
  """Returns how many test examples there are of each kind, by name."""
  counts = {
      "clients": int(task.counts("test")[evaluated].sum()),
      "new_clients": sum(len(client.test) for client in task.new_clients),
      "global": len(task.global_test),
  }
  return {name: count for name, count in counts.items() if count}
