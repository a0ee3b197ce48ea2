"""Phase 2: the rounds of one method, whichever it is.

Every round is scored on the clients' test data and saved.
"""

import json

import numpy as np

from clustering_basics import validate
from fl_clustering.methods import method as method_lib
from fl_clustering import metrics as metrics_lib
from fl_clustering import participation
from fl_clustering import stages

_PHASE = "cluster"
_MEMORY = "memory_"


def run(name, method, start_state, config, engine, scorer, stage_runner):
  """Runs a method's rounds, from its checkpoint if there is one.

  Args:
    name: The method's name.
    method: A `methods.method.Method`.
    start_state: The `ClusterState` that its `initialize` returned.
    config: The run's `ThreePhaseConfig`.
    engine: The run's `engine.Engine`.
    scorer: The run's `scoring.Scoring`.
    stage_runner: The run's `stages.StageRunner`.

  Returns:
    The `ClusterState` after the last round; and the highest accuracy that every cluster
    reached in any round on its members' test data, float64 of shape (K,), 0 for a
    cluster that never had any.

  Raises:
    ValueError: If the method leaves a client without a cluster, or drops a cluster.
  """

  def score(state, best_accuracy, round_num, losses):
    clients, of_clusters = scorer.on_clients_and_clusters(state.vectors, state.members)
    accuracy = metrics_lib.accuracy(of_clusters)
    rows = stages.metric_rows(
        _PHASE, name, "", round_num, metrics_lib.client_metrics(clients)
    )
    for k, members in enumerate(state.members):
      # What an empty or untrained cluster doesn't have is left out.
      metrics = {"accuracy": accuracy[k]} if members else {}
      if k < len(losses) and losses[k]:
        metrics["train_loss"] = np.mean(list(losses[k].values()))
      rows += stages.metric_rows(_PHASE, name, k, round_num, metrics)
    best = np.zeros(len(accuracy))
    best[: len(best_accuracy)] = best_accuracy
    return _pack(state, np.fmax(best, accuracy)), rows

  def start():
    return score(start_state, (), 0, ())

  def step(arrays, round_num):
    state, best_accuracy = _unpack(arrays, start_state)
    number = participation.grouping_round(config) + round_num
    num_before = len(state.members)
    state, losses = method.next(
        state, participation.round_of(config, engine.client_ids, number)
    )
    if len(state.members) < num_before:
      raise validate.error(
          "members", f"have at least {num_before} clusters, as before", len(state.members)
      )
    return score(state, best_accuracy, round_num, losses)

  arrays = stage_runner.run(name, 0, config.cluster_rounds, start, step)
  return _unpack(arrays, start_state)


def _pack(state, best_accuracy):
  """Returns a `ClusterState` and the clusters' best accuracy as arrays by name."""
  clusters = {"members": state.members, "warning": state.warning}
  return {
      "vectors": state.vectors,
      "best_accuracy": best_accuracy,
      "clusters": np.array(json.dumps(clusters)),
      **{_MEMORY + name: array for name, array in state.memory.items()},
  }


def _unpack(arrays, start_state):
  """Returns what `_pack` made the arrays from.

  Checkpoints of earlier versions hold no clusters: those were the same in every round.
  """
  clusters = {"members": start_state.members, "warning": start_state.warning}
  if "clusters" in arrays:
    clusters = json.loads(arrays["clusters"].item())
  memory = {
      name[len(_MEMORY) :]: array
      for name, array in arrays.items()
      if name.startswith(_MEMORY)
  }
  state = method_lib.ClusterState(arrays["vectors"], memory=memory, **clusters)
  return state, arrays["best_accuracy"]
