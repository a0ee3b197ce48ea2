"""IFCA: in every round, each client takes the model that fits its data best, and trains it.

Avishek Ghosh, Jichan Chung, Dong Yin, Kannan Ramchandran: "An Efficient Framework for
Clustered Federated Learning", NeurIPS 2020, Algorithm 1 with model averaging,
https://arxiv.org/abs/2006.04088.  The server sends all K models to the clients of a round.
Each names the one that has the least loss on its training data, and trains that one.

The paper starts from K random models and lets the best of several starts stand.  Random
models often end with all clients in few of them, since whichever is a little better at
first is trained by everyone.  So two other starts are offered, and one is the default:

*   `grouped` (ours): the means of the clusters that K-means finds in the clients' own
    weights, as the method `kmeans` starts.  Of sketches, it finds clusters without weights: then
    each trains the last global model for one round.
*   `perturbed` (ours): the mean of all clients' own weights, and K - 1 copies of it with
    Gaussian noise.  In every parameter the noise has the standard deviation of the clients'
    own weights: so a copy is about as far from the mean as a client is.
*   `random`: as in the paper.  It doesn't use phase 1.

The means are weighted by the number of examples; the authors' program for MNIST weighs all clients
alike.  It also lets clients choose by the loss on their *test* data when they are tested.  Here,
as in their program for FEMNIST, they choose by their training data always.

A client chooses again at the end of each round that it takes part in: as at test time in
the paper, it is reported with the model that has the least loss.  The others keep the
choice that they made last, and choose anew when they take part again.
"""

from __future__ import annotations

import dataclasses
from typing import Callable, TYPE_CHECKING

import numpy as np

from clustering_basics import options
from clustering_basics import validate
from fl_clustering.engine import participation
from fl_clustering.methods import cluster_assignment
from fl_clustering.methods import grouping
from fl_clustering.methods import kmeans
from fl_clustering.methods import method
from fl_clustering.methods import new_clients
from fl_clustering.methods import one_shot

if TYPE_CHECKING:
  from fl_clustering.engine import engine as engine_lib


def _grouped(
    settings: Ifca, engine: engine_lib.Engine, pretrained: method.Pretrained,
    rng: np.random.Generator,
) -> np.ndarray:
  group = kmeans.KMeans(settings.num_clusters, settings.representation)
  grouped = one_shot.one_shot(group, engine).initialize(pretrained, rng)
  if settings.representation != grouping.SKETCH:
    return grouped.vectors
  assert engine.schedule is not None  # Runs have one.
  round_ = participation.round_of(
      engine.schedule, len(engine.clients), participation.grouping_round(engine.schedule)
  )
  # Models that stay equal could not be told apart later.
  taking_part = [
      round_.among(members) if np.isin(members, round_.clients).any() else members
      for members in grouped.members
  ]
  round_ = dataclasses.replace(round_, clients=np.sort(np.concatenate(taking_part)))
  vectors, _ = engine.train(grouped.vectors, grouped.members, round_)
  return vectors


def _perturbed(
    settings: Ifca, engine: engine_lib.Engine, pretrained: method.Pretrained,
    rng: np.random.Generator,
) -> np.ndarray:
  del engine  # All clients have trained.
  weights = pretrained.used_weights
  mean = weights.mean_of(weights.clients)
  squares = np.zeros(len(mean))
  # One at a time: all of them in float64 are gigabytes for large models.
  for vector in weights.vectors:
    squares += np.square(np.subtract(vector, mean, dtype=np.float64))
  spread = np.sqrt(squares / len(weights.vectors))
  noise = [rng.normal(size=len(mean)) * spread for _ in range(settings.num_clusters - 1)]
  return np.stack([mean, *(mean + one.astype(np.float32) for one in noise)])


def _random(
    settings: Ifca, engine: engine_lib.Engine, pretrained: method.Pretrained,
    rng: np.random.Generator,
) -> np.ndarray:
  del pretrained  # The paper has no phase before.
  return engine.initial_vectors(settings.ifca_restarts * settings.num_clusters, rng)


# They return the models to start from: `ifca_restarts` sets of them, one after the other.
_STARTS: dict[str, Callable[..., np.ndarray]] = {
    "grouped": _grouped, "perturbed": _perturbed, "random": _random
}


@dataclasses.dataclass(frozen=True)
class Ifca(options.Settings):
  """The settings of IFCA; K-means groups the `representation` for the start `grouped`."""

  num_clusters: int = grouping.num_clusters_option("Number of clusters.")
  representation: str = grouping.representation_option()
  ifca_restarts: int = options.option(
      int,
      "Sets of random models that ifca trains side by side, of which the one with the least "
      "training loss counts; the work and the traffic grow by this factor.",
      default=1,
      rule=validate.AT_LEAST_ONE,
  )
  ifca_start: str = options.option(
      str,
      "What ifca's models start from: the clusters of K-means (`grouped`), the mean of the "
      "clients' own weights with noise (`perturbed`), or `random` models, without phase 1.",
      default="grouped",
      default_text="random if --ifca_restarts is given, else grouped",
      values=tuple(_STARTS),
      selects={
          "grouped": ("representation",), "perturbed": (), "random": ("ifca_restarts",)
      },
  )

  def __post_init__(self) -> None:
    super().__post_init__()
    if self.ifca_restarts > 1 and self.ifca_start != "random":
      raise validate.error(
          "ifca_restarts", f"be 1 with ifca_start={self.ifca_start}", self.ifca_restarts
      )


