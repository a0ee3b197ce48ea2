"""The account of all releases; every release is entered before it is made.

The guarantee is the budget, which is fixed before the first release.  How many releases
follow, and with which noise, may depend on the noisy outputs of earlier ones, as long as the
squares of mu never add up to more than the budget's: such a filter is Gaussian differentially
private with the budget's mu (Smith, Thakurta 2022, "Fully Adaptive Composition for Gaussian
Differential Privacy", https://arxiv.org/abs/2210.17520).  What was spent in the end is then
an output like any other, and no guarantee.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any, TYPE_CHECKING

from clustering_basics import validate
from dp_clustering import clustering_params
from dp_clustering import privacy_calculator

if TYPE_CHECKING:
  from dp_clustering import noise

# Relative, for the rounding of sums of squares of mu.  The budget's mu leaves more unspent.
_SLACK = 1e-9


class PrivacyBudgetExceeded(RuntimeError):
  """A release would spend more than the budget; it was not made."""


@dataclasses.dataclass(frozen=True)
class Release:
  """One Gaussian release.

  Attributes:
    name: What was released.
    sensitivity: Largest L2 change of the value when one point is added or removed.
    std: Standard deviation of the noise, in the unit of the sensitivity; the least, where clients
      add shares of it and more of them do than must.
    mu: The cost in Gaussian differential privacy, sensitivity / std; `inf` without
      noise.
    parallel: Releases with the same text here, if there is any, are about different points: each
      point is in one of them, at most, and which one is public.  So they cost together what the
      dearest of them does.
  """

  name: str
  sensitivity: float
  std: float
  mu: float
  parallel: str = ""


def _check_release(release: Release) -> None:
  validate.positive(sensitivity=release.sensitivity)
  if release.std == 0 and release.mu == math.inf:
    return
  validate.positive(std=release.std)
  if not math.isclose(release.mu * release.std, release.sensitivity, rel_tol=1e-6):
    raise validate.error(
        "mu", f"be sensitivity / std = {release.sensitivity / release.std:.9g}", release.mu
    )


class Ledger:
  """The budget and the releases of one call; refuses a release that exceeds the budget.

  Attributes:
    mu: The budget as mu of Gaussian differential privacy; `inf` for no privacy.
    noise_source: Description of the source of the noise.
  """

  def __init__(self, epsilon: float, delta: float, noise_source: noise.Source) -> None:
    """Opens a ledger without releases.

    Args:
      epsilon: The budget's epsilon, a number in [1e-8, 1e100]; `inf` for no privacy.

    Raises:
      ValueError: If the budget is too small or too large for any release.
    """
    clustering_params.check_epsilon(epsilon=epsilon)
    self.epsilon = epsilon
    self.delta = delta
    self.noise_source = noise_source.description
    self._noise_is_private = noise_source.is_private
    self.mu = privacy_calculator.gaussian_mu(epsilon, delta)
    self._releases: list[Release] = []
    self._is_frozen = False

  @property
  def releases(self) -> tuple[Release, ...]:
    """The `Release`s so far, a tuple."""
    return tuple(self._releases)

  @property
  def charged(self) -> tuple[Release, ...]:
    """The releases whose costs add up: of those in parallel, the dearest."""
    dearest: dict[str | int, Release] = {}
    for place, release in enumerate(self._releases):
      before = dearest.setdefault(release.parallel or place, release)
      if release.mu > before.mu:
        dearest[release.parallel] = release
    return tuple(dearest.values())

  @property
  def mu_spent(self) -> float:
    """The root of the sum of squares of mu so far; it may depend on noisy outputs."""
    return math.hypot(*(release.mu for release in self.charged))

  @property
  def mu_left(self) -> float:
    """The mu of the largest release that the budget still allows."""
    if self.mu == math.inf:
      return math.inf
    return math.sqrt(max(0.0, self.mu**2 - self.mu_spent**2))

  @property
  def epsilon_spent(self) -> float:
    """The epsilon to charge for the call: all of the budget, whatever was released.

    It is `inf` if the noise is seeded, since who knows the seed can subtract the noise.
    """
    return self.epsilon if self._noise_is_private else math.inf

  @property
  def is_private(self) -> bool:
    """Whether the releases protect anyone: a finite epsilon, and secure noise."""
    return self._noise_is_private and self.epsilon < math.inf

  @property
  def event(self) -> Any:
    """What to charge for the call: a `dp_accounting.GaussianDpEvent` of `epsilon_spent`."""
    import dp_accounting  # pylint: disable=g-import-not-at-top

    return dp_accounting.GaussianDpEvent(1 / self.mu if self._noise_is_private else 0.0)

  def record(
      self, name: str, mu: float, sensitivity: float, std: float, parallel: str = ""
  ) -> None:
    """Enters a release before it is made.

    Args:
      mu: Its cost, sensitivity / std; `inf` without noise.
      sensitivity: Largest L2 change of the value when one point is added or removed.
      std: Standard deviation of the noise, in the unit of the sensitivity.
      parallel: As of `Release`.

    Raises:
      PrivacyBudgetExceeded: If the budget is not enough; nothing is entered then.
      RuntimeError: If the ledger is frozen.
    """
    if self._is_frozen:
      raise RuntimeError(f"The ledger is closed; {name!r} can't be released.")
    release = Release(name, sensitivity, std, mu, parallel)
    _check_release(release)
    self._releases.append(release)
    total = self.mu_spent
    if total > self.mu * (1 + _SLACK):
      self._releases.pop()
      raise PrivacyBudgetExceeded(
          f"{name!r} would raise the total to mu = {total:.9g}, above the budget of mu = "
          f"{self.mu:.9g} (epsilon = {self.epsilon:g} at delta = {self.delta:g})."
      )

  def freeze(self) -> Ledger:
    """Closes the ledger after a second accountant agrees with it, and returns it.

    Raises:
      RuntimeError: If the second accountant finds a larger epsilon.
    """
    # Imported here, since the import takes most of a second.
    import dp_accounting  # pylint: disable=g-import-not-at-top

    releases = dp_accounting.ComposedDpEvent([
        dp_accounting.GaussianDpEvent(release.std / release.sensitivity)
        for release in self.charged
    ])
    privacy_calculator.verify(releases, self.epsilon, self.delta)
    self._is_frozen = True
    return self

  def __str__(self) -> str:
    """A table of the releases, with the totals."""
    width = max([len("total"), *(len(release.name) for release in self._releases)])
    rows = [f"{'release':{width}}  sensitivity          std           mu"]
    rows += [
        f"{release.name:{width}}  {release.sensitivity:11.5g}  {release.std:11.5g}  "
        f"{release.mu:11.5g}"
        for release in self._releases
    ]
    rows += [
        f"{'total':{width}}  {'':11}  {'':11}  {self.mu_spent:11.5g}",
        f"budget: mu {self.mu:.5g}, which is epsilon {self.epsilon:g} at delta {self.delta:g}",
        f"noise: {self.noise_source}",
    ]
    return "\n".join(rows)
