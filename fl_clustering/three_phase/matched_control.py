"""The control for methods that train more than FedAvg does in as many rounds.

A client that trains several models in a round has more steps of SGD behind its result, so a
gain over `fedavg` may come from the steps.  `fedavg_matched` goes on where `fedavg` ends until
it has at least as many client steps as the method with the most.
"""

import itertools

from fl_clustering.engine import participation
from fl_clustering.methods import registry

NAME = "fedavg_matched"

# Less more work than this share isn't worth a control.
TOLERANCE = 0.05


def numbers(config, results, engine):
  """Returns the numbers of the control's rounds, a list; empty where it isn't needed.

  Args:
    config: The run's `ThreePhaseConfig`.
    results: From the names of all methods and controls to their `MethodResult`.
    engine: The run's `engine.Engine`.
  """
  steps = results[registry.FEDAVG].cost.client_steps
  most_steps = max(result.cost.client_steps for result in results.values())
  if most_steps <= (1 + TOLERANCE) * steps:
    return []
  found = []
  for number in itertools.count(participation.cluster_numbers(config)[-1] + 1):
    if steps >= most_steps:
      return found
    # Rounds differ in their clients, and so in their steps.
    round_ = participation.round_of(config, engine.client_ids, number)
    steps += engine.training_cost(round_.client_ids, round_.num_epochs).client_steps
    found.append(number)
