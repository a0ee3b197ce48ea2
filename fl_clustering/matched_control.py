"""The control for methods that train more than FedAvg does in as many rounds.

A client that trains several models in a round has more steps of SGD behind its result, so a
gain over `fedavg` may come from the steps.  `fedavg_matched` goes on where `fedavg` ends until
it has at least as many client steps as the method with the most.
"""

import math

from fl_clustering.methods import registry
from fl_clustering import participation

NAME = "fedavg_matched"

# Less more work than this share isn't worth a control.
_TOLERANCE = 0.05


def numbers(config, outcomes):
  """Returns the numbers of the control's rounds, a list; empty where it isn't needed.

  Args:
    config: The run's `ThreePhaseConfig`.
    outcomes: From the names of all methods and controls to their `method_rounds.Outcome`.
  """
  steps = outcomes[registry.FEDAVG].cost.client_steps
  most_steps = max(outcome.cost.client_steps for outcome in outcomes.values())
  if most_steps <= (1 + _TOLERANCE) * steps:
    return []
  steps_per_round = steps / (config.pretrain_rounds + config.cluster_rounds)
  first = participation.cluster_numbers(config)[-1] + 1
  return list(range(first, first + math.ceil((most_steps - steps) / steps_per_round)))
