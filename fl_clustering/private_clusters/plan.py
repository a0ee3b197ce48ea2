"""How private clustered training spends its budget, fixed before anything is asked.

All releases are Gaussian, so the squares of their mu add up (Dong, Roth, Su, "Gaussian
Differential Privacy", 2019), and every part of a run gets a share of mu^2.  No constant here
looks at the data.
"""

from __future__ import annotations

import dataclasses
import math

from clustering_basics import validate
from fl_clustering.engine import participation
from fl_clustering.points import privacy as privacy_lib

# Shares of mu^2: to group the clients, for the first clip norm, and for the report.  The rounds
# of training share the rest.
GROUP_SHARE = 0.20
NORMS_SHARE = 0.01
REPORT_SHARE = 0.04
# Of the share to group: for the mean of the sketches.  The rest is for k-means.
_MEAN_PART = 0.1
# For the rounding of sums of squares of mu.
_UNSPENT = 1e-9
# Planning numbers up to which accuracy suffers little, and above which a run is hardly worth it.
SMALL_NOISE = 0.15
LARGE_NOISE = 0.5


@dataclasses.dataclass(frozen=True)
class PrivateClusters(privacy_lib.Privacy):
  """What is asked for; to k-means of the clients' sketches, one client is one point of norm 1.

  Attributes:
    num_clusters: K; with one cluster, it is DP-FedAvg.
    epsilon: The budget for one client and the whole run: for grouping, training, and all that
      is published.  `inf` for a simulation without noise, with a clip norm above that of every
      first update.
    delta: Its failure probability, in (0, 1).
    rounds: R, the rounds of training.
    clients_per_round: At most how many clients take part in a round; None for all.  Every client
      takes part in the same number of rounds, with as many others as come out even.
    trust: Who adds the noise, as in `points/privacy.py`.
    min_clients: As in `points/privacy.py`.
    local_steps: Gradient steps of a client in a round, on all of its examples.
    learning_rate: Of these steps.
    target_unclipped_quantile: The share of the clients' updates that the clip norm shall leave as
      they are (Andrew, Thakkar, McMahan, Ramaswamy, NeurIPS 2021).
  """

  num_clusters: int
  epsilon: float
  delta: float
  rounds: int = 25
  clients_per_round: int | None = None
  trust: str = privacy_lib.SERVER
  min_clients: int | None = None
  local_steps: int = 3
  learning_rate: float = 0.5
  target_unclipped_quantile: float = 0.5

  radius = 1.0
  points_per_client = 1
  unit = "one client with all of its data"
  may_be_exact = True

  def __post_init__(self) -> None:
    super().__post_init__()
    for name in ("num_clusters", "rounds", "local_steps"):
      validate.integer(minimum=1, **{name: getattr(self, name)})
    if self.clients_per_round is not None:
      validate.integer(minimum=1, clients_per_round=self.clients_per_round)
    validate.positive(learning_rate=self.learning_rate)
    # The first clip norm is of a noisy histogram, whose tail is noise.
    validate.within(0.1, 0.9, target_unclipped_quantile=self.target_unclipped_quantile)

  @property
  def is_private(self) -> bool:
    """Whether there is a budget at all."""
    return self.epsilon != math.inf

  def check_clients(self, num_clients: int) -> None:
    """Raises a ValueError if there are too few clients, or the rounds are not whole passes."""
    for name in ("num_clusters", "clients_per_round"):
      if (getattr(self, name) or 0) > num_clients:
        raise validate.error(name, f"be at most the {num_clients} clients", getattr(self, name))
    pass_rounds = self._pass_rounds(num_clients)
    if (self.min_clients or 0) > num_clients // pass_rounds:
      raise validate.error(
          "min_clients", f"be at most the {num_clients // pass_rounds} clients of a round",
          self.min_clients,
      )
    if self.rounds % pass_rounds:
      raise validate.error(
          "rounds", f"be a multiple of the {pass_rounds} in which every client takes part once",
          self.rounds,
      )

  def _pass_rounds(self, num_clients: int) -> int:
    return participation.pass_rounds(num_clients, self.clients_per_round)

  def budget(self, num_clients: int) -> Budget:
    """Returns the budget's parts; every one is `inf` without a budget."""
    mu = self.mu
    own_rounds = self.rounds // self._pass_rounds(num_clients)
    if not self.is_private:
      return Budget(mu, mu, mu, mu, mu, mu, own_rounds)
    group = GROUP_SHARE if self.num_clusters > 1 else 0.0
    rest = (1 - group - NORMS_SHARE - REPORT_SHARE) * (1 - _UNSPENT)
    return Budget(
        total=mu,
        mean_sketch=mu * math.sqrt(_MEAN_PART * group),
        kmeans=mu * math.sqrt((1 - _MEAN_PART) * group),
        norms=mu * math.sqrt(NORMS_SHARE),
        round_=mu * math.sqrt(rest / own_rounds),
        report=mu * math.sqrt(REPORT_SHARE),
        own_rounds=own_rounds,
    )

  def planning_number(self, num_parameters: int, num_clients: int) -> float:
    """Returns the planning number rho, K sqrt(P) / (mu sqrt(B N)) with the mu of all rounds.

    It is the noise that all rounds add to a model, as long as it is in all directions together,
    relative to as many mean updates of the clip norm that all point in one direction.  It
    doesn't depend on the number of rounds: twice as many add up twice the signal and, each with
    half of the squared mu, twice the noise.  It knows nothing of label skew, nor of how much
    shorter than the clip norm updates are, as many are above the median.
    """
    num_asked = num_clients // self._pass_rounds(num_clients)
    training = self.budget(num_clients).round_ * math.sqrt(self.rounds)
    noise = self.num_clusters * math.sqrt(num_parameters) / (training * num_asked)
    return noise * privacy_lib.noise_factor(self, num_asked)


@dataclasses.dataclass(frozen=True)
class Budget:
  """The mu of every part of a run.

  Attributes:
    total: Of the whole run.
    mean_sketch: Of the mean of the clients' sketches; zero with one cluster.
    kmeans: Of all rounds of k-means on the sketches; zero with one cluster.
    norms: Of the histogram of the updates' norms.
    round_: Of one round of training in which the client takes part.
    report: Of the report at the end.
    own_rounds: r, in how many of all rounds a client takes part.
  """

  total: float
  mean_sketch: float
  kmeans: float
  norms: float
  round_: float
  report: float
  own_rounds: int

  @property
  def shares(self) -> dict[str, float]:
    """The shares of the squared mu, by what they are spent on."""
    squares = {
        "grouping": self.mean_sketch**2 + self.kmeans**2,
        "first clip norm": self.norms**2,
        "training": self.round_**2 * self.own_rounds,
        "report": self.report**2,
    }
    return {part: square / self.total**2 for part, square in squares.items()}


def advice(planning_number: float, num_clusters: int) -> str:
  """Returns what a planning number means, in a sentence."""
  found = f"The noise is {planning_number:.2f} of the signal (the planning number)"
  if planning_number <= SMALL_NOISE:
    return f"{found}: without label skew, about a point of accuracy is lost to it, or less."
  if planning_number <= LARGE_NOISE:
    return f"{found}: expect to lose several points of accuracy to it."
  if num_clusters == 1:
    return f"{found}: too much to learn a model. Take a smaller model or more clients."
  return (
      f"{found}: too much to learn clusters. Take fewer clusters, a smaller model or more "
      "clients, or one cluster, which is DP-FedAvg."
  )
