"""The experiment's tables, as text for the terminal and as cells for the page."""

import numpy as np

from experiment_shell import text_table
from experiments.multiview import cells
from experiments.multiview import config as config_lib
from experiments.multiview import demonstration
from experiments.multiview import methods
from experiments.multiview import simulated_dha

_QUANTITIES = ("nmi", "ari")
_ABSENT = "–"


def _shown(score):
  return _ABSENT if score is None else score.text()


def method_rows(results):
  """Returns the table of one data set.

  Args:
    results: `summary.Results`.

  Returns:
    Header groups as (heading, number of columns), the header, and rows of text.
  """
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
      rows.append([label, method.place] + [_shown(score) for score in scores])
  return groups, header, rows


def unscored_rows(results):
  """Returns header and rows for points without known classes."""
  header = ["method", "rounds", "objective"]
  rows = []
  for rule in methods.RULES:
    outcomes = [results.outcome(rule, cells.AS_GIVEN, seed) for seed in results.seeds]
    objective = np.mean([one.objectives[-1] for one in outcomes])
    rows.append([
        methods.METHODS[rule].label, f"{np.mean([one.rounds for one in outcomes]):.1f}",
        f"{objective:.4g}",
    ])
  return header, rows


def view_rows(results, view_names):
  """Returns header and rows of the views: alone, and their weights by rule."""
  partitions = results.partitions
  rules = [rule for rule in methods.RULES if rule != "equal"]
  header = ["view", "NMI alone", "ARI alone"] + [
      f"{methods.METHODS[rule].label}, {partition}" for rule in rules for partition in partitions
  ]
  weights = {
      (rule, partition): results.view_weights(rule, partition)
      for rule in rules for partition in partitions
  }
  rows = []
  for index, view in enumerate(view_names):
    alone = [results.single_view(view, quantity) for quantity in _QUANTITIES]
    learnt = [column[index] for column in weights.values()]
    rows.append([view] + [_shown(score) for score in (*alone, *learnt)])
  return header, rows


def demonstration_rows(results):
  """Returns header and rows of the tutorial's data: its claims beside what comes out."""
  seed = simulated_dha.SOURCE_SEED
  header = [
      "method", "NMI claimed", "ARI claimed", f"NMI, seed {seed}", f"ARI, seed {seed}",
      f"NMI, {len(results.seeds)} seeds", f"ARI, {len(results.seeds)} seeds",
  ]
  rows = []
  for name, row in demonstration.ROWS.items():
    claim = simulated_dha.CLAIMS.get(row.claim)
    claimed = [_ABSENT] * 2 if claim is None else [str(value) for value in claim]
    one = results.outcome(name, cells.AS_GIVEN, seed)
    over_seeds = [_shown(results.score(name, cells.AS_GIVEN, q)) for q in _QUANTITIES]
    rows.append([row.label, *claimed, f"{one.nmi:.3f}", f"{one.ari:.3f}", *over_seeds])
  return header, rows


def dataset_text(results, dataset):
  """Returns the table of one data set for the terminal."""
  if dataset == config_lib.DEMONSTRATION:
    return text_table.text_table(*demonstration_rows(results))
  groups, header, rows = method_rows(results)
  if not rows:
    return text_table.text_table(*unscored_rows(results))
  return text_table.text_table(header, rows, groups)
