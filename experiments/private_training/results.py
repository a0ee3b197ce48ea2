"""What private clusters and their simulations measured: the summary of a simulation, and tables.

A simulation compares methods on data whose true groups and exact accuracies are known, so nothing
of it is private.
"""

from __future__ import annotations

import statistics
from typing import Any, Callable, Iterable, Mapping, Sequence

from experiment_shell import scores
from experiment_shell import text_table
from experiments.grouping_study import intervals

# Folders of a run, and files in them.
RELEASED = "released"
SIMULATION = "simulation"
LEDGER = "ledger.csv"
MODELS = "models.npz"
SIMULATED = "results.csv"

FEDAVG = "fedavg"
DP_FEDAVG = "dp_fedavg"
IFCA = "ifca"
OURS = "private_ifca"
LABELS = {
    FEDAVG: "FedAvg, no privacy",
    DP_FEDAVG: "DP-FedAvg",
    IFCA: "IFCA, no privacy",
    OURS: "private clusters",
}
# Of a method without a budget, in place of its epsilon.
NO_EPSILON = "none"

ARI = "adjusted_rand_index"
ACCURACY = "accuracy"
FINETUNED = "finetuned_accuracy"
# The scores and the least that they can be; all are at most 1.
_SCORES = {ARI: -1.0, ACCURACY: 0.0, FINETUNED: 0.0}
# Of an accuracy whose noise has a larger standard deviation than this.
UNKNOWN = "unknown"
LARGEST_STD = 0.2

NOTE = (
    "NOT private: accuracies are exact, some methods have no privacy at all, and the budgets of "
    "several runs add up. A simulation on the data of real clients must not be published."
)
CAVEAT = (
    "The planning number knows nothing of label skew: where every client has few labels, a small "
    "planning number does not promise a small loss."
)

_Spread = dict[str, Any]
Row = Mapping[str, Any]


def _spread(values: Sequence[float], least: float) -> _Spread | None:
  """Returns mean, range and interval of a score over seeds, for JSON; None without values.

  Args:
    least: The least that the score can be; the most is 1.
  """
  found = intervals.interval(values, (least, 1.0))
  if found is None:
    return None
  return {
      "mean": found.mean,
      "least": min(values),
      "most": max(values),
      "low": found.low,
      "high": found.high,
      "num_seeds": len(values),
  }


def _relative_noise(rows: Iterable[Row]) -> float | None:
  """Returns the largest planning number of any seed; None without noise."""
  return max((row["relative_noise"] for row in rows if row["relative_noise"] is not None),
             default=None)


def _method_summary(rows: Sequence[Row]) -> dict[str, Any]:
  spreads = {
      name: _spread([row[name] for row in rows if row[name] is not None], least)
      for name, least in _SCORES.items()
  }
  means = {name: None if spread is None else spread["mean"] for name, spread in spreads.items()}
  return {
      "num_seeds": len(rows), "relative_noise": _relative_noise(rows), **means, "spread": spreads,
  }


def _pairs(rows: Sequence[Row], epsilon: float, other: str, score: str) -> list[tuple[Row, Row]]:
  """Returns our rows at an epsilon, each with that of another method with the same seed."""
  others = {
      row["seed"]: row for row in rows
      if row["method"] == other and row["epsilon"] in (None, epsilon) and row[score] is not None
  }
  return [
      (row, others[row["seed"]]) for row in rows
      if row["method"] == OURS and row["epsilon"] == epsilon and row["seed"] in others
      and row[score] is not None
  ]


def _comparisons(
    rows: Sequence[Row], epsilons_of_rows: Sequence[float], other: str, score: str
) -> list[dict[str, Any]]:
  """Returns how much better our score is than another method's, at each epsilon."""
  found = []
  for epsilon in epsilons_of_rows:
    pairs = _pairs(rows, epsilon, other, score)
    difference = _spread([ours[score] - theirs[score] for ours, theirs in pairs], -1.0)
    if difference is not None:
      found.append({
          "method": OURS, "against": other, "score": score, "epsilon": epsilon,
          "relative_noise": _relative_noise(ours for ours, _ in pairs), "difference": difference,
      })
  return found


def _losses(rows: Sequence[Row], epsilons_of_rows: Sequence[float]) -> list[dict[str, Any]]:
  """Returns all runs in which DP-FedAvg is more accurate, both fine-tuned."""
  return [
      {
          "epsilon": epsilon, "seed": ours["seed"], "relative_noise": ours["relative_noise"],
          OURS: ours[FINETUNED], DP_FEDAVG: theirs[FINETUNED],
      }
      for epsilon in epsilons_of_rows
      for ours, theirs in _pairs(rows, epsilon, DP_FEDAVG, FINETUNED)
      if ours[FINETUNED] < theirs[FINETUNED]
  ]


def simulation_summary(
    rows: Sequence[Row], data: Mapping[str, Any], delta: float
) -> dict[str, Any]:
  """Returns the summary of a simulation, for JSON.

  Args:
    rows: Those of results.csv, with None for empty cells.
    data: What the released summary says of the data.
  """
  tried = sorted({row["epsilon"] for row in rows if row["epsilon"] is not None})
  methods: dict[str, dict[str, Any]] = {}
  for method in LABELS:
    for epsilon in (None, *tried):
      found = [row for row in rows if (row["method"], row["epsilon"]) == (method, epsilon)]
      if found:
        key = NO_EPSILON if epsilon is None else f"{epsilon:g}"
        methods.setdefault(method, {})[key] = _method_summary(found)
  return {
      "is_private": False,
      "note": NOTE,
      "data": data,
      "delta": delta,
      "methods": methods,
      "comparisons": [
          *_comparisons(rows, tried, DP_FEDAVG, FINETUNED),
          *_comparisons(rows, tried, IFCA, ACCURACY),
      ],
      "losses": _losses(rows, tried),
  }


