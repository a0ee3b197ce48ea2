"""What fits guarantee, to whom, and against whom.

A row may hold anything: `hold` moves it into a ball before anything is asked of it.
"""

from __future__ import annotations

import collections.abc
import dataclasses
import math
from typing import Any, Callable, Mapping, Sequence, TYPE_CHECKING

import numpy as np

from clustering_basics import validate
from dp_clustering import clustering_params
from dp_clustering import point_grid
from dp_clustering import privacy_calculator
from dp_clustering import refine
from fl_clustering.points import secure_sums

if TYPE_CHECKING:
  from dp_clustering import ledger as ledger_lib
  from dp_clustering import noise
  from dp_clustering import sum_query

SERVER = "server"
NONE = "none"
TRUST = (SERVER, NONE)

# A center that stands on fewer points may show one of them.
FEW_POINTS = 5
# What every text says where sums are exact.
EXACT_TOTALS = (
    "Exact totals don't protect rows; noise does. A cluster of one point is that point, and so may "
    "be the difference of two totals: an attack names all rows of some data, see docs/privacy.md."
)

# A function of (mu, query, stds): the cost of an answer, as mu of Gaussian differential privacy,
# a query, and the standard deviation of the noise on every part of the totals.
NoisyTotals = Callable[[float, "sum_query.SumQuery", Mapping[str, float]], np.ndarray]

# The least scale of a client's share of the noise, in grid steps.  The sum of the shares is
# then a discrete Gaussian up to a factor of 1 +- 1e-1000 in every probability (Kairouz, Liu,
# Steinke, "The Distributed Discrete Gaussian Mechanism for Federated Learning with Secure
# Aggregation", ICML 2021, theorem 1, https://arxiv.org/abs/2102.06387).
LEAST_SHARE_SCALE = 32.0
# The largest scale of the noise, or of the sum of all shares.  It stays between -2^61 and
# 2^61, where secure sums do not overflow, but once in 10^56.
LARGEST_SCALE = 2.0**57
# Secure sums have room for no more points.
_MOST_POINTS = 2**30


class BudgetOutOfRange(ValueError):
  """A budget asks for noise that is too small to be shared, or too large to be added."""

  def __init__(self, rule: str, epsilon: float) -> None:
    super().__init__(f"`epsilon` must be {rule}, got {epsilon!r}.")


class Privacy:
  """(epsilon, delta)-differential privacy of a unit: one point, or a client with its points.

  The unit follows from `points_per_client`.  Points are moved into a ball of known radius around
  the origin.  `PointPrivacy` explains the settings.
  """

  epsilon: float
  delta: float
  radius: float
  trust: str
  min_clients: int | None
  # Whether epsilon may be `inf`, for no privacy.
  may_be_exact = False

  def __post_init__(self) -> None:
    if not self.may_be_exact or self.epsilon != math.inf:
      least, largest = clustering_params.LEAST_EPSILON, clustering_params.LARGEST_EPSILON
      validate.within(least, largest, epsilon=self.epsilon)
    validate.between(0, 1, delta=self.delta)
    validate.within(1e-100, 1e100, radius=self.radius)
    for name in ("epsilon", "delta", "radius"):
      # In NumPy's narrower types, squares overflow and the noise may come out too small.
      object.__setattr__(self, name, float(getattr(self, name)))
    validate.one_of(TRUST, trust=self.trust)
    if self.min_clients is None:
      return
    validate.integer(minimum=1, min_clients=self.min_clients)
    if self.trust != NONE:
      raise validate.error(
          "min_clients", f"be left out with `trust`={self.trust!r}", self.min_clients
      )

  @property
  def mu(self) -> float:
    """The budget, as mu of Gaussian differential privacy."""
    return privacy_calculator.gaussian_mu(self.epsilon, self.delta)

  @property
  def points_per_client(self) -> int | None:
    """The most points of a client that are used, if a client is the unit; None if a point is."""
    return None

  @property
  def public_num_points(self) -> int | None:
    """About how many points all clients have, if that is known without them."""
    return None

  @property
  def share_of_centers(self) -> float:
    """The share of the budget (of mu squared) for the first centers, those of `refine`."""
    return 1.0

  @property
  def unit_norm(self) -> float:
    """The largest norm of what neighbouring data sets differ in, in bounds of one point."""
    return math.sqrt(self.points_per_client or 1)

  def in_ball(self, points: np.ndarray, widths: Sequence[int]) -> np.ndarray:
    """Returns the rows of a client that are used as points of the ball, float64 of shape (m, D).

    Args:
      points: Real numbers of shape (n, D), finite or not; n >= 0.
      widths: The number of columns of every view; they stand side by side.
    """
    del widths
    return clustering_params.map_to_ball(points[: self.points_per_client], self.radius)


