"""An invented run with known numbers, and the files that it would have left."""

import numpy as np
import pandas as pd

from experiments.three_phase_emnist import data
from experiments.three_phase_emnist import experiment
from experiments.three_phase_emnist import measure
from fl_clustering.engine import cost as cost_lib
from fl_clustering.methods import client_weights
from fl_clustering.methods import cluster_assignment
from fl_clustering.methods import num_clusters
from fl_clustering.methods import registry
from fl_clustering.tasks import examples
from fl_clustering.tasks import federated_task
from fl_clustering.tasks import models
from fl_clustering.three_phase import config as config_lib
from fl_clustering.three_phase import result as result_lib
from fl_clustering.three_phase import rows as rows_lib
from fl_clustering.three_phase import stages
from tests.experiment_shell import run_folder

# Of a client's test examples, all of label 0, how many are right: the mean over the clients.
MEANS = {
    "pretrain": 10, "kmeans": 16, "dynamic_distance": 15, "fedavg": 12, "finetuned": 15,
    "local": 11,
}
_NUM_TEST, _NUM_CLASSES = 20, 3
_ROUNDS = {"pretrain": 3, "local": 5}  # Others have two.
_METRICS = ("accuracy", "accuracy_p10")


def task(num_clients=6, num_new=0, groups=True, num_classes=_NUM_CLASSES, **changes):
  """Returns clients of two groups; client k has k + 1 training examples of every label."""
  def of_labels(labels):
    labels = np.array(labels, np.int32)
    return examples.Examples(np.zeros((len(labels), 2), np.float32), labels)

  clients = federated_task.PooledClients.of([
      federated_task.ClientData(
          f"client_{k}", of_labels(np.repeat(range(num_classes), k % 10 + 1)),
          of_labels([0] * _NUM_TEST), k % 2 if groups else None,
      )
      for k in range(num_clients + num_new)
  ])
  model = models.build("logistic", (2,), num_classes, "float32")
  return federated_task.FederatedTask(**{
      "name": "sample", "source": "made-up <points>", "partition": "rotated",
      "clients": clients[:num_clients], "new_clients": clients[num_clients:],
      "global_test": of_labels(range(num_classes)), "global_test_source": "made up",
      "num_classes": num_classes, "model": model, **changes,
  })


def _confusions(right, num_classes):
  """Returns a matrix for each client, of so many right ones."""
  found = np.zeros((len(right), num_classes, num_classes), np.int64)
  found[:, 0, 0], found[:, 0, 1] = right, _NUM_TEST - np.array(right)
  return found


def _right(method, mean, number):
  """Returns numbers around the mean; their differences from those of FedAvg differ."""
  step, shift = 1 + (method in registry.METHODS), len(method) % 2
  spread = (step * np.arange(number) + shift) % 3 - 1
  return np.clip(mean + spread, 0, _NUM_TEST)


def _assignment(method, clients):
  half = len(clients) // 2
  if method == "dynamic_distance":
    clusters, warning = (clients[: half + 1], clients[half:]), "too many cliques"
  elif method in registry.METHODS:
    # Those of the groups, the second one first.
    clusters, warning = filter(len, (clients[1::2], clients[::2])), None
  else:
    clusters, warning = ([clients] if "fedavg" in method else clients[:, None]), None
  return cluster_assignment.ClusterAssignment(tuple(clusters), warning)


