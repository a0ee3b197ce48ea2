"""The result of a run as tidy rows: a value for every method, or cluster of it, and metric.

A metric has one name here, in the tables that programs write and on the pages that they print:

*   `accuracy`, `accuracy_sd` and `accuracy_p10` are mean, standard deviation (divided by N) and
    10th percentile over the clients of the accuracy on their own test data.  `recall` is the mean
    over the clients of the mean recall of their classes, and `share_at_target` the share of the
    clients with at least the target accuracy.  `pooled_accuracy` is of all their test examples
    together; in the others, all clients weigh alike.
*   `new_accuracy` and the like are those of the new clients, `validation_accuracy` is on
    validation data, and `blended_accuracy` with each cluster's model blended with the mean of all.
*   `global_accuracy`, `global_recall` and `global_precision` are of the mean of the clusters'
    models on the global test set, and of phase 1 of its model.  `global_weighted_accuracy` and the
    like are of their weighted mean, `global_blended_accuracy` and the like the mean over the
    blended models.
*   `clusters` is their number; `ari` (adjusted Rand index) and `purity` compare them with the true
    groups.
*   `steps`, `bytes_down`, `bytes_up` and `bytes` are costs, phase 1 included where the method
    builds on it.
*   `gain` is over `fedavg`, in percentage points, `gain_low` and `gain_high` are the ends of its
    interval, and `gain_detectable` is the least true gain that would be told from chance; see
    `gains.py`.  Those of a grouping over `finetuned` are called `finetuned_gain` and the like.

What does not apply is absent; nothing is filled in.
"""

from __future__ import annotations

import math
from typing import Any, Iterable, Iterator, Sequence, TYPE_CHECKING

import numpy as np

from fl_clustering.engine import cost as cost_lib
from fl_clustering.engine import metrics as metrics_lib
from fl_clustering.methods import registry
from fl_clustering.three_phase import gains
from fl_clustering.three_phase import stages

if TYPE_CHECKING:
  from fl_clustering.three_phase import config as config_lib
  from fl_clustering.three_phase import result as result_lib

Row = dict[str, Any]


def _of_models(part: str, confusions: np.ndarray) -> dict[str, Any]:
  """Returns the mean over models of their metrics, from matrices (K, C, C), or of one, (C, C)."""
  found = metrics_lib.model_metrics(confusions)
  return {f"{part}_{name}": np.mean(values) for name, values in found.items()}


def _of_clients(confusions: np.ndarray, target_accuracy: float) -> dict[str, Any]:
  """Returns how metrics are distributed over clients, from matrices (N, C, C)."""
  accuracy = metrics_lib.accuracy(confusions)
  return {
      **metrics_lib.client_metrics(confusions),
      "accuracy_sd": np.std(accuracy),
      "pooled_accuracy": metrics_lib.accuracy(confusions.sum(axis=0)),
      "share_at_target": np.mean(accuracy >= target_accuracy),
  }


def _of_tested(
    result: result_lib.MethodResult | result_lib.PretrainResult, target_accuracy: float
) -> dict[str, Any]:
  """Returns what phase 1 and methods have in common."""
  found = {**_of_clients(result.clients, target_accuracy), **result.cost.by_name()}
  if result.new_clients is not None:
    new = _of_clients(result.new_clients, target_accuracy)
    found |= {f"new_{name}": value for name, value in new.items()}
  return found


def _of_method(result: result_lib.MethodResult, target_accuracy: float) -> dict[str, Any]:
  found = {
      "clusters": len(result.assignment.clusters),
      "ari": result.ari,
      "purity": result.purity,
      **_of_tested(result, target_accuracy),
      **_of_models("global", result.global_mean),
      **_of_models("global_weighted", result.global_weighted),
      **_of_models("global_blended", result.global_blended),
      "blended_accuracy": np.mean(metrics_lib.accuracy(result.clients_blended)),
  }
  if result.validation is not None:
    found["validation_accuracy"] = np.mean(metrics_lib.accuracy(result.validation))
  return found


