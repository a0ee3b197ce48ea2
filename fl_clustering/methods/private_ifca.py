"""IFCA with one client-level (epsilon, delta) for its grouping and its training.

It is the private clustered training of `fl_clustering/private_clusters/`, beside the other
methods.  The clients begin where private k-means of their sketches puts them, and choose the
model of least loss from the third round on.  The server would learn sums of bounded vectors
alone.  `dp_fedavg` is the same with one cluster: DP-FedAvg (McMahan, Ramage, Talwar, Zhang,
"Learning Differentially Private Recurrent Language Models", ICLR 2018) with an adaptive clip norm.

Both train in place of phase 1 too, with the gradient steps of `plan.PrivateClusters`: the run's
epochs, batch size and learning rate don't count.  The part of the budget for a report stays
unspent, as nothing is reported privately.

This is a simulation, and NOT private: the noise follows the run's seed, so that numbers can be
repeated, and a three-phase run writes down exact accuracies and who is in which cluster.  The
budget says how good the models of a private run are.

Where it is trained again, to learn how much it varies, the noise and the participants are others;
the first model and the starts of k-means are the same.

Clients that don't take part in a round send zeros, but the budget is charged as if they took part
in every one: the draw follows from the seed, so it hides nobody.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any, TYPE_CHECKING

import numpy as np

from clustering_basics import options
from clustering_basics import validate
from fl_clustering.engine import participation
from fl_clustering.methods import grouping
from fl_clustering.methods import method
from fl_clustering.methods import new_clients
from fl_clustering.private_clusters import progress as progress_lib

if TYPE_CHECKING:
  from fl_clustering.engine import engine as engine_lib
  from fl_clustering.private_clusters import plan

_NOISE_SEED = "noise_seed"  # In a state's memory.
_NOT_PRIVATE = "Its noise follows the seed: a simulation, NOT private."


def _epsilon_option() -> Any:
  return options.option(
      float,
      "Budget of a client for all that the private methods train, from 0.001 to 1e6; simulated, "
      "with noise that follows --seed.",
      default=8.0,
      rule=functools.partial(validate.within, 1e-3, 1e6),
  )


def _delta_option() -> Any:
  return options.option(
      float, "The delta of --client_epsilon, in (0, 1).", default=1e-5,
      rule=functools.partial(validate.between, 0, 1),
  )


@dataclasses.dataclass(frozen=True)
class PrivateIfca:
  """The settings of private IFCA."""

  num_clusters: int = grouping.num_clusters_option("Number of clusters.")
  client_epsilon: float = _epsilon_option()
  client_delta: float = _delta_option()

  def __post_init__(self) -> None:
    options.check(self)


@dataclasses.dataclass(frozen=True)
class DpFedavg:
  """The settings of DP-FedAvg, the control of private IFCA."""

  client_epsilon: float = _epsilon_option()
  client_delta: float = _delta_option()

  def __post_init__(self) -> None:
    options.check(self)


def _warning(settings: plan.PrivateClusters, engine: engine_lib.Engine) -> str:
  """Returns what a reader must know, from public numbers."""
  # Imported here, as in `_build`.
  from fl_clustering.private_clusters import plan  # pylint: disable=g-import-not-at-top

  found, num_clients = [_NOT_PRIVATE], len(engine.client_ids)
  noise = settings.budget().relative_noise(
      settings.num_clusters, engine.model.num_parameters, num_clients
  )
  if noise > plan.LARGE_NOISE:
    found.append(plan.advice(noise, settings.num_clusters))
  if settings.delta > 1 / num_clients:
    found.append(
        f"`client_delta`={settings.delta:g} is more than 1 / {num_clients} clients, so that it "
        "protects little even in a private run."
    )
  return " ".join(found)


def _build(
    num_clusters: int, epsilon: float, delta: float, engine: engine_lib.Engine
) -> method.Method:
  # Imported here, as they import SciPy and TensorFlow, and settings are made without them.
  # pylint: disable=g-import-not-at-top
  from fl_clustering.private_clusters import plan
  from fl_clustering.private_clusters import simulated_training
  # pylint: enable=g-import-not-at-top

  client_ids, schedule = engine.client_ids, engine.schedule
  if schedule is None:
    raise validate.error("schedule", "be given to the engine of private training", schedule)
  grouping.check_num_clusters(num_clusters, client_ids)
  # The budget is shared among all rounds before the first question.
  settings = plan.PrivateClusters(
      num_clusters, epsilon, delta,
      rounds=len(participation.numbers_of(schedule, from_start=True)),
  )
  num_participants = schedule.clients_per_round or len(client_ids)
  training = simulated_training.SimulatedTraining(settings, engine)
  warning = _warning(settings, engine)

  def to_state(noise_seed: int, progress: progress_lib.Progress) -> method.ClusterState:
    slots = training.nonprivate_slots(noise_seed, progress)
    members = tuple(
        tuple(c for c in client_ids if slots[c] == k) for k in range(num_clusters)
    )
    memory = {**progress.to_arrays(), _NOISE_SEED: np.array(noise_seed)}
    return method.ClusterState(progress.state.vectors, members, memory, warning)

  def initialize(pretrained: method.Pretrained, rng: np.random.Generator) -> method.ClusterState:
    del pretrained  # It builds on nothing.
    noise_seed = training.noise_seed(rng)
    return to_state(noise_seed, training.start(noise_seed, num_participants))

  def next_state(
      state: method.ClusterState, round_: participation.Round
  ) -> tuple[method.ClusterState, method.Losses]:
    before = progress_lib.Progress.from_arrays(state.vectors, state.memory)
    noise_seed = int(state.memory[_NOISE_SEED])
    # A private server learns no losses.
    return to_state(noise_seed, training.next(noise_seed, before, round_)), ()

  return method.Method(initialize, next_state, new_clients.by_loss(engine), from_start=True)


def private_ifca(settings: PrivateIfca, engine: engine_lib.Engine) -> method.Method:
  """Returns private IFCA.

  The members of its clusters are what the simulation knows and the server doesn't: the model
  that each client takes next.  A new client takes the model with the least loss on its training
  data, over all labels, where the others choose by the loss over their own labels alone.

  Raises:
    ValueError: If the engine knows no schedule, or there are fewer clients than clusters.
  """
  return _build(
      settings.num_clusters, settings.client_epsilon, settings.client_delta, engine
  )


def dp_fedavg(settings: DpFedavg, engine: engine_lib.Engine) -> method.Method:
  """Returns DP-FedAvg: private IFCA with one cluster, and with the loss over all labels."""
  return _build(1, settings.client_epsilon, settings.client_delta, engine)
