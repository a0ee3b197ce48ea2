"""What phase 1 guarantees every client, computed before any training.

Two data sets are neighbours if they differ in one client.  How many clients there are, and who
takes part when, is the same in both and known to everyone.  So what counts is in how many
rounds a client takes part, and the guarantee is that of the client that takes part most often.

Drawing few clients for a round makes that number smaller and gains nothing else: amplification
by sampling needs a draw that nobody knows, and this one follows from the run's seed.
"""

from __future__ import annotations

from typing import Any, TYPE_CHECKING

from fl_clustering.engine import participation

if TYPE_CHECKING:
  from fl_clustering.three_phase import config as config_lib

_COVERS = (
    "the global models of phase 1, for whoever sees those and nothing else; not the "
    "clients' own weights, which reach the server unprotected when phase 1 ends, and so "
    "not the clusters, nor any model of phases 2 and 3, nor the metrics reported here"
)


def spent(config: config_lib.ThreePhaseConfig) -> dict[str, Any] | None:
  """Returns the (epsilon, delta) guarantee of phase 1, per client with all its data.

  Returns:
    `None` where the aggregator guarantees nothing, else a dict: what the aggregator's
    `guarantee` says; `rounds_per_client`, the most rounds of phase 1 in which a client takes
    part; and in words what the guarantee `covers`.
  """
  rounds = participation.most_rounds_of_a_client(
      config.seed, config.num_training_clients, config.clients_per_round, config.pretrain_rounds
  )
  guarantee = config.build_aggregator().guarantee(rounds)
  if guarantee is None:
    return None
  return {**guarantee, "rounds_per_client": rounds, "covers": _COVERS}
