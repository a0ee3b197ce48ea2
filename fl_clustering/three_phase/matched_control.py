"""The control for methods that train more than FedAvg does in as many rounds.

A client that trains several models in a round has more steps of SGD behind its result, so a
gain over `fedavg` may come from the steps.  `fedavg_matched` goes on where `fedavg` ends until
it has at least as many client steps as the method with the most.
"""

from __future__ import annotations

from typing import Mapping, TYPE_CHECKING

from fl_clustering.engine import participation
from fl_clustering.methods import registry

if TYPE_CHECKING:
  from fl_clustering.engine import engine as engine_lib
  from fl_clustering.three_phase import config as config_lib
  from fl_clustering.three_phase import result as result_lib

# Less more work than this share isn't worth a control.
TOLERANCE = 0.05


def numbers(
    config: config_lib.ThreePhaseConfig, results: Mapping[str, result_lib.MethodResult],
    engine: engine_lib.Engine, least_steps: int = 0,
) -> list[int]:
  """Returns the numbers of the control's rounds; none where it isn't needed.

  Args:
    least_steps: The most client steps of methods of other runs, which it matches too.
  """
  steps = results[registry.FEDAVG].cost.steps
  most_steps = max(least_steps, *(result.cost.steps for result in results.values()))
  if most_steps <= (1 + TOLERANCE) * steps:
    return []
  found: list[int] = []
  number = participation.cluster_numbers(config)[-1]
  while steps < most_steps:
    number += 1
    # Rounds differ in their clients, and so in their steps.
    round_ = participation.round_of(config, len(engine.clients), number)
    steps += engine.training_cost(round_.clients, round_.num_epochs).steps
    found.append(number)
  return found