@dataclasses.dataclass(frozen=True, eq=False)
class _Choices:
  """The models of all sets, and what the clients chose.

  Attributes:
    vectors: The models, set after set, float32 of shape (num_sets * K, P).
    chosen: Every client's model in each set, from 0 to K - 1; of shape (num_sets, N).
    losses: The loss of that model on the client's training data when it was chosen,
      float32 of shape (num_sets, N).
    is_current: Whether a client's choice is between the present models, of shape (N,).
  """

  vectors: np.ndarray
  chosen: np.ndarray
  losses: np.ndarray
  is_current: np.ndarray

  @property
  def num_models(self) -> int:
    """K, the number of models per set."""
    return len(self.vectors) // len(self.chosen)

  def best_set(self) -> int:
    """Returns the index of the set with the least mean training loss over the clients."""
    return int(self.losses.mean(axis=1, dtype=np.float64).argmin())

  def of_set(self, index: int) -> slice:
    """Returns where a set's models stand."""
    return slice(index * self.num_models, (index + 1) * self.num_models)

  def members(self) -> tuple[np.ndarray, ...]:
    """Returns the clients that chose each model, per model of all sets."""
    return tuple(
        members for chosen in self.chosen
        for members in cluster_assignment.of_labels(chosen, self.num_models)
    )


def _choose(choices: _Choices, clients: np.ndarray, engine: engine_lib.Engine) -> _Choices:
  """Lets clients choose the model with the least training loss, in every set."""
  if not len(clients):
    return choices
  losses = engine.losses(choices.vectors, clients)
  by_set = losses.reshape(len(choices.chosen), choices.num_models, len(clients))
  chosen, least, is_current = (
      array.copy() for array in (choices.chosen, choices.losses, choices.is_current)
  )
  chosen[:, clients] = by_set.argmin(axis=1)
  least[:, clients] = by_set.min(axis=1)
  is_current[clients] = True
  return _Choices(choices.vectors, chosen, least, is_current)


def _to_state(choices: _Choices, settings: Ifca) -> method.ClusterState:
  """Returns the state that shows the best set and remembers the others."""
  shown = choices.of_set(choices.best_set())
  members = choices.members()[shown]
  memory = {
      "chosen": choices.chosen, "losses": choices.losses, "is_current": choices.is_current
  }
  if len(choices.chosen) > 1:
    memory["vectors"] = choices.vectors
  num_used = sum(len(of_model) > 0 for of_model in members)
  warning = None
  if num_used < settings.num_clusters:
    warning = (
        f"IFCA's clients chose {num_used} of `num_clusters`={settings.num_clusters} models."
    )
  return method.ClusterState(choices.vectors[shown], members, memory, warning)


def _from_state(state: method.ClusterState) -> _Choices:
  """Returns what `_to_state` made the state of."""
  memory = state.memory
  return _Choices(
      memory.get("vectors", state.vectors),
      memory["chosen"],
      memory["losses"],
      memory["is_current"],
  )


def ifca(settings: Ifca, engine: engine_lib.Engine) -> method.Method:
  """Returns IFCA.

  Its clusters are those of the best set of models.  With several sets, that may be
  another one in another round, and then the clusters' places mean something else.  A new
  client gets the model with the least loss on its training data.
  """

  def initialize(pretrained: method.Pretrained, rng: np.random.Generator) -> method.ClusterState:
    grouping.check_num_clusters(settings.num_clusters, len(engine.clients))
    vectors = _STARTS[settings.ifca_start](settings, engine, pretrained, rng)
    shape = (settings.ifca_restarts, len(engine.clients))
    nothing_chosen = _Choices(
        vectors, np.zeros(shape, np.int64), np.zeros(shape, np.float32), np.zeros(shape[1], bool)
    )
    return _to_state(_choose(nothing_chosen, engine.clients, engine), settings)

  def next_state(state: method.ClusterState, round_: participation.Round) -> method.Trained:
    before = _from_state(state)
    late = round_.clients[~before.is_current[round_.clients]]
    choices = _choose(before, late, engine)
    # Whoever takes part got all models when it chose.
    vectors, losses = engine.train(
        choices.vectors, choices.members(), round_, already_sent=True
    )
    trained = dataclasses.replace(
        choices, vectors=vectors, is_current=np.zeros_like(choices.is_current)
    )
    after = _choose(trained, round_.clients, engine)
    shown = after.of_set(after.best_set())
    return _to_state(after, settings), losses[shown]

  by_sketches = (settings.ifca_start, settings.representation) == ("grouped", grouping.SKETCH)
  return method.Method(
      initialize,
      next_state,
      new_clients.by_loss(engine),
      from_start=settings.ifca_start == "random",
      uses_own_weights=not by_sketches,
  )
