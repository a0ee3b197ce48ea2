"""The result of a run as plain numbers, for `summary.json` and for notebooks.

What does not apply is absent; nothing is filled in.
"""

import numpy as np

from fl_clustering import metrics


def _model_metrics(confusion):
  """Returns one model's metrics on one test set, from a matrix (C, C)."""
  return {name: float(value) for name, value in metrics.model_metrics(confusion).items()}


def _mean_model_metrics(confusions):
  """Returns the mean over several models of their metrics, from (K, C, C)."""
  models = [_model_metrics(confusion) for confusion in confusions]
  return {name: float(np.mean([model[name] for model in models])) for name in models[0]}


def _distribution(values):
  return {
      "mean": float(np.mean(values)),
      "sd": float(np.std(values)),
      "p10": float(np.percentile(values, 10)),
      "max": float(np.max(values)),
  }


def _client_distribution(confusions, target_accuracy):
  """Returns how a metric is distributed over clients, from (N, C, C)."""
  of_clients = metrics.model_metrics(confusions)
  return {
      "accuracy": _distribution(of_clients["accuracy"]),
      "recall": _distribution(of_clients["recall"]),
      "share_at_target": float(np.mean(of_clients["accuracy"] >= target_accuracy)),
  }


def _method(result, target_accuracy):
  summary = {
      "num_clusters": len(result.assignment.clusters),
      "clients": _client_distribution(result.clients, target_accuracy),
      "global_mean": _model_metrics(result.global_mean),
      "global_weighted": _model_metrics(result.global_weighted),
      "clients_blended": _client_distribution(result.clients_blended, target_accuracy),
      "global_blended": _mean_model_metrics(result.global_blended),
  }
  for name in ("adjusted_rand_index", "purity"):
    if getattr(result, name) is not None:
      summary[name] = float(getattr(result, name))
  return summary


def summarize(config, task, result):
  """Returns the summary of a run as a dict that JSON can hold.

  Args:
    config: The run's `ThreePhaseConfig`.
    task: Its `FederatedTask`.
    result: Its `ThreePhaseResult`.

  Returns:
    A dict `{"dataset", "num_clients", "seed", "pretrain": {"global", "clients"},
    "methods": {name: {"num_clusters", "clients", "global_mean",
    "global_weighted", "clients_blended", "global_blended",
    "adjusted_rand_index", "purity"}}}`, with `"privacy"` for a private run.
    A model on a test set is `{"accuracy", "recall", "precision"}`; clients are
    `{"accuracy": {"mean", "sd", "p10", "max"}, "recall": the same,
    "share_at_target"}`. Standard deviations are over clients (divided by N).
  """
  summary = {
      "dataset": task.name,
      "num_clients": config.num_clients,
      "seed": config.seed,
      "pretrain": {
          "global": _model_metrics(result.pretrain.global_test),
          "clients": _client_distribution(
              result.pretrain.clients, config.target_accuracy
          ),
      },
      "methods": {
          name: _method(method, config.target_accuracy)
          for name, method in result.methods.items()
      },
  }
  if result.privacy is not None:
    summary["privacy"] = result.privacy
  return summary
