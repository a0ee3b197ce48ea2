"""The door: the only way from the clients to the server is a sum of bounded integers.

`Door.ask` enters a release in the ledger and the journal, draws its noise, and only then asks
the clients, whose answers TFF's secure modular sum adds up.  Nothing but the noisy sum leaves it;
with `privacy.SERVER`, the server adds the noise and so sees the exact sum first.  Whatever else a
client computes stays with it.

Neighbouring federations differ in the messages of one client, which are zeros in one of them.
Given the answers so far, every other client's message is a function of its own data and public
numbers alone, so one client changes a sum by its own message, of a norm of at most the
sensitivity, and each release is a Gaussian mechanism.
"""

from __future__ import annotations

import itertools
import math
from typing import Any, Callable, Mapping, Sequence, TYPE_CHECKING

import numpy as np
import tensorflow as tf

from clustering_basics import validate
from fl_clustering.points import privacy as privacy_lib
from fl_clustering.private_clusters import client_messages
from fl_clustering.private_clusters import point_files

if TYPE_CHECKING:
  from fl_clustering.private_clusters import releases as releases_lib

# From public numbers and a client's value to its message, int64 of shape (size,).
Message = Callable[[Any, Any], tf.Tensor]


def build_question(public_type: Any, client_type: Any, message: Message) -> Any:
  """Returns the round in which every client answers, and the answers are added up.

  Args:
    public_type: The TFF type of the public numbers, which all clients get.
    client_type: That of a client's value, such as the paths of its files.
  """
  return point_files.build_round(client_type, public_type, message)


class Door:
  """Asks clients for noisy sums."""

  def __init__(
      self, clients: Sequence[Mapping[str, Any]], releases: releases_lib.Releases, trust: str,
      min_clients: int | None = None,
  ) -> None:
    """Makes the door.

    Args:
      clients: The TFF values of the clients that take part; any others count as zeros.
      releases: Of the whole run.
      trust: `privacy.SERVER` or `privacy.NONE`.
      min_clients: With `privacy.NONE`, how many clients' shares of the noise count.

    Raises:
      ValueError: If fewer clients than `min_clients` take part, whose shares would be too little
        noise.
    """
    if trust == privacy_lib.NONE and len(clients) < (min_clients or 1):
      raise validate.error("min_clients", f"be at most the {len(clients)} clients", min_clients)
    self._clients = clients
    self._releases = releases
    self._num_shares = (min_clients or len(clients)) if trust == privacy_lib.NONE else None

  def ask(
      self, name: str, question: Any, public: Any, size: int, sensitivity: float, mu: float
  ) -> np.ndarray | None:
    """Returns the noisy sum of the clients' messages, float64 of shape (size,).

    It is None where the release was made before an interruption, and its answer was lost.

    Args:
      name: The release's name in the ledger.
      question: From `build_question`.
      public: What all clients get.
      sensitivity: The largest norm of a client's message.
      mu: What the release costs; `inf` without noise.
    """
    ledger = self._releases.ledger
    std = sensitivity / mu
    scale = std * client_messages.STEPS
    share = scale / math.sqrt(self._num_shares or 1)
    if self._num_shares is not None and share < privacy_lib.LEAST_SHARE_SCALE:
      raise privacy_lib.BudgetOutOfRange(
          "smaller, as shares of the noise would be too small", ledger.epsilon
      )
    if share * math.sqrt(len(self._clients) if self._num_shares else 1) > privacy_lib.LARGEST_SCALE:
      raise privacy_lib.BudgetOutOfRange("larger, as the noise could overflow", ledger.epsilon)
    ledger.record(name, mu, sensitivity, std)

    def noisy_total() -> np.ndarray:
      if self._num_shares is not None:
        shares = (self._releases.discrete_gaussian(size, share) for _ in self._clients)
        return point_files.total(question, public, self._clients, shares)
      # Drawn first: if it can't be, nothing is asked.
      drawn = self._releases.discrete_gaussian(size, scale)
      no_shares = itertools.repeat(np.zeros(size, np.int64))
      return drawn + point_files.total(question, public, self._clients, no_shares)

    total = self._releases.answer(noisy_total)
    return None if total is None else total / client_messages.STEPS
