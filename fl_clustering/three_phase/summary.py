"""The result of a run as plain numbers, for `summary.json` and for notebooks.

What does not apply is absent; nothing is filled in.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Mapping, TYPE_CHECKING

import numpy as np

from fl_clustering.engine import objectives
from fl_clustering.methods import registry
from fl_clustering.three_phase import gains
from fl_clustering.three_phase import judging

if TYPE_CHECKING:
  from fl_clustering.tasks import federated_task
  from fl_clustering.three_phase import config as config_lib
  from fl_clustering.three_phase import result as result_lib


def _known(metrics: Mapping[str, Any]) -> dict[str, float]:
  """Returns metrics as plain numbers; what is undefined is left out."""
  return {name: float(value) for name, value in metrics.items() if not np.isnan(value)}


def _mean_model_metrics(
    objective: objectives.Objective, tallies: np.ndarray
) -> dict[str, float]:
  """Returns the mean over several models of their metrics, from tallies (K, ...)."""
  return _known({name: np.mean(values) for name, values in objective.metrics(tallies).items()})


def _distribution(values: np.ndarray, is_loss: bool = False) -> dict[str, float]:
  ends = (("p90", 90), ("min", 0)) if is_loss else (("p10", 10), ("max", 100))
  return {
      "mean": float(np.mean(values)),
      "sd": float(np.std(values)),
      **{name: float(np.percentile(values, percent)) for name, percent in ends},
  }


def _defined(values: np.ndarray, is_loss: bool = False) -> dict[str, float] | None:
  """Returns the distribution where values are not NaN, and over how many; None if over none."""
  values = values[~np.isnan(values)]
  if not len(values):
    return None
  return {**_distribution(values, is_loss), "num_clients": len(values)}


def _of_outputs(outputs: judging.OutputMetrics | None) -> dict[str, Any]:
  if outputs is None:
    return {}
  found: dict[str, Any] = {
      name: _defined(values, judging.METRICS[name].is_loss)
      for name, values in outputs.clients.items()
  }
  found.update((f"pooled_{name}", value) for name, value in _known(outputs.pooled).items())
  return {name: value for name, value in found.items() if value is not None}


def _client_distribution(
    objective: objectives.Objective, tallies: np.ndarray,
    outputs: judging.OutputMetrics | None, target_accuracy: float,
) -> dict[str, Any]:
  """Returns how metrics are distributed over clients, from tallies (N, ...)."""
  of_clients = objective.metrics(tallies)
  pooled = objective.metrics(tallies.sum(axis=0))
  if isinstance(objective, objectives.Regression):
    found: dict[str, Any] = {
        name: _defined(values, is_loss=name != "r2") for name, values in of_clients.items()
    }
    found.update((f"pooled_{name}", value) for name, value in _known(pooled).items())
    return {name: value for name, value in found.items() if value is not None}
  return {
      "accuracy": _distribution(of_clients["accuracy"]),
      "pooled_accuracy": float(pooled["accuracy"]),
      "recall": _distribution(of_clients["recall"]),
      "share_at_target": float(np.mean(of_clients["accuracy"] >= target_accuracy)),
      **_of_outputs(outputs),
  }


def _gains(
    objective: objectives.Objective, result: result_lib.ThreePhaseResult
) -> dict[str, dict[str, Any]]:
  """Returns every method's `gains.Gain` over the control, a dict for JSON by name."""
  metric = result.metric

  def scores(name: str) -> np.ndarray:
    found = result.methods[name]
    return judging.client_scores(metric, objective, found.clients, found.outputs)

  def trained(name: str) -> list[float]:
    return [float(np.nanmean(one)) for one in (scores(name), *result.repeats.get(name, ()))]

  control = scores(registry.FEDAVG)
  others = [name for name in result.methods if name != registry.FEDAVG]
  return {
      name: dataclasses.asdict(gains.gain(
          judging.gains_between(metric, scores(name), control), trained(registry.FEDAVG),
          trained(name), len(others), judging.METRICS[metric].bound,
      ))
      for name in others
  }


def method_summary(
    objective: objectives.Objective, result: result_lib.MethodResult, target_accuracy: float
) -> dict[str, Any]:
  """Returns the summary of one method or control, as in `summarize` but for the gain.

  `target_accuracy` is the accuracy whose share of clients is reported.
  """

  def of_clients(tallies: np.ndarray, outputs: Any = None) -> dict[str, Any]:
    return _client_distribution(objective, tallies, outputs, target_accuracy)

  summary: dict[str, Any] = {
      "num_clusters": len(result.assignment.clusters),
      "clients": of_clients(result.clients, result.outputs),
      "global_mean": _known(objective.metrics(result.global_mean)),
      "global_weighted": _known(objective.metrics(result.global_weighted)),
      "clients_blended": of_clients(result.clients_blended),
      "global_blended": _mean_model_metrics(objective, result.global_blended),
      "cost": result.cost.by_name(),
  }
  if result.new_clients is not None:
    summary["new_clients"] = of_clients(result.new_clients, result.new_outputs)
  if result.validation is not None:
    summary["validation"] = of_clients(result.validation, result.validation_outputs)
  for name in ("adjusted_rand_index", "purity"):
    if getattr(result, name) is not None:
      summary[name] = float(getattr(result, name))
  return summary


def pretrain_summary(
    objective: objectives.Objective, result: result_lib.PretrainResult, target_accuracy: float
) -> dict[str, Any]:
  """Returns the summary of phase 1, as in `summarize`."""
  summary = {
      "global": _known(objective.metrics(result.global_test)),
      "clients": _client_distribution(
          objective, result.clients, result.outputs, target_accuracy
      ),
      "cost": result.cost.by_name(),
  }
  if result.new_clients is not None:
    summary["new_clients"] = _client_distribution(
        objective, result.new_clients, result.new_outputs, target_accuracy
    )
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
    "global_blended", "cost", "gain", "adjusted_rand_index", "purity"}}, "comparison"}`,
    with `"privacy"` for a private run, `"num_clusters_choice"`, the number by criterion, where it
    was chosen, and `"baseline": {"clients"}` where it is known, see `baseline.py`.
    `"validation"` is of the clients that have such rows.  A model on a test set is
    `{"accuracy", "recall", "precision"}`; clients are `{"accuracy": {"mean",
    "sd", "p10", "max"}, "pooled_accuracy", "recall": as accuracy, "share_at_target"}`,
    where all clients weigh alike but in the pooled accuracy, which is of all their test
    examples together.  Standard deviations are over clients (divided by N).
    `"num_test_examples"` are the examples of `"clients"`, of `"new_clients"` and of the
    `"global"` test set. A cost is `{"client_steps", "bytes_down", "bytes_up"}`, phase 1
    included where the method builds on it. A gain over `fedavg` is `{"mean", "low",
    "high", "detectable", "verdict"}`, see `gains.py`; `"comparison"` says what its interval
    rests on, and the metric where it is not the accuracy.
  """
  objective = objectives.of(task.model)
  summary: dict[str, Any] = {
      "dataset": task.name,
      "num_clients": len(task.clients),
      "num_test_examples": _num_test_examples(task),
      "seed": config.seed,
      "pretrain": pretrain_summary(objective, result.pretrain, config.target_accuracy),
      "methods": {
          name: method_summary(objective, method, config.target_accuracy)
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
  if result.metric != judging.ACCURACY:
    summary["comparison"]["metric"] = result.metric
  if result.baseline is not None:
    summary["baseline"] = {"clients": _client_distribution(
        objective, result.baseline.clients, result.baseline.outputs, config.target_accuracy
    )}
  for name, gain in _gains(objective, result).items():
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
