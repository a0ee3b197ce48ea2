"""The door: the only way from the clients to the server is a sum of bounded integers.

`Door.ask` enters a release in the ledger and the journal, draws its noise, and only then asks
the clients, whose answers a secure sum adds up.  Nothing but the noisy sum leaves it; with
`privacy.SERVER`, the server adds the noise and so sees the exact sum first.  Whatever else a
client computes stays with it.

Neighbouring federations differ in the messages of one client, which are zeros in one of them.
Given the answers so far, every other client's message is a function of its own data and public
numbers alone, so one client changes a sum by its own message, of a norm of at most the
sensitivity, and each release is a Gaussian mechanism.

A round may ask some of the clients, by a schedule that is public and the same whoever is there
(`participation.round_robin`).  In the releases of other clients' rounds the client's message is
zero in both federations, so given the answers so far they have the same distribution in both, and
cost nothing.  A pass asks every client in one round of it.  So a pass costs what one of its rounds
does, and a training of r passes costs r of them, also where what is asked depends on earlier
answers.  This is fixed-epoch participation (Choquette-Choo, McMahan, Rush, Thakurta, "Multi-Epoch
Matrix Factorization Mechanisms for Private Machine Learning", ICML 2023, equation 5) with
independent noise.  No amplification by sampling is claimed: the server sees who is asked.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from fl_clustering.engine import bounded_sums
from fl_clustering.points import privacy as privacy_lib

if TYPE_CHECKING:
  from fl_clustering.private_clusters import releases as releases_lib


class Door:
  """Asks clients for noisy sums."""

  def __init__(
      self, sums: bounded_sums.BoundedSums, releases: releases_lib.Releases,
      privacy: privacy_lib.Privacy,
  ) -> None:
    """Makes the door.

    Args:
      releases: Of the whole run.
      privacy: Says who adds the noise.
    """
    self._sums = sums
    self._releases = releases
    self._privacy = privacy

  def ask(
      self, name: str, question: bounded_sums.Question, public: bounded_sums.Public | None,
      clients: np.ndarray, mu: float, parallel: str = "",
  ) -> np.ndarray | None:
    """Returns the noisy sum of messages, float64 of shape (`sums.size(question)`,).

    It is None where the release was made before an interruption, and its answer was lost.

    Args:
      name: The release's name in the ledger.
      public: What all clients are told.
      clients: Who is asked; other clients count as zeros.
      mu: What the release costs; `inf` without noise.
      parallel: As of `ledger.Release`.

    Raises:
      ValueError: If fewer clients are asked than shares of the noise count.
    """
    ledger, sensitivity = self._releases.ledger, question.sensitivity
    num_shares = privacy_lib.least_shares(self._privacy, len(clients))
    std = sensitivity / mu
    scale = std * bounded_sums.STEPS
    share = scale / math.sqrt(num_shares or 1)
    if num_shares is not None and share < privacy_lib.LEAST_SHARE_SCALE:
      raise privacy_lib.BudgetOutOfRange(
          "smaller, as shares of the noise would be too small", ledger.epsilon
      )
    if share * math.sqrt(len(clients) if num_shares else 1) > privacy_lib.LARGEST_SCALE:
      raise privacy_lib.BudgetOutOfRange("larger, as the noise could overflow", ledger.epsilon)
    ledger.record(name, mu, sensitivity, std, parallel)
    size = self._sums.size(question)

    def noisy_total() -> np.ndarray:
      if num_shares is not None:
        shares = (self._releases.discrete_gaussian(size, share) for _ in clients)
        return self._sums.total(question, public, clients, shares)
      # Drawn first: if it can't be, nothing is asked.
      drawn = self._releases.discrete_gaussian(size, scale)
      return drawn + self._sums.total(question, public, clients)

    total = self._releases.answer(noisy_total)
    return None if total is None else total / bounded_sums.STEPS
