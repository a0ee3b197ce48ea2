"""The leaderboards of `docs/which_baselines.md`: what the studies in `docs/` found, as tables.

Intervals are those of a study's own page: those of all differences of one study hold at once.
"""

from __future__ import annotations

import glob
import os
import types
from typing import Any, Iterator, Mapping

from experiment_shell import scores
from experiment_shell import study
from experiments.grouping_study import cells
from experiments.grouping_study import config as config_lib
from experiments.grouping_study import results as results_lib
from experiments.grouping_study import settings as settings_lib
from experiments.three_phase import cost_text
from experiments.three_phase import method_names
from fl_clustering.methods import registry as method_registry
from fl_clustering.tasks import registry as task_registry
from fl_clustering.three_phase import config as run_config

HEADER = (
    "method", "accuracy, mean ± sd", "gain over FedAvg", "gain over fine-tuning", "groups found in",
    "steps", "sent and received",
)


def read(path: str) -> results_lib.Results:
  """Returns what the study of a committed `results.csv` found.

  Its settings are those that the table shows, which are enough for differences and intervals.
  """
  header, lines = study.read_table(path, cells.TEXT_COLUMNS)
  rows = [dict(zip(header, line)) for line in lines]
  names = {column: tuple(dict.fromkeys(row[column] for row in rows)) for column in cells.KEYS}
  methods = tuple(name for name in names["method"] if name in method_registry.METHODS)
  # The data don't count, but must have the settings.
  dataset = "emnist" if task_registry.NATURAL in names["setting"] else "digits"
  config = config_lib.StudyConfig(
      run_config.ThreePhaseConfig(dataset=dataset, control_repeats=0, methods=methods),
      names["setting"], len(names["seed"]),
      None if names["fold"] == (None,) else len(names["fold"]),
  )
  run: Any = types.SimpleNamespace(settings=config.to_json(), rows=lambda *unused_arguments: rows)
  return results_lib.Results(run)


def _gain(results: results_lib.Results, setting: str, method: str, reference: str) -> str:
  """Returns a method's gain and its interval, in bold if that leaves out zero."""
  if method not in results.compared_with(reference):
    return ""
  gain = results.gain(setting, method, reference)
  if gain is None:
    return ""
  text = f"{scores.points(gain.mean)} ({results_lib.ends_text(gain)})"
  return f"**{text}**" if gain.leaves_out_zero else text


def rows(results: results_lib.Results, setting: str) -> Iterator[tuple[str, ...]]:
  """Yields the rows of a setting's table, the most accurate method first."""
  def accuracy(method: str) -> float:
    mean = results.mean(setting, method, "accuracy")
    assert mean is not None  # The committed studies have no failures.
    return mean

  methods = [method for method in results.methods if method != cells.PRETRAIN]
  for method in sorted(methods, key=accuracy, reverse=True):
    found, count = results.num_found(setting, method)
    steps, down, up = (
        results.mean(setting, method, name) for name in ("client_steps", "bytes_down", "bytes_up")
    )
    assert steps is not None and down is not None and up is not None
    yield (
        method_names.method_name(method),
        results_lib.accuracy_text(results.interval(setting, method)),
        *(_gain(results, setting, method, one) for one in results_lib.REFERENCES),
        f"{found} of {count}" if count else "",
        cost_text.steps_text(steps), cost_text.bytes_text(down + up),
    )


def text(about: Mapping[str, str]) -> str:
  """Returns a section for every study whose table is in `docs/`, with a table for each setting.

  Args:
    about: From the names of the studies' presets to what they are.
  """
  found = ""
  for path in sorted(glob.glob("docs/study_*.csv")):
    file = os.path.basename(path)
    name, results = file.removesuffix(".csv"), read(path)
    found += f"### {name}\n\n{about[name]}  [All cells as CSV]({file}).\n\n"
    for setting in results.settings:
      lines = (HEADER, ("---",) * len(HEADER), *rows(results, setting))
      found += f"`{setting}`: {settings_lib.SETTINGS[setting].about}.\n\n"
      found += "".join(f"| {' | '.join(line)} |\n" for line in lines) + "\n"
  return found
