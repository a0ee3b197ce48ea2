"""The result of a run as plain numbers, for `summary.json` and for notebooks.

What does not apply is absent; nothing is filled in.
"""

from __future__ import annotations

import dataclasses
from typing import Any, TYPE_CHECKING

import numpy as np

from fl_clustering.engine import metrics
from fl_clustering.methods import registry
from fl_clustering.three_phase import gains

if TYPE_CHECKING:
  from fl_clustering import config as config_lib
  from fl_clustering.tasks import federated_task
  from fl_clustering.three_phase import result as result_lib


def _model_metrics(confusion: np.ndarray) -> dict[str, float]:
  """Returns one model's metrics on one test set, from a matrix (C, C)."""
  return {name: float(value) for name, value in metrics.model_metrics(confusion).items()}


def _mean_model_metrics(confusions: np.ndarray) -> dict[str, float]:
  """Returns the mean over several models of their metrics, from (K, C, C)."""
  models = [_model_metrics(confusion) for confusion in confusions]
  return {name: float(np.mean([model[name] for model in models])) for name in models[0]}


def _distribution(values: np.ndarray) -> dict[str, float]:
  return {
      "mean": float(np.mean(values)),
      "sd": float(np.std(values)),
      "p10": float(np.percentile(values, 10)),
      "max": float(np.max(values)),
  }


def _client_distribution(confusions: np.ndarray, target_accuracy: float) -> dict[str, Any]:
  """Returns how a metric is distributed over clients, from (N, C, C)."""
  of_clients = metrics.model_metrics(confusions)
  return {
      "accuracy": _distribution(of_clients["accuracy"]),
      "pooled_accuracy": float(metrics.accuracy(confusions.sum(axis=0))),
      "recall": _distribution(of_clients["recall"]),
      "share_at_target": float(np.mean(of_clients["accuracy"] >= target_accuracy)),
  }


def _gains(result: result_lib.ThreePhaseResult) -> dict[str, dict[str, Any]]:
  """Returns every method's `gains.Gain` over the control, a dict for JSON by name."""
  control = metrics.accuracy(result.methods[registry.FEDAVG].clients)
  others = [name for name in result.methods if name != registry.FEDAVG]

  def trained(name: str) -> list[float]:
    first = metrics.accuracy(result.methods[name].clients)
    return [accuracy.mean() for accuracy in (first, *result.repeats.get(name, ()))]

  return {
      name: dataclasses.asdict(gains.gain(
          metrics.accuracy(result.methods[name].clients) - control, trained(registry.FEDAVG),
          trained(name), len(others),
      ))
      for name in others
  }


def method_summary(result: result_lib.MethodResult, target_accuracy: float) -> dict[str, Any]:
  """Returns the summary of one method or control, as in `summarize` but for the gain.

  `target_accuracy` is the accuracy whose share of clients is reported.
  """
  summary: dict[str, Any] = {
      "num_clusters": len(result.assignment.clusters),
      "clients": _client_distribution(result.clients, target_accuracy),
      "global_mean": _model_metrics(result.global_mean),
      "global_weighted": _model_metrics(result.global_weighted),
      "clients_blended": _client_distribution(result.clients_blended, target_accuracy),
      "global_blended": _mean_model_metrics(result.global_blended),
      "cost": result.cost.by_name(),
  }
  if result.new_clients is not None:
    summary["new_clients"] = _client_distribution(result.new_clients, target_accuracy)
  for name in ("adjusted_rand_index", "purity"):
    if getattr(result, name) is not None:
      summary[name] = float(getattr(result, name))
  return summary


def pretrain_summary(result: result_lib.PretrainResult, target_accuracy: float) -> dict[str, Any]:
  """Returns the summary of phase 1, as in `summarize`."""
  summary = {
      "global": _model_metrics(result.global_test),
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
    "new_clients", "global_mean", "global_weighted", "clients_blended", "global_blended",
    "cost", "gain", "adjusted_rand_index", "purity"}}, "comparison"}`, with `"privacy"` for
    a private run and `"num_clusters_choice"`, the number by criterion, where it was chosen.
    A model on a test set is `{"accuracy", "recall", "precision"}`; clients are
    `{"accuracy": {"mean", "sd", "p10", "max"}, "pooled_accuracy", "recall": as accuracy,
    "share_at_target"}`, where all clients weigh alike but in the pooled accuracy, which is of
    all their test examples together. Standard deviations are over clients (divided by N).
    `"num_test_examples"` are the examples of `"clients"`, of `"new_clients"` and of the
    `"global"` test set. A cost is `{"client_steps", "bytes_down", "bytes_up"}`, phase 1
    included where the method builds on it. A gain over `fedavg` is `{"mean", "low",
    "high", "verdict"}`, see `gains.py`; `"comparison"` says what its interval rests on.
  """
  summary: dict[str, Any] = {
      "dataset": task.name,
      "num_clients": len(task.clients),
      "num_test_examples": _num_test_examples(task),
      "seed": config.seed,
      "pretrain": pretrain_summary(result.pretrain, config.target_accuracy),
      "methods": {
          name: method_summary(method, config.target_accuracy)
          for name, method in result.methods.items()
      },
      "comparison": {
          "control": registry.FEDAVG,
          "level": gains.LEVEL,
          "num_comparisons": len(result.methods) - 1,
          "control_repeats": config.control_repeats,
          "method_repeats": config.method_repeats,
      },
  }
  for name, gain in _gains(result).items():
    summary["methods"][name]["gain"] = gain
  if result.num_clusters_choice is not None:
    summary["num_clusters_choice"] = result.num_clusters_choice.choices
  if result.privacy is not None:
    summary["privacy"] = result.privacy
  return summary


def _num_test_examples(task: federated_task.FederatedTask) -> dict[str, int]:
  """Returns how many test examples there are of each kind, by name."""
  counts = {
      "clients": sum(len(client.test) for client in task.clients),
      "new_clients": sum(len(client.test) for client in task.new_clients),
      "global": task.num_global_test_examples,
  }
  return {name: count for name, count in counts.items() if count}
