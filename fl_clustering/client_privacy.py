"""What the `dp` aggregator guarantees every client, computed before any training.

In each round it clips every participant's update to L2 norm C, adds them up, adds
Gaussian noise of standard deviation z C (z = `noise_multiplier`) and divides by the
number of participants, which is the same in every round.  Data sets are neighbours if
they differ in one client, whose updates are zeros in one of them; how many clients
there are, and who takes part when, is the same in both and known to everyone.  Then
the sum differs by at most C in the rounds in which that client takes part, and not at
all in the others, so that m such rounds are together mu-Gaussian differentially
private with mu = sqrt(m) / z (Dong, Roth, Su: "Gaussian Differential Privacy", Journal
of the Royal Statistical Society B, 2022, corollary 2, https://arxiv.org/abs/1905.02383).
A client with other data instead of none moves the sum by up to 2 C: mu is twice that.

Drawing few clients for a round makes m smaller and gains nothing else: amplification by
sampling needs a draw that nobody knows, and this one follows from the run's seed.
"""

import math

from dp_clustering import privacy_calculator
from fl_clustering import participation

_COVERS = (
    "the global models of phase 1, for whoever sees those and nothing else; not the "
    "clients' own weights, which reach the server unprotected when phase 1 ends, and so "
    "not the clusters, nor any model of phases 2 and 3, nor the metrics reported here"
)


def spent(config):
  """Returns the (epsilon, delta) guarantee of phase 1, per client with all its data.

  Args:
    config: A `ThreePhaseConfig`.

  Returns:
    `None` where the aggregator is not private, else a dict: `epsilon` at `delta` for the `neighboring_relation`, a client's updates
    replaced by zeros; `epsilon_replace_one` if a client's data are replaced by any
    other; `rounds_per_client`, the most rounds of phase 1 in which a client takes
    part; and in words what the guarantee `covers`.
  """
  aggregator = config.build_aggregator()
  if not aggregator.is_private:
    return None
  rounds = participation.most_rounds_of_a_client(
      config.seed, config.num_clients, config.clients_per_round, config.pretrain_rounds
  )
  mu = math.sqrt(rounds) / aggregator.noise_multiplier
  return {
      "epsilon": privacy_calculator.gaussian_epsilon(mu, aggregator.dp_delta),
      "epsilon_replace_one": privacy_calculator.gaussian_epsilon(2 * mu, aggregator.dp_delta),
      "delta": aggregator.dp_delta,
      "neighboring_relation": "zero_out_one_client",
      "rounds_per_client": rounds,
      "covers": _COVERS,
  }
