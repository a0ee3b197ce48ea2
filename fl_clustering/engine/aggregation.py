"""How the server averages the clients' updates in FedAvg, and what that protects.

`mean` is FedAvg's own: weighted by the number of examples.  `clipped` is the
same over updates clipped to a fixed L2 norm.  `dp` is DP-FedAvg with fixed
clipping (McMahan et al., "Learning Differentially Private Recurrent Language
Models", ICLR 2018, Algorithm 1): clipped updates, Gaussian noise on their sum,
all clients weighted alike.

The noise of `dp` comes from TensorFlow's own generator with a fresh seed each
time, never from the run's seed.  Otherwise, whoever knows the seed could draw the
same noise again and subtract it.  Two runs with `dp` therefore differ.
"""

import dataclasses
import math
from typing import Any, ClassVar

from clustering_basics import options
from clustering_basics import validate

# The functions import TensorFlow Federated, which takes seconds, and the accounting: the
# flags read this module's registry and must answer at once.


def _clipping_norm_option() -> Any:
  return options.option(
      float, "L2 norm that the clients' updates are clipped to.", default=1.0
  )


@dataclasses.dataclass(frozen=True)
class Mean:
  """FedAvg's own mean, which `federated_training.FedAvg` takes by itself."""

  about: ClassVar[str] = "weighted by examples"
  is_private: ClassVar[bool] = False

  def build(self, clients_per_round: int) -> None:
    """Returns `None`, which stands for it."""
    del clients_per_round  # It may differ from round to round.

  def guarantee(self, rounds_per_client: int) -> None:
    """Returns `None`: it protects nobody."""
    del rounds_per_client


@dataclasses.dataclass(frozen=True)
class Clipped:
  """The mean weighted by examples over clipped updates.

  Attributes:
    clipping_norm: L2 norm that updates are clipped to.
  """

  about: ClassVar[str] = "the same over clipped updates"
  is_private: ClassVar[bool] = False

  clipping_norm: float = _clipping_norm_option()

  def __post_init__(self) -> None:
    validate.float32(clipping_norm=self.clipping_norm)

  def build(self, clients_per_round: int) -> Any:
    """Returns the TFF aggregation factory."""
    import tensorflow_federated as tff  # pylint: disable=g-import-not-at-top

    del clients_per_round  # It may differ from round to round.
    return tff.aggregators.clipping_factory(
        self.clipping_norm, tff.aggregators.MeanFactory()
    )

  def guarantee(self, rounds_per_client: int) -> None:
    """Returns `None`: it protects nobody."""
    del rounds_per_client


def _default_delta(num_clients: int) -> float:
  """Returns the customary choice: below one over the number of records."""
  if num_clients == 1:
    raise validate.error(
        "num_clients",
        "be >= 2 with aggregator=dp unless dp_delta is given, whose default is "
        "num_clients^-1.1",
        num_clients,
    )
  return num_clients**-1.1


@dataclasses.dataclass(frozen=True, kw_only=True)
class Dp:
  """The mean of clipped updates with Gaussian noise, all clients weighted alike.

  Attributes:
    clipping_norm: L2 norm that updates are clipped to.
    noise_multiplier: Standard deviation of the noise on the sum of the updates, in units
      of `clipping_norm`.
    dp_delta: The delta at which epsilon is stated.
  """

  about: ClassVar[str] = (
      "clipped, all clients alike, with Gaussian noise and an (epsilon, delta) per client, "
      "which config.json and the report state"
  )
  is_private: ClassVar[bool] = True

  clipping_norm: float = _clipping_norm_option()
  noise_multiplier: float = options.option(
      float,
      "Noise on the sum of updates, as standard deviation in units of --clipping_norm, "
      "from 0.001 to 1e6.",
      default=1.0,
  )
  dp_delta: float = options.option(
      float,
      "The delta at which epsilon is stated.",
      default_for=_default_delta,
      default_text="num_clients^-1.1, for two or more clients",
  )

  def __post_init__(self) -> None:
    # Squares of such norms, and of the noise, are well inside of float32.
    validate.within(1e-9, 1e9, clipping_norm=self.clipping_norm)
    # Outside, an epsilon means nothing, and its computation would lose its precision.
    validate.within(1e-3, 1e6, noise_multiplier=self.noise_multiplier)
    validate.between(0, 1, dp_delta=self.dp_delta)

  def build(self, clients_per_round: int) -> Any:
    """Returns the TFF aggregation factory."""
    # pylint: disable=g-import-not-at-top
    import tensorflow_federated as tff

    from fl_clustering.engine import bounded_updates
    # pylint: enable=g-import-not-at-top

    noisy = tff.aggregators.DifferentiallyPrivateFactory.gaussian_fixed(
        noise_multiplier=self.noise_multiplier,
        clients_per_round=float(clients_per_round),
        clip=self.clipping_norm,
    )
    return bounded_updates.BoundedFactory(self.clipping_norm, noisy)

  def guarantee(self, rounds_per_client: int) -> dict[str, float | str]:
    """Returns what a client is guaranteed, with all its data.

    A round clips every participant's update to L2 norm C (one with a number that is not
    finite becomes zero), adds the updates up, adds Gaussian noise of standard deviation z C
    (z = `noise_multiplier`) to the sum, and divides it by the number of participants, which
    is the same in every round.  If a client's updates are
    replaced by zeros, the sum changes by at most C in the rounds in which the client takes
    part, and not at all in the others.  So m such rounds are together mu-Gaussian
    differentially private with mu = sqrt(m) / z (Dong, Roth, Su: "Gaussian Differential
    Privacy", Journal of the Royal Statistical Society B, 2022, corollary 2,
    https://arxiv.org/abs/1905.02383).  If a client's data are replaced by any other data, the
    sum changes by up to 2 C, and mu is twice as large.

    Args:
      rounds_per_client: m, the most rounds in which a client takes part.

    Returns:
      A dict: `epsilon` at `delta` for the `neighboring_relation`, a client's updates replaced
      by zeros; and `epsilon_replace_one` if a client's data are replaced by any other.
    """
    from dp_clustering import privacy_calculator  # pylint: disable=g-import-not-at-top

    mu = math.sqrt(rounds_per_client) / self.noise_multiplier
    return {
        "epsilon": privacy_calculator.gaussian_epsilon(mu, self.dp_delta),
        "epsilon_replace_one": privacy_calculator.gaussian_epsilon(2 * mu, self.dp_delta),
        "delta": self.dp_delta,
        "neighboring_relation": "zero_out_one_client",
    }


# To add one, write its dataclass, here or in a file of its own, and add a row: its name is
# then a value of --aggregator, and its options are flags.  `is_private` says whether it draws
# noise that must not be drawn again; `guarantee` says what that guarantees, if anything.
AGGREGATORS = {"mean": Mean, "clipped": Clipped, "dp": Dp}