def named(metrics: Iterable[tuple[str, Any]], **columns: Any) -> Iterator[Row]:
  """Yields a row for every number that is defined, as a recall without examples is not."""
  for metric, value in metrics:
    if value is not None and not math.isnan(value):
      yield {**columns, "metric": metric, "value": float(value)}


def of_methods(result: result_lib.ThreePhaseResult, target_accuracy: float) -> Iterator[Row]:
  """Yields the rows of phase 1, of methods and of controls as a whole, without gains.

  Args:
    target_accuracy: The accuracy whose share of clients is among them.
  """
  of_pretrain = _of_tested(result.pretrain, target_accuracy)
  of_pretrain |= _of_models("global", result.pretrain.global_test)
  yield from named(of_pretrain.items(), method=registry.PRETRAIN)
  for name, found in result.methods.items():
    yield from named(_of_method(found, target_accuracy).items(), method=name)


def compared(result: result_lib.ThreePhaseResult) -> Iterator[tuple[str, str, gains.Gain]]:
  """Yields method, control and the gain of the one over the other, for all that is compared."""
  pairs = [
      (name, control) for control, names in (
          (registry.FEDAVG, [name for name in result.methods if name != registry.FEDAVG]),
          (registry.FINETUNED, [name for name in result.methods if name in registry.METHODS]),
      )
      for name in names if control in result.methods
  ]

  def scores(name: str) -> np.ndarray:
    return metrics_lib.accuracy(result.methods[name].clients)

  def trained(name: str) -> list[float]:
    return [float(np.mean(one)) for one in (scores(name), *result.repeats.get(name, ()))]

  for name, control in pairs:
    # Of the controls, FedAvg alone is trained again; the others are taken to vary as much.
    yield name, control, gains.gain(
        scores(name) - scores(control), trained(registry.FEDAVG), trained(name), len(pairs)
    )


def of_result(
    config: config_lib.ThreePhaseConfig, result: result_lib.ThreePhaseResult
) -> Iterator[Row]:
  """Yields all rows: dicts with `method`, `cluster`, `metric` and `value`.

  The cluster is "" for all clusters together.  For each cluster there are `best_accuracy`, the
  highest of its rounds on its clients' test data, and `validation_accuracy`.
  """
  for row in of_methods(result, config.target_accuracy):
    yield {"cluster": "", **row}
  for name, control, gain in compared(result):
    of_gain = "gain" if control == registry.FEDAVG else f"{control}_gain"
    parts = {"": gain.mean, "_low": gain.low, "_high": gain.high, "_detectable": gain.detectable}
    points = {f"{of_gain}{part}": 100 * value for part, value in parts.items()}
    yield from named(points.items(), method=name, cluster="")
  for name, found in result.methods.items():
    for metric in ("best_accuracy", "validation_accuracy"):
      values = getattr(found, metric)
      for cluster, value in enumerate(() if values is None else values):
        yield from named([(metric, value)], method=name, cluster=cluster)


class Rounds(stages.RunObserver):
  """Keeps the rows of all rounds; a resumed run replays its rounds."""

  def __init__(self) -> None:
    self._rows: list[stages.Row] = []

  def round_finished(self, stage: str, round_num: int, rows: Sequence[stages.Row]) -> None:
    self._rows += rows

  def rows(self, result: result_lib.ThreePhaseResult) -> Iterator[Row]:
    """Yields what was told of phase 1 and the methods of a result.

    Returns:
      Dicts with `method`, `cluster`, `round`, `metric` and `value`.  Costs are those of everything
      until then.
    """
    told = [row for row in self._rows if row.method in (registry.PRETRAIN, *result.methods)]
    # Methods start from what they had cost before their rounds, phase 1 from nothing.
    until: dict[tuple[str, str], float] = {
        (method, name): total
        for method, found in result.methods.items() for name, total in found.cost.by_name().items()
    }
    for row in told:
      if (row.method, row.metric) in until:
        until[row.method, row.metric] -= row.value
    until |= {(registry.PRETRAIN, name): 0 for name in cost_lib.Cost().by_name()}
    for row in told:
      key, value = (row.method, row.metric), row.value
      if key in until:
        until[key] += value
        value = until[key]
      yield {**row._asdict(), "value": value}
