"""How the server averages the clients' updates in FedAvg, and what that protects.

`mean` is FedAvg's own: weighted by the number of examples.  `clipped` is the
same over updates clipped to a fixed L2 norm.  `dp` is DP-FedAvg with fixed
clipping (McMahan et al., "Learning Differentially Private Recurrent Language
Models", ICLR 2018, Algorithm 1): clipped updates, Gaussian noise on their sum,
all clients weighted alike.  What that guarantees: `client_privacy.py`.

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
