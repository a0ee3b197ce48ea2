"""APFL: every client uses a mixture of its own model and the model that all train together.

Yuyang Deng, Mohammad Mahdi Kamani, Mehrdad Mahdavi: "Adaptive Personalized Federated Learning",
2020, Algorithm 1, https://arxiv.org/abs/2003.13461.  A client's model is alpha times its own
parameters plus 1 - alpha times the common ones.  With each batch, it takes a step of the common
model, as in FedAvg, and a step of its own model along the gradient of the mixture's loss; the
server averages the common models alone.  alpha is given, or each client learns its own, by the
slope of the mixture's loss in alpha (the paper's section on adaptive alpha).

Where this differs:

*   Both models start from that of phase 1, and a learned alpha from .5.
*   alpha stays in [0, 1] and moves with every step, as in the formula.  The authors' program moves
    it in the first step of a round only, and adds .02 alpha to the slope.
*   The common models weigh as much as their clients have examples, as in this run's FedAvg.
*   A client is judged with the newest common model in its mixture, also if it didn't take part.
*   A new client, which the paper has none of, trains an own model and alpha as the others did, but
    in every round of phase 2, from the last common model, which each round it is sent as it is.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import TYPE_CHECKING

import numpy as np

from clustering_basics import options
from clustering_basics import validate
from fl_clustering.engine import personalization
from fl_clustering.methods import method
from fl_clustering.methods import personal

if TYPE_CHECKING:
  from fl_clustering.engine import engine as engine_lib
  from fl_clustering.engine import participation

_FIRST_ALPHA = 0.5


@dataclasses.dataclass(frozen=True)
class Apfl(options.Settings):
  """The settings of APFL."""

  apfl_alpha: float | None = options.option(
      float,
      "The share of a client's own model in its mixture with the common one.",
      default=None,
      default_text=f"every client learns it, from {_FIRST_ALPHA:g} on",
      rule=functools.partial(validate.within, 0, 1),
  )


def _mix(vectors: np.ndarray, own: np.ndarray, shares: np.ndarray, common: np.ndarray) -> None:
  """Writes the clients' mixtures into `vectors`, of shape (N, P)."""
  # One client at a time: the differences of all may be gigabytes.
  for i, share in enumerate(shares):
    vectors[i] = share * own[i] + (1 - share) * common


def apfl(settings: Apfl, engine: engine_lib.Engine) -> method.Method:
  """Returns APFL."""
  is_learned = settings.apfl_alpha is None
  first = _FIRST_ALPHA if settings.apfl_alpha is None else settings.apfl_alpha
  how = personalization.Personalization(is_mixture=True, learns_share=is_learned)

  def first_shares(clients: np.ndarray) -> np.ndarray:
    return np.full(len(clients), first, np.float32)

  def initialize(pretrained: method.Pretrained, rng: np.random.Generator) -> method.ClusterState:
    del rng  # Nothing here is random.
    vectors = personal.for_each(pretrained.vector, engine.clients)
    return personal.state(
        vectors, own=vectors, alpha=first_shares(engine.clients), common=pretrained.vector
    )

  def next_state(state: method.ClusterState, round_: participation.Round) -> method.Trained:
    memory, clients = state.memory, engine.clients
    own, shares, losses = engine.train_own(
        memory["own"], clients, round_, memory["common"], how, memory["alpha"]
    )
    (common,), _ = engine.train(memory["common"][None], (clients,), round_)
    vectors = state.vectors if state.vectors.flags.writeable else state.vectors.copy()
    _mix(vectors, own, shares, common)
    return (
        personal.state(vectors, own=own, alpha=shares, common=common),
        personal.losses_by_client(clients, losses),
    )

  def place(
      pretrained: method.Pretrained, state: method.ClusterState, clients: np.ndarray
  ) -> method.Placement:
    del pretrained  # The common model went on from it.
    common = state.memory["common"]
    own, shares = personal.train_new(
        engine, common, clients, common, how, first_shares(clients)
    )
    _mix(own, own, shares, common)
    return personal.placement(own)

  return method.Method(initialize, next_state, place, uses_own_weights=False)