@dataclasses.dataclass(frozen=True)
class PointPrivacy(Privacy):
  """(epsilon, delta)-differential privacy of one point of one client.

  Neighbouring data sets differ in one point, added or removed.

  Attributes:
    epsilon: Privacy budget of the whole fit, in [1e-8, 1e100].
    delta: Its failure probability, in (0, 1).
    radius: Points farther from the origin are moved to this distance, in the data's
      units, in the fit and in what is predicted; in [1e-100, 1e100].  It must be known
      beforehand, not taken from the data.
    trust: Who may see what without noise.  With "server", the server may see sums over
      all clients, and adds the noise to them.  With "none", every client adds a share of
      the noise to its own message, and the server sees their noisy sum.  In both cases
      a secure sum must hide the single messages.
    min_clients: For `trust` "none": the least number of clients whose shares of the noise
      count in every round.  The rest may drop out, or tell their share to others.  The
      noise grows by num_clients / min_clients in variance.  Default: all clients.
    public_num_points: About how many points all clients have, if that is known without them;
      None if it is not.  Where they are few for the budget, there are fewer rounds, each with
      less noise.  A wrong number costs accuracy, not privacy.
  """

  epsilon: float
  delta: float
  radius: float
  trust: str = SERVER
  min_clients: int | None = None
  public_num_points: int | None = None

  def __post_init__(self) -> None:
    super().__post_init__()
    if self.public_num_points is not None:
      validate.integer(1, public_num_points=self.public_num_points)


@dataclasses.dataclass(frozen=True)
class ClientPrivacy(Privacy):
  """(epsilon, delta)-differential privacy of all points of one client together.

  Neighbouring data sets differ in all points of one client, which has none in one of them.
  That a client takes part, and so the number of clients, is public.  It covers a person with
  many points, if one client has them all.  `PointPrivacy` explains the other settings.

  Attributes:
    max_points: The most points of a client that are used, its first ones; in [1, 2^30].  The
      noise is sqrt(max_points) times that of `PointPrivacy`, also where clients have fewer, which
      no warning can know.  Sums of points that differ are hardly larger than that.  A client
      whose sums are larger, up to max_points, makes all of them smaller by one factor, so that its
      points count less than those of others.
  """

  epsilon: float
  delta: float
  radius: float
  max_points: int
  trust: str = SERVER
  min_clients: int | None = None

  def __post_init__(self) -> None:
    super().__post_init__()
    validate.integer(minimum=1, maximum=_MOST_POINTS, max_points=self.max_points)

  @property
  def points_per_client(self) -> int:
    return self.max_points


def in_balls(
    points: np.ndarray, view_norms: Sequence[float], widths: Sequence[int]
) -> np.ndarray:
  """Returns every row as a point of the views' balls, in units of their norms.

  Args:
    points: Array of real numbers of shape (n, D), finite or not.
  """
  by_view = np.split(points, np.cumsum(widths)[:-1], axis=1)
  return np.concatenate(
      [clustering_params.map_to_ball(own, norm) / norm for own, norm in zip(by_view, view_norms)],
      axis=1,
  )


