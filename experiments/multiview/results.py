"""What a finished experiment measured: scores over the seeds, the summary, and tables.

A table is header groups, header and rows as `text_table` takes them, or header and rows.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Iterable, Mapping

import numpy as np
from scipy import optimize

from experiment_shell import finished_run
from experiment_shell import scores as scores_lib
from experiment_shell import text_table
from experiments.multiview import cells
from experiments.multiview import config as config_lib
from experiments.multiview import data as data_lib
from experiments.multiview import methods
from experiments.multiview import simulated_dha

_QUANTITIES = ("nmi", "ari")


def _mean(score: scores_lib.Spread | None) -> float:
  if score is None:
    raise ValueError("nothing was measured")
  return score.mean


class Results:
  """The measurements of one data set.

  Attributes:
    source: One line on where the data come from; empty for the tutorial's data.
    view_names: The names of its views; empty for the tutorial's data.
    class_names: The names of the user's classes by number; None where classes are numbers.
    seeds: The seeds, in ascending order.
    partitions: The partitions that were measured, without `cells.POOLED`.
  """

  def __init__(
      self, name: str, rows: Iterable[Mapping[str, Any]], description: Mapping[str, Any]
  ) -> None:
    """Picks the data set's rows of a study.

    Args:
      description: What `config.json` says of the data set; empty for the tutorial's data.
    """
    self.name = name
    self.source = description.get("source", "")
    self.view_names = list(description.get("views", ()))
    self.class_names = description.get("classes")
    keys = ("method", "partition", "view")
    rows = [row for row in rows if row["dataset"] == name]
    measured = scores_lib.table(rows, (*keys, "seed", *_QUANTITIES, "rounds"), "seed")
    self._scores = scores_lib.Scores(measured, keys, "seed")
    self._rows = {(*(row[key] for key in keys), row["seed"]): row for row in rows}
    self.seeds = self._scores.repetitions
    partitions = dict.fromkeys(partition for _, partition, _ in self._scores.settings)
    self.partitions = [partition for partition in partitions if partition != cells.POOLED]

  def outcomes(self, method: str, partition: str) -> dict[int, methods.Outcome]:
    """Returns what a method gave, by the seeds with which it was measured."""
    setting = (method, partition, methods.ALL_VIEWS)
    return {
        seed: methods.outcome_of_row(self._rows[(*setting, seed)])
        for seed in self.seeds if (*setting, seed) in self._rows
    }

  def single_view(self, view: str, quantity: str) -> scores_lib.Spread | None:
    """Returns the score of k-means on one view alone, or None."""
    return self._scores.spread(quantity, "single_view", cells.POOLED, view)

  def best_view(self) -> str | None:
    """Returns the view whose k-means has the best NMI: a choice that needs the labels."""
    views = [view for method, _, view in self._scores.settings if method == "single_view"]
    return max(views, key=lambda view: _mean(self.single_view(view, "nmi")), default=None)

  @property
  def has_classes(self) -> bool:
    """Whether the points' classes are known, so that clusters can be scored."""
    return self.best_view() is not None

  def score(self, method: str, partition: str, quantity: str) -> scores_lib.Spread | None:
    """Returns the score of a method, or None if it was not measured there."""
    if method == "single_view":
      best = self.best_view()
      return self.single_view(best, quantity) if best else None
    row = methods.METHODS.get(method)
    if row is not None and row.place == "central":
      partition = cells.POOLED
    return self._scores.spread(quantity, method, partition, methods.ALL_VIEWS)

  def mean(self, method: str, partition: str, quantity: str) -> float:
    """Returns the mean score of a method; it must have been measured there."""
    return _mean(self.score(method, partition, quantity))

  def view_weights(self, rule: str, partition: str) -> list[scores_lib.Spread]:
    """Returns the weight of each view by a rule."""
    weights = zip(*(one.view_weights for one in self.outcomes(rule, partition).values()))
    return [found for found in map(scores_lib.summarize, weights) if found is not None]


def read(run: finished_run.FinishedRun) -> dict[str, Results]:
  """Returns the results by data set."""
  # A view of the user's may be called 1.
  rows = run.rows(config_lib.MEASUREMENTS, text_columns=("view",))
  descriptions = dict(run.document["data"])
  if run.document["with_demonstration"]:
    descriptions[data_lib.DEMONSTRATION] = {}
  return {name: Results(name, rows, one) for name, one in descriptions.items()}


