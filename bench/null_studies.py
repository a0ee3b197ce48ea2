"""Studies in which no method differs from any other, to count those that say one does.

Their cells are drawn, not trained.  What is said of them comes from the study's own code, so it is
tested as a reader sees it.  In every setting, a seed moves all methods together, and each method's
own chance is drawn for itself, from the same law for all:

*   `alike`: normal, as where training is all the chance there is.
*   `luck`: in addition, a method finds the groups with probability 1/2, and has less accuracy where
    it does not.  With few seeds, Student's t is wrong for such differences.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from clustering_basics import intervals
from experiments.study import cells
from experiments.study import config as config_lib
from experiments.study import summary
from fl_clustering.methods import registry as method_registry
from fl_clustering.three_phase import config as run_config

LAWS = ("alike", "luck")
_OF_METHODS: dict[str, Any] = {"num_clusters": 4}
_ACCURACY, _OF_SEED, _OF_METHOD, _OF_GROUPS = 0.8, 0.02, 0.005, 0.1


class Claims(NamedTuple):
  """What a study says where nothing is to be said.

  Attributes:
    headline: Whether the headline announces a gain.
    anywhere: Whether any verdict does, or a loss.
  """

  headline: bool
  anywhere: bool


def _accuracy(law: str, rng: np.random.Generator) -> float:
  groups = _OF_GROUPS * rng.integers(2) if law == "luck" else 0.0
  return rng.normal(_ACCURACY, _OF_METHOD) + groups


def claims(law: str, num_seeds: int, rng: np.random.Generator) -> Claims:
  """Returns the claims of a study of the default methods in all settings, without personal models.

  Args:
    law: One of `LAWS`.
    num_seeds: How many seeds it has.
    rng: Draws the cells.
  """
  study = config_lib.StudyConfig(
      run_config.ThreePhaseConfig(
          dataset="digits", methods=config_lib.DEFAULT_METHODS, control_repeats=0, **_OF_METHODS
      ),
      num_seeds=num_seeds,
  )
  config = study.to_json()
  methods = (method_registry.PRETRAIN, *study.run.methods, *method_registry.CONTROLS)
  rows = []
  for cell in cells.cells(study):
    of_seed = rng.normal(0, _OF_SEED)
    rows += [
        {**cell, "method": method, "accuracy": of_seed + _accuracy(law, rng), "steps": 1}
        for method in methods
    ]
  gains = summary.gains(pd.DataFrame(rows), config)
  headline = summary.headline(gains, config)
  return Claims(
      headline["verdict"].item() != "none", bool((gains["verdict"] != intervals.UNCLEAR).any())
  )
