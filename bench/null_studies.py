"""Studies in which no method differs from any other, to count those that say one does.

Their cells are drawn, not trained.  What is said of them comes from the study's own code, so it is
tested as a reader sees it.  In every setting, a seed moves all methods together, and each method's
own chance is drawn for itself, from the same law for all:

*   `alike`: normal, as where training is all the chance there is.
*   `luck`: in addition, a method finds the groups with probability 1/2, and has less accuracy where
    it does not.  With few seeds, Student's t is wrong for such differences.
"""

from __future__ import annotations

import os
from typing import Any, NamedTuple

import numpy as np

from clustering_basics import file_format
from experiment_shell import finished_run
from experiment_shell import output_folder
from experiments.grouping_study import cells
from experiments.grouping_study import config as config_lib
from experiments.grouping_study import findings
from experiments.grouping_study import results as results_lib
from fl_clustering.three_phase import config as run_config

LAWS = ("alike", "luck")
_OF_METHODS: dict[str, Any] = {"num_clusters": 4}
_ACCURACY, _OF_SEED, _OF_METHOD, _OF_GROUPS = 0.8, 0.02, 0.005, 0.1


class Claims(NamedTuple):
  """What a study says where nothing is to be said.

  Attributes:
    headline: Whether its first sentence announces a gain.
    anywhere: Whether any sentence, colour or bold number does, or a loss.
  """

  headline: bool
  anywhere: bool


def _accuracy(law: str, rng: np.random.Generator) -> float:
  groups = _OF_GROUPS * rng.integers(2) if law == "luck" else 0.0
  return rng.normal(_ACCURACY, _OF_METHOD) + groups


def claims(law: str, num_seeds: int, folder: str, rng: np.random.Generator) -> Claims:
  """Returns the claims of a study of the default methods in all settings, without personal models.

  Args:
    law: One of `LAWS`.
    num_seeds: How many seeds it has.
    folder: An existing folder for its tables.
    rng: Draws the cells.
  """
  study = config_lib.StudyConfig(
      run_config.ThreePhaseConfig(
          dataset="digits", methods=config_lib.METHODS, control_repeats=0, **_OF_METHODS
      ),
      num_seeds=num_seeds,
  )
  rows = []
  for group in study.groups:
    of_seed = rng.normal(0, _OF_SEED)
    for method in cells.methods_of(study.run):
      values = {
          **dict.fromkeys(cells.VALUES),
          "accuracy": of_seed + _accuracy(law, rng), "client_steps": 1,
      }
      rows.append([group.setting, group.seed, group.fold, method, *values.values()])
  texts = {
      output_folder.CONFIG: output_folder.json_text(
          file_format.stamped({"config": study.to_json()})
      ),
      cells.RESULTS: output_folder.csv_text(cells.HEADERS[cells.RESULTS], rows),
  }
  for name, text in texts.items():
    with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
      file.write(text)
  results = results_lib.read(finished_run.FinishedRun(folder))
  gains = [
      results.gain(setting, method, reference)
      for setting in results.settings
      for reference in results_lib.REFERENCES
      for method in results.compared_with(reference)
  ]
  return Claims(
      findings.verdict(results).startswith("Grouping"),
      any(gain is not None and gain.leaves_out_zero for gain in gains),
  )