def summary(results: Mapping[str, Results]) -> dict[str, Any]:
  """Returns all scores by data set, method and partition, for JSON."""
  found: dict[str, Any] = {}
  for name, one in results.items():
    rows = simulated_dha.ROWS if name == data_lib.DEMONSTRATION else methods.METHODS
    found[name] = {"seeds": one.seeds, "best_view": one.best_view()}
    for method in rows:
      found[name][method] = {
          partition: {
              quantity: score and dataclasses.asdict(score)
              for quantity in (*_QUANTITIES, "rounds")
              for score in [one.score(method, partition, quantity)]
          }
          for partition in one.partitions
      }
  return found


def matched_points(points: Mapping[int, tuple[int, ...]]) -> np.ndarray:
  """Returns how many points of each class are in each cluster, (num_classes, num_clusters).

  The clusters are in the order that puts most points on the diagonal.

  Args:
    points: From a class to counts, as in `Outcome`.
  """
  matrix = np.array(list(points.values()))
  rows, columns = optimize.linear_sum_assignment(-matrix)
  matched = [column for _, column in sorted(zip(rows, columns))]
  rest = [column for column in range(matrix.shape[1]) if column not in matched]
  return matrix[:, matched + rest]


def method_table(
    results: Results,
) -> tuple[list[tuple[str, int]], list[str], list[list[str]]]:
  """Returns the table of scores, with header groups; without rows if classes are not known."""
  groups = [("", 2)] + [(partition, len(_QUANTITIES)) for partition in results.partitions]
  header = ["method", "points"] + [q.upper() for q in _QUANTITIES] * len(results.partitions)
  rows = []
  for name, method in methods.METHODS.items():
    scores = [
        results.score(name, partition, quantity)
        for partition in results.partitions for quantity in _QUANTITIES
    ]
    if any(score is not None for score in scores):
      label = method.label
      if name == "single_view":
        label += f" ({results.best_view()})"
      rows.append([label, method.place, *map(scores_lib.text, scores)])
  return groups, header, rows


def unscored_table(results: Results) -> tuple[list[str], list[list[str]]]:
  """Returns the table for points without known classes."""
  header = ["method", "rounds", "objective"]
  rows = []
  for rule in methods.RULES:
    outcomes = results.outcomes(rule, cells.AS_GIVEN).values()
    objective = np.mean([one.objectives[-1] for one in outcomes])
    rounds = results.mean(rule, cells.AS_GIVEN, "rounds")
    rows.append([methods.METHODS[rule].label, f"{rounds:.1f}", f"{objective:.4g}"])
  return header, rows


def view_table(results: Results) -> tuple[list[str], list[list[str]]]:
  """Returns the table of the views: scores of each alone, and weights by rule."""
  partitions = results.partitions
  rules = [rule for rule in methods.RULES if rule != "equal"]
  header = ["view", "NMI alone", "ARI alone"] + [
      f"{methods.METHODS[rule].label}, {partition}" for rule in rules for partition in partitions
  ]
  weights = [
      results.view_weights(rule, partition) for rule in rules for partition in partitions
  ]
  rows = []
  for index, view in enumerate(results.view_names):
    alone = [results.single_view(view, quantity) for quantity in _QUANTITIES]
    learnt = [column[index] for column in weights]
    rows.append([view, *map(scores_lib.text, (*alone, *learnt))])
  return header, rows


def demonstration_table(results: Results) -> tuple[list[str], list[list[str]]]:
  """Returns the table of the tutorial's data: its claims and our measurements."""
  seed = simulated_dha.SOURCE_SEED
  header = [
      "method", "NMI claimed", "ARI claimed", f"NMI, seed {seed}", f"ARI, seed {seed}",
      f"NMI, {len(results.seeds)} seeds", f"ARI, {len(results.seeds)} seeds",
  ]
  rows = []
  for name, row in simulated_dha.ROWS.items():
    claimed = [scores_lib.ABSENT] * 2 if row.claim is None else [*map(str, row.claim)]
    one = results.outcomes(name, cells.AS_GIVEN)[seed]
    over_seeds = [
        scores_lib.text(results.score(name, cells.AS_GIVEN, quantity)) for quantity in _QUANTITIES
    ]
    rows.append([row.label, *claimed, f"{one.nmi:.3f}", f"{one.ari:.3f}", *over_seeds])
  return header, rows


def _dataset_text(results: Results) -> str:
  if results.name == data_lib.DEMONSTRATION:
    return text_table.text_table(*demonstration_table(results))
  groups, header, rows = method_table(results)
  if not rows:
    return text_table.text_table(*unscored_table(results))
  return text_table.text_table(header, rows, groups)


def text(results: Mapping[str, Results]) -> str:
  """Returns a table for each data set, for the terminal."""
  return "".join(f"\n{name}\n{_dataset_text(one)}\n" for name, one in results.items())