@dataclasses.dataclass(frozen=True)
class ViewPrivacy(Privacy):
  """(epsilon, delta)-differential privacy of one point of one client, in all of its views.

  It is for `FederatedMultiViewKMeans`, with a norm for every view.  `PointPrivacy` explains the
  other settings.

  Neighbouring data sets differ in one point, added or removed with all of its views.

  Attributes:
    view_norms: For every view, the L2 norm that longer rows are shortened to, in the
      data's units; in [1e-40, 1e100].  It must be known beforehand, not taken from the
      data.
    radius: Of a point of all views side by side, each measured in its norm: the root of their
      number.
  """

  epsilon: float
  delta: float
  view_norms: Sequence[float]
  trust: str = SERVER
  min_clients: int | None = None
  radius: float = dataclasses.field(init=False, repr=False)

  def __post_init__(self) -> None:
    if not isinstance(self.view_norms, collections.abc.Sequence):
      raise TypeError(f"`view_norms` must be a sequence of norms, got {self.view_norms!r}.")
    if not self.view_norms:
      raise validate.error("view_norms", "have a norm for every view", self.view_norms)
    for norm in self.view_norms:
      validate.within(1e-40, 1e100, view_norms=norm)
    object.__setattr__(self, "view_norms", tuple(map(float, self.view_norms)))
    object.__setattr__(self, "radius", math.sqrt(len(self.view_norms)))
    super().__post_init__()

  @property
  def share_of_centers(self) -> float:
    return 0.8

  def check_views(self, num_views: int) -> None:
    """Raises a ValueError unless there is one norm per view."""
    if len(self.view_norms) != num_views:
      raise validate.error(
          "view_norms", f"have one norm for each of the {num_views} views", self.view_norms
      )

  def in_ball(self, points: np.ndarray, widths: Sequence[int]) -> np.ndarray:
    self.check_views(len(widths))
    return in_balls(points, self.view_norms, widths)


def privacy_of(**settings: Any) -> PointPrivacy | ClientPrivacy | ViewPrivacy:
  """Returns privacy of views with `view_norms`, of clients with `max_points`, else of points.

  Raises:
    TypeError: If a setting is not one of these, or lacks.
    ValueError: If one is wrong.
  """
  if "view_norms" in settings:
    return ViewPrivacy(**settings)
  return ClientPrivacy(**settings) if "max_points" in settings else PointPrivacy(**settings)


def hold(
    clients: Mapping[Any, np.ndarray], widths: Sequence[int], privacy: Privacy | None,
    hold_points: secure_sums.Hold = secure_sums.hold,
) -> secure_sums.ClientPoints:
  """Returns clients as fits ask them: with `privacy` in grid steps, else in their coordinates.

  With `privacy`, whatever a row holds becomes a point of the ball.

  Args:
    clients: Real numbers of shape (n, D) by client id; with `privacy`, n may be zero.
    widths: The number of columns of every view, one number without views.

  Raises:
    ValueError: Unless the privacy of views has a norm for each.
  """
  if privacy is None:
    return hold_points(clients)
  held = hold_points({
      client_id: privacy.in_ball(points, widths) for client_id, points in clients.items()
  })
  steps = np.full(held.num_columns, point_grid.POINT_STEPS / privacy.radius)
  return held.scaled(secure_sums.Scaling(np.zeros(held.num_columns), steps))


def budget_warnings(
    epsilon: float, delta: float, points_per_client: int | None, num_clients: int,
    public_num_points: int | None = None,
) -> list[str]:
  """Returns warnings, in words, that a budget protects hardly anyone; public."""
  if points_per_client is None:
    return clustering_params.budget_warnings(epsilon, delta, num_units=public_num_points)
  return clustering_params.budget_warnings(epsilon, delta, "client", num_clients)


def _growth(privacy: Privacy, num_clients: int) -> float:
  """Returns how many times as large the noise is as that of the budget for one point."""
  return privacy.unit_norm * noise_factor(privacy, num_clients)


def _mu_of_centers(privacy: Privacy) -> float:
  return privacy.mu * math.sqrt(privacy.share_of_centers)


def planning_warnings(
    privacy: Privacy, num_clusters: int, num_columns: int, num_clients: int
) -> list[str]:
  """Returns warnings, in words, that the noise is too large for so many clusters; public.

  Of points whose number is not public, nothing is known before the fit.
  """
  num_points = privacy.public_num_points
  if num_points is None and privacy.points_per_client is not None:
    num_points = num_clients * privacy.points_per_client
  if num_points is None:
    return []
  noise = refine.planning_number(
      num_clusters, _mu_of_centers(privacy), num_columns, num_points,
      _growth(privacy, num_clients), privacy.public_num_points,
  )
  return refine.planning_warnings(num_clusters, noise)


def rows_needed(
    privacy: Privacy, num_clusters: int, num_columns: int, num_clients: int
) -> str:
  """Returns what to know of the noise before anything is asked, in a line; public."""
  least = refine.least_num_points(
      num_clusters, _mu_of_centers(privacy), num_columns, _growth(privacy, num_clients)
  )
  share = refine.SMALL_NOISE / refine.LARGE_NOISE
  return (
      f"rows needed for {num_clusters} clusters: about {least:,}; with less than {share:g} of "
      "them, many clusters are missed"
  )


