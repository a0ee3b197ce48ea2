"""FedRep: all clients share the layers before the last one, which each has of its own.

Liam Collins, Hamed Hassani, Aryan Mokhtari, Sanjay Shakkottai: "Exploiting Shared Representations
for Personalized Federated Learning", ICML 2021, Algorithm 1, https://arxiv.org/abs/2102.07078.  In
every round, a client is sent the representation, the layers before the last.  It trains its head,
the last layer, for some epochs, and then the representation, which the server averages.  A new
client trains a head alone (the paper's section on new clients).

Where this differs:

*   Representation and heads start from the model of phase 1.
*   The representation trains for as many epochs as a round has.  The head trains for one before,
    unless told otherwise; in the paper's experiments, for ten.
*   The representations weigh as much as their clients have examples, as in this run's FedAvg.
*   A client is judged with the newest representation, also if it didn't take part.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from typing import TYPE_CHECKING

import numpy as np

from clustering_basics import options
from clustering_basics import validate
from fl_clustering.engine import personalization
from fl_clustering.methods import client_weights
from fl_clustering.methods import method
from fl_clustering.methods import personal

if TYPE_CHECKING:
  from fl_clustering.engine import engine as engine_lib
  from fl_clustering.engine import participation
  from fl_clustering.tasks import model as model_lib


@dataclasses.dataclass(frozen=True)
class FedRep(options.Settings):
  """The settings of FedRep."""

  fedrep_head_epochs: int = options.option(
      int,
      "Passes of a client over its data that train its last layer, in each round before those "
      "that train the other layers.",
      default=1,
      rule=functools.partial(validate.integer, 1, 2**31 - 1),
  )


def in_representation(model: model_lib.Model) -> np.ndarray:
  """Returns of each number of a model whether it is in a layer before the last, of shape (P,).

  Raises:
    ValueError: If the model has one layer, or does not say which is the last.
  """
  in_head = [name in model.head for name in model.parameter_shapes]
  if all(in_head) or not any(in_head):
    raise validate.error(
        "model", "have a layer before the last, and name the last one's parameters, for fedrep",
        model.name,
    )
  sizes = [math.prod(shape) for shape in model.parameter_shapes.values()]
  return ~np.repeat(in_head, sizes)


def fedrep(settings: FedRep, engine: engine_lib.Engine) -> method.Method:
  """Returns FedRep."""
  how = personalization.Personalization(head_epochs=settings.fedrep_head_epochs)
  shared = in_representation(engine.model)

  def initialize(pretrained: method.Pretrained, rng: np.random.Generator) -> method.ClusterState:
    del rng  # Nothing here is random.
    vectors = personal.for_each(pretrained.vector, engine.clients)
    return personal.state(vectors)

  def next_state(state: method.ClusterState, round_: participation.Round) -> method.Trained:
    vectors, _, losses = engine.train_own(
        state.vectors, engine.clients, round_, state.vectors[0], how, num_shared=int(shared.sum())
    )
    trained = client_weights.Represented(vectors, rows=losses.clients)
    mean = client_weights.mean_of(trained, engine.num_examples[losses.clients])
    for vector in vectors:
      vector[shared] = mean[shared]
    return personal.state(vectors), personal.losses_by_client(engine.clients, losses)

  def place(
      pretrained: method.Pretrained, state: method.ClusterState, clients: np.ndarray
  ) -> method.Placement:
    start = np.where(shared, state.vectors[0], pretrained.vector)
    # No passes but those of the head.
    vectors, _ = personal.train_new(engine, start, clients, start, how, num_epochs=0)
    return personal.placement(vectors)

  return method.Method(initialize, next_state, place, uses_own_weights=False)