def epsilons(simulation: Mapping[str, Any]) -> list[float]:
  """Returns the budgets that were tried, in ascending order."""
  return sorted({
      float(key) for of_method in simulation["methods"].values() for key in of_method
      if key != NO_EPSILON
  })


def comparisons(simulation: Mapping[str, Any], other: str) -> list[Mapping[str, Any]]:
  """Returns the comparisons with another method, by ascending epsilon."""
  return [found for found in simulation["comparisons"] if found["against"] == other]


def spread_text(
    spread: Mapping[str, Any] | None, form: Callable[[float], str] = "{:.3f}".format
) -> str:
  """Returns a mean, with its interval in brackets, or with its range in parentheses.

  Several seeds of the same score have neither.
  """
  if spread is None:
    return scores.ABSENT
  mean = form(spread["mean"])
  if spread["low"] is not None and spread["high"] is not None:
    return f"{mean} [{form(spread['low'])}, {form(spread['high'])}]"
  if spread["least"] < spread["most"]:
    return f"{mean} ({form(spread['least'])} to {form(spread['most'])})"
  return mean


METHODS_HEADER = (
    "method", "epsilon", "planning number", "seeds", "adjusted Rand index", "accuracy",
    "fine-tuned",
)


def method_rows(
    simulation: Mapping[str, Any], text: Callable[[Mapping[str, Any] | None], str]
) -> list[list[str]]:
  """Returns a row for each method and epsilon, under `METHODS_HEADER`.

  Args:
    text: Makes text of a spread over seeds, None where there is no score.
  """
  return [
      [
          LABELS[method], scores.ABSENT if key == NO_EPSILON else key,
          scores.score_text(found["relative_noise"], "{:.2f}".format), str(found["num_seeds"]),
          *(text(found["spread"][name]) for name in _SCORES),
      ]
      for method, of_method in simulation["methods"].items() for key, found in of_method.items()
  ]


def data_line(data: Mapping[str, Any]) -> str:
  """Returns what was trained on which data, in one line."""
  return (
      f"{data['source']}. Clients: {data['num_clients']:,}; clusters: {data['num_clusters']}; "
      f"rounds: {data['rounds']}. Model: {data['model']} with {data['num_parameters']:,} "
      "parameters."
  )


def accuracy_text(found: Mapping[str, Any]) -> str:
  """Returns the accuracy of a cluster, or of all clients; `unknown` under too much noise.

  It is "-" where the report was lost.
  """
  if found["num_clients"] is None:
    return scores.ABSENT
  if found["accuracy"] is None or found["accuracy_std"] > LARGEST_STD:
    return UNKNOWN
  return scores.score_text(found["accuracy"])


def report_rows(released: Mapping[str, Any]) -> list[tuple[str, Mapping[str, Any]]]:
  """Returns the names and numbers of the clusters, and last those of all clients."""
  rows = [(str(cluster["cluster"]), cluster) for cluster in released["clusters"]]
  return [*rows, ("all", released["all_clients"])]


def detected(mu: float, false_alarms: float) -> float:
  """Returns the most that any test for a client can detect, as a share of those who took part.

  Args:
    mu: Of Gaussian differential privacy.
    false_alarms: The share of other clients that the test takes for participants.
  """
  normal = statistics.NormalDist()
  return normal.cdf(normal.inv_cdf(false_alarms) + mu)


def budget_text(privacy: Mapping[str, Any]) -> str:
  """Returns what is guaranteed, as one sentence without its full stop."""
  replaced = privacy["replacing_one_client"]
  return (
      f"epsilon {privacy['epsilon']:g} at delta {privacy['delta']:g} for {privacy['unit']}; "
      f"where its data are replaced, epsilon {replaced['epsilon']:.3g} at delta "
      f"{replaced['delta']:g}"
  )


def _released_text(released: Mapping[str, Any]) -> str:
  privacy = released["privacy"]
  rows = [
      [name, scores.score_text(found["num_clients"], "{:.0f}".format), accuracy_text(found)]
      for name, found in report_rows(released)
  ]
  lines = [
      f"planning number {released['plan']['relative_noise']:.2f}. {released['plan']['advice']}",
      budget_text(privacy),
      text_table.text_table(["cluster", "clients, noisy", "accuracy, noisy"], rows),
  ]
  if not privacy["is_private"]:
    lines.insert(0, f"NOT private. The noise was {privacy['noise']}.")
  return "\n".join(lines)


def text(summary: Mapping[str, Any]) -> str:
  """Returns the lines that a run prints last: what it released, and what it simulated.

  Args:
    summary: What the parts `released` and `simulation` (or None) of summary.json say.
  """
  released, simulation = summary["released"], summary["simulation"]
  if simulation is None:
    return _released_text(released)
  rows = method_rows(
      simulation, lambda spread: scores.score_text(None if spread is None else spread["mean"])
  )
  return "\n".join([
      _released_text(released), "", "Simulation, NOT private: exact means over seeds",
      text_table.text_table(METHODS_HEADER, rows),
  ])