def result(on, means=None, choice=None, repeats=4, spread=1.0, validation=None, **changes):
  """Returns the `ThreePhaseResult` of a task.

  Args:
    means: Other than `MEANS`, by method; None for a method that is not there.
    repeats: How often FedAvg was trained again.
    spread: Of the repeats.
    validation: The confusion matrices of all methods on validation data.
  """
  means = {name: mean for name, mean in {**MEANS, **(means or {})}.items() if mean is not None}
  ids, new_ids = on.client_ids, on.new_client_ids
  costs = {"steps": 30, "bytes_down": 3_000_000, "bytes_up": 1_000_000}

  def confusions(method, clients):
    return _confusions(_right(method, means[method], len(clients)), on.num_classes)

  pretrain = result_lib.PretrainResult(
      np.zeros(3, np.float32), np.eye(on.num_classes, dtype=np.int64), confusions("pretrain", ids),
      confusions("pretrain", ids), confusions("pretrain", new_ids) if new_ids else None,
      cost_lib.Cost(**costs),
  )
  methods = {}
  for method in means:
    if method == "pretrain":
      continue
    assignment = _assignment(method, np.arange(len(ids)))
    count = len(assignment.clusters)
    groups = on.true_groups if method in registry.METHODS else None
    is_known = groups is not None
    methods[method] = result_lib.MethodResult(
        assignment=assignment,
        vectors=np.zeros((count, 3), np.float32),
        best_accuracy=np.linspace(0.5, 0.6, count),
        clients=confusions(method, ids),
        clients_blended=confusions(method, ids),
        global_mean=np.eye(on.num_classes, dtype=np.int64),
        global_weighted=np.ones((on.num_classes, on.num_classes), np.int64),
        global_blended=np.ones((min(count, 100), on.num_classes, on.num_classes), np.int64),
        new_clients=confusions(method, new_ids) if new_ids else None,
        new_client_clusters=((0,),) * len(new_ids) if new_ids else None,
        cost=cost_lib.Cost(**{name: 2 * value for name, value in costs.items()}),
        ari=assignment.adjusted_rand_index(groups) if is_known else None,
        purity=assignment.purity(groups) if is_known else None,
        validation=validation,
    )
  of_fedavg = _right("fedavg", means["fedavg"], len(ids)) / _NUM_TEST
  groups = np.float32(np.arange(len(ids)) % 2)[:, np.newaxis]
  vectors = np.eye(len(ids), 4, dtype=np.float32) + groups
  return result_lib.ThreePhaseResult(**{
      "pretrain": pretrain,
      "evaluated": np.arange(len(ids)),
      "client_weights": client_weights.ClientWeights(
          np.arange(len(ids)), vectors, np.ones(4, np.float32)
      ),
      "methods": methods,
      "repeats": {"fedavg": np.array([
          of_fedavg + 0.01 * spread * (-1) ** repeat for repeat in range(repeats)
      ])} if repeats else {},
      "num_clusters_choice": choice,
      "local_weights": None,
      **changes,
  })


def choice():
  """Returns a choice of two clusters."""
  return num_clusters.NumClustersChoice((0.2, 0.5, 0.1))


def _curves(found, matched_rounds):
  told = rows_lib.Rounds()
  for method in ("pretrain", *found.methods):
    rounds = matched_rounds if method == "fedavg_matched" else _ROUNDS.get(method, 2)
    for number in range(method == "pretrain", rounds + 1):
      cost = cost_lib.Cost(10, 1_000_000, 500_000) if number else cost_lib.Cost()
      of_all = {**dict.fromkeys(_METRICS, 0.5 + 0.01 * number), **cost.by_name()}
      for cluster, metrics in (("", of_all), (0, {"accuracy": 0.4})):
        told.round_finished(method, number, stages.metric_rows(method, cluster, number, metrics))
  return told.rows(found)


def _recovery():
  for representation in ("weights", "update", "normalized_update"):
    for epochs in ("last round", 1, 5):
      used = int((representation, epochs) == ("update", 1))
      for metric in ("ari", "purity"):
        yield "kmeans", representation, epochs, used, metric, 0.9


def write(folder, on=None, matched_rounds=2, saved=None, settings=None, warnings=(), **changes):
  """Writes all files but what is drawn of them; returns the folder as a `FinishedRun`.

  Args:
    on: The task; None for that of `task`.
    matched_rounds: Rounds of FedAvg matched, if it is there.
    saved: The method whose models are saved.
    settings: Other settings than the default ones, by name.
    **changes: Of `result`.
  """
  on = on or task()
  found = result(on, **changes)
  config = config_lib.ThreePhaseConfig(**{
      "dataset": "digits", "partition": "iid", "num_clients": len(on.clients),
      "pretrain_rounds": 3, "cluster_rounds": 2, "methods": ("kmeans", "dynamic_distance"),
      "num_clusters": 2, "control_repeats": len(found.repeats.get("fedavg", ())),
      **(settings or {}),
  })
  tables = {name: list(rows) for name, rows in measure.tidy_rows(config, on, found).items()}
  tables["curves"] = list(_curves(found, matched_rounds))
  more = {}
  if on.true_groups is not None:
    more["group_recovery"] = _recovery()
  if saved is not None:
    tables["results"].append({"method": saved, "cluster": "", "metric": "saved", "value": 1})
  frames = {}
  for name, further in experiment.EXPERIMENT.tidy.items():
    columns = [*further, "metric", "value"]
    rows = tables.get(name) or [dict(zip(columns, row)) for row in more.get(name, ())]
    frames[name] = pd.DataFrame(rows, columns=columns)
    frames[name].insert(0, "seed", 0)
  return run_folder.written(folder, {
      "experiment": experiment.EXPERIMENT.name, "config": config.to_json(),
      "inputs": data.identity(config, on), "about": data.describe(config, on),
      "warnings": warnings,
  }, frames)