def least_shares(privacy: Privacy, num_clients: int) -> int | None:
  """Returns how many clients' shares of the noise count; None if the server adds it.

  Raises:
    ValueError: If `min_clients` exceeds the number of clients.
  """
  if privacy.trust == SERVER:
    return None
  if privacy.min_clients is None:
    return num_clients
  if privacy.min_clients > num_clients:
    raise validate.error(
        "min_clients", f"be at most the {num_clients} clients", privacy.min_clients
    )
  return privacy.min_clients


def noise_factor(privacy: Privacy, num_clients: int) -> float:
  """Returns the standard deviation of all clients' noise over that of the shares that count.

  Raises:
    ValueError: If `min_clients` exceeds the number of clients.
  """
  least = least_shares(privacy, num_clients)
  return 1.0 if least is None else math.sqrt(num_clients / least)


def _limits(privacy: Privacy, mu: float, stds: Mapping[str, float]) -> dict[str, float] | None:
  """Returns the limits of a client's totals, for `FederatedPoints.totals`; None without limits.

  Divided by the standard deviation of their noise, the totals of two neighbouring data sets
  then differ by a vector of norm at most mu.  That is the Gaussian mechanism of mu (Dong,
  Roth, Su, "Gaussian Differential Privacy", 2019, theorem 1), whatever the clients hold.
  """
  if privacy.points_per_client is None or mu == math.inf:
    return None  # Every point's contribution is bounded already, or there is no noise.
  return {part: mu * std for part, std in stds.items()}


def _check_sum(privacy: Privacy, scale: float) -> None:
  if scale > LARGEST_SCALE:
    raise BudgetOutOfRange("larger, as the noise could overflow", privacy.epsilon)


def noisy_totals(
    privacy: Privacy, points: secure_sums.FederatedPoints, num_clients: int,
    noise_source: noise.Source,
) -> NoisyTotals:
  """Returns the function that answers queries with noise.

  Raises:
    ValueError: If `min_clients` exceeds the number of clients.  The function raises it if
      the noise, or a client's share of it, would be too small or too large.
  """
  least = least_shares(privacy, num_clients)

  def answer(mu: float, query: sum_query.SumQuery, stds: Mapping[str, float]) -> np.ndarray:
    limits = _limits(privacy, mu, stds)
    if least is None:
      _check_sum(privacy, max(stds.values()))
      # The noise first: if it can't be drawn, nothing is asked.
      drawn = query.noise(stds, noise_source)
      return drawn + points.totals(query, None, limits)
    shares = {part: std / math.sqrt(least) for part, std in stds.items()}
    if min(stds.values()) < LEAST_SHARE_SCALE:
      raise BudgetOutOfRange(
          "smaller, as the noise would be too small to be shared", privacy.epsilon
      )
    if min(shares.values()) < LEAST_SHARE_SCALE:
      raise validate.error(
          "min_clients", "be smaller, as the shares of the noise would be too small", least
      )
    _check_sum(privacy, max(shares.values()) * math.sqrt(num_clients))
    return points.totals(query, lambda: query.noise(shares, noise_source), limits)

  return answer


def guarantee(privacy: Privacy, ledger: ledger_lib.Ledger, num_clients: int) -> dict[str, Any]:
  """Returns what a fit guarantees, by its frozen ledger, as a dict of plain values."""
  unit, relation = "one point of one client", "add_or_remove_one"
  if privacy.points_per_client is not None:
    unit = f"one client with at most {privacy.points_per_client} points"
    relation = "zero_out_one_client"
  stated = {
      "epsilon": ledger.epsilon_spent,
      "delta": privacy.delta,
      "unit": unit,
      "neighboring_relation": relation,
      "trust": privacy.trust,
      "noise": ledger.noise_source,
      "num_rounds": len(ledger.releases),
      "covers": "the centroids and counts of every round; not the labels that `predict` "
      "gives, which are functions of the point itself",
  }
  if privacy.trust == NONE:
    stated["min_clients"] = least_shares(privacy, num_clients)
    stated["num_clients"] = num_clients
  return stated
