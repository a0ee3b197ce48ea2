"""A method of one's own that trains: a simple form of Ditto, beside K-means, on arrays.

Every client trains a model of its own, which every round pulls towards the model that all train
together (Li, Hu, Beirami, Smith, "Ditto: Fair and Robust Federated Learning Through
Personalization", ICML 2021, which pulls in every step).  docs/own_method.md says more.

  PYTHONPATH=. python examples/simple_ditto.py
"""

import dataclasses
import functools
import sys

import numpy as np
from sklearn import datasets

from clustering_basics import options, validate
from fl_clustering.engine import engines
from fl_clustering.methods import method, registry

try:
  engines.check_installed(engines.usual())
except ValueError as e:
  sys.exit(f"error: {e}")


@dataclasses.dataclass(frozen=True)
class SimpleDitto(options.Settings):
  """The settings of the method."""

  ditto_pull: float = options.option(
      float, "Share of the way to the common model that a client's own goes in a round.",
      default=0.1, rule=functools.partial(validate.within, 0, 1),
  )


def simple_ditto(settings, engine):
  def initialize(pretrained, rng):
    vectors = np.tile(pretrained.vector, (len(engine.clients), 1))
    alone = engine.clients[:, None]  # A cluster for each.
    return method.ClusterState(vectors, alone, {"common": pretrained.vector})

  def next_round(state, round_):
    (common,), _ = engine.train(state.memory["common"][None], (engine.clients,), round_)
    vectors, losses = engine.train(state.vectors, state.members, round_)
    taking_part = round_.clients
    vectors[taking_part] += np.float32(settings.ditto_pull) * (common - vectors[taking_part])
    return method.ClusterState(vectors, state.members, {"common": common}), losses

  def place(pretrained, state, clients):
    vectors = np.tile(state.memory["common"], (len(clients), 1))
    return method.Placement(((),) * len(clients), vectors)

  return method.Method(initialize, next_round, place, uses_own_weights=False)


# Before the settings are imported, which have the options of all methods.
registry.METHODS["simple_ditto"] = registry.MethodEntry(SimpleDitto, simple_ditto)

from fl_clustering import local_run
from fl_clustering.engine import metrics
from fl_clustering.tasks import own_clients
from fl_clustering.three_phase import config

# Real digits, 8x8, over twelve sites.  The odd sites number the classes the other way round.
x, y = datasets.load_digits(return_X_y=True)
shares = np.array_split(np.random.default_rng(0).permutation(len(y)), 12)
clients = {
    f"site {i}": (x[share] / 16, 9 - y[share] if i % 2 else y[share])
    for i, share in enumerate(shares)
}
task = own_clients.task_from_arrays(clients, "logistic")
settings = config.ThreePhaseConfig.for_task(
    task, methods=("simple_ditto", "kmeans"), num_clusters=2, representation="update",
    ditto_pull=0.05, pretrain_rounds=5, cluster_rounds=10, client_epochs_per_round=5,
)
result = local_run.run(settings, task)
for name, found in result.methods.items():
  print(f"{name:16}{metrics.accuracy(found.clients).mean():.3f}")
