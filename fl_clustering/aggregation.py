"""How the server averages the clients' updates in FedAvg, and what that protects.

`mean` is FedAvg's own: weighted by the number of examples.  `clipped` is the
same over updates clipped to a fixed L2 norm.  `dp` is DP-FedAvg with fixed
clipping (McMahan et al., "Learning Differentially Private Recurrent Language
Models", ICLR 2018, Algorithm 1): clipped updates, Gaussian noise on their sum,
all clients weighted alike.

The noise of `dp` comes from TensorFlow's own generator with a fresh seed each
time, never from the run's seed: a guarantee whose noise can be drawn again is
none.  Two runs with `dp` therefore differ.
"""

import dataclasses
from typing import Callable, Mapping, Optional

# TensorFlow Federated takes seconds to import, and the flags, which must answer
# at once, read this module's registry: so the functions import it.


def _build_mean(config):
  del config  # Has no settings.
  # FedAvg's own mean, see `federated_training.build_fedavg_round`.
  return None


def _build_clipped(config):
  import tensorflow_federated as tff  # pylint: disable=g-import-not-at-top

  return tff.aggregators.clipping_factory(
      config.clipping_norm, tff.aggregators.MeanFactory()
  )


def _build_dp(config):
  import tensorflow_federated as tff  # pylint: disable=g-import-not-at-top

  return tff.aggregators.DifferentiallyPrivateFactory.gaussian_fixed(
      noise_multiplier=config.noise_multiplier,
      clients_per_round=float(config.clients_per_round or config.num_clients),
      clip=config.clipping_norm,
  )


@dataclasses.dataclass(frozen=True)
class AggregatorEntry:
  """A row of the registry.

  Attributes:
    build: A function from a `ThreePhaseConfig` to a TFF aggregation factory, or
      to `None` for the mean weighted by examples.
    defaults: The options it takes and their defaults; `None` is a default that
      depends on the number of clients.
  """

  build: Callable[..., object]
  defaults: Mapping[str, Optional[float]]


AGGREGATORS = {
    "mean": AggregatorEntry(_build_mean, {}),
    "clipped": AggregatorEntry(_build_clipped, {"clipping_norm": 1.0}),
    "dp": AggregatorEntry(
        _build_dp,
        {"clipping_norm": 1.0, "noise_multiplier": 1.0, "dp_delta": None},
    ),
}


def privacy_spent(config):
  """Returns what `pretrain_rounds` rounds with the `dp` aggregator guarantee.

  A record is a client with all its examples.  When every client takes part in
  every round, neighbouring data sets differ by one client added or removed, and
  the composition of Gaussians is accounted by privacy loss distributions.  When
  a fixed number is drawn without replacement, they differ by one client
  replaced, which changes the sum by up to twice the clipping norm, and Renyi
  differential privacy accounts for the sampling (Wang, Balle, Kasiviswanathan,
  "Subsampled Renyi Differential Privacy and Analytical Moments Accountant",
  AISTATS 2019).

  Args:
    config: A `ThreePhaseConfig` with `aggregator="dp"`.

  Returns:
    A dict with epsilon, delta, the neighbouring relation, and in words what the
    guarantee covers.
  """
  import dp_accounting  # pylint: disable=g-import-not-at-top
  from dp_accounting import pld  # pylint: disable=g-import-not-at-top
  from dp_accounting import rdp  # pylint: disable=g-import-not-at-top

  relation = dp_accounting.NeighboringRelation
  sampled = config.clients_per_round and config.clients_per_round < config.num_clients
  if sampled:
    accountant = rdp.RdpAccountant(neighboring_relation=relation.REPLACE_ONE)
    event = dp_accounting.SampledWithoutReplacementDpEvent(
        config.num_clients,
        config.clients_per_round,
        dp_accounting.GaussianDpEvent(config.noise_multiplier / 2),
    )
  else:
    accountant = pld.PLDAccountant(relation.ADD_OR_REMOVE_ONE)
    event = dp_accounting.GaussianDpEvent(config.noise_multiplier)
  accountant.compose(event, config.pretrain_rounds)
  return {
      "epsilon": float(accountant.get_epsilon(config.dp_delta)),
      "delta": config.dp_delta,
      "neighboring_relation": accountant.neighboring_relation.name.lower(),
      "covers": (
          "the global model after phase 1, per client; not the grouping, which "
          "sees every client's own weights, nor anything trained after it, nor "
          "the metrics reported here"
      ),
  }
