"""The result of a three-phase run.

Models are judged by confusion matrices of shape (C, C), with true labels as rows.
"""

from __future__ import annotations

import dataclasses
from typing import Callable, Mapping, TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
  from fl_clustering.engine import cost as cost_lib
  from fl_clustering.methods import client_weights as client_weights_lib
  from fl_clustering.methods import cluster_assignment
  from fl_clustering.methods import method as method_lib
  from fl_clustering.methods import num_clusters


@dataclasses.dataclass(frozen=True)
class PretrainResult:
  """Phase 1.

  Attributes:
    vector: The global model, of shape (P,).
    global_test: Its confusion matrix on the global test set, of shape (C, C).
    clients: Those on the test data of every client that is evaluated, (n, C, C).
    own_weights: The same for every client's own weights; `None` where the run keeps none.
    new_clients: The same for the global model on the new clients' test data; `None`
      without new clients.
    cost: What phase 1 asked of the clients.
  """

  vector: np.ndarray
  global_test: np.ndarray
  clients: np.ndarray
  own_weights: np.ndarray | None
  new_clients: np.ndarray | None
  cost: cost_lib.Cost


@dataclasses.dataclass(frozen=True, eq=False)
class Outcome:
  """What a method's rounds come to.

  Attributes:
    state: The state after the last round, of K clusters.
    best_accuracy: The highest accuracy that every cluster reached in any round on its members' test
      data, float64 of shape (K,); NaN for a cluster that never had any.
    cost: The cost of the method so far.
  """

  state: method_lib.ClusterState
  best_accuracy: np.ndarray
  cost: cost_lib.Cost


@dataclasses.dataclass(frozen=True)
class MethodResult:
  """Phases 2 and 3 of one method or control with K clusters.

  Attributes:
    vectors: The cluster models, (K, P).
    best_accuracy: The highest accuracy every cluster reached in any round on its own clients' test
      data, (K,).
    clients: Confusion matrices of every client that is evaluated with its cluster's model, or with
      the mean of its clusters' models, (n, C, C).
    clients_blended: The same after every cluster's model was replaced by the mean
      of itself and the mean of all clusters' models.
    global_mean: That of the mean of the cluster models, of shape (C, C).
    global_weighted: The same, weighted by `validation_accuracy`, or by `best_accuracy`.
    global_blended: The same for every blended model, (K, C, C); of many clusters, for those of
      `scoring.blended_on_global_test` alone.
    new_clients: Those of every new client with the model it was given, (num_new, C, C);
      `None` without new clients.
    new_client_clusters: Per new client the indices of its clusters in `assignment`; `None`
      without new clients.
    cost: What the method asked of its clients, phase 1 included where it builds on it.
    ari: The adjusted Rand index, agreement with the true groups; `None` if they are not known, if
      clusters overlap, or for a control.
    purity: The share of the clients that are in the most frequent true group of their cluster;
      `None` where `ari` is.
    validation: Confusion matrices as in `clients`, on the validation data of the clients that have
      some; `None` if no client has any.
    validation_accuracy: The accuracy of the cluster models on their own clients' validation data,
      (K,), NaN where these clients have none; `None` if no client has any.
  """

  assignment: cluster_assignment.ClusterAssignment
  vectors: np.ndarray
  best_accuracy: np.ndarray
  clients: np.ndarray
  clients_blended: np.ndarray
  global_mean: np.ndarray
  global_weighted: np.ndarray
  global_blended: np.ndarray
  new_clients: np.ndarray | None
  new_client_clusters: tuple[tuple[int, ...], ...] | None
  cost: cost_lib.Cost
  ari: float | None
  purity: float | None
  validation: np.ndarray | None = None
  validation_accuracy: np.ndarray | None = None


@dataclasses.dataclass(frozen=True)
class ThreePhaseResult:
  """Everything a run found.

  Attributes:
    evaluated: The clients on whose data models were evaluated, an increasing array.
    client_weights: The clients' own weights; `None` where sketches of their data were grouped.
    methods: The results of the methods and controls, by name.
    repeats: The accuracy of every client that is evaluated when a method or control was trained
      again, of shape (R, n), by its name.
    num_clusters_choice: How the number of clusters was chosen; `None` if it was given.
    local_weights: A function from a number of local epochs to the weights that
      `grouping_epochs` would have given.  It trains the clients, so it works as long as
      TFF's context and the run's `data_dir` are there.
    failures: Why methods and controls that are not in `methods` failed, by name.
  """

  pretrain: PretrainResult
  evaluated: np.ndarray
  client_weights: client_weights_lib.ClientWeights | None
  methods: Mapping[str, MethodResult]
  repeats: Mapping[str, np.ndarray]
  num_clusters_choice: num_clusters.NumClustersChoice | None
  local_weights: Callable[[int], client_weights_lib.ClientWeights]
  failures: Mapping[str, str] = dataclasses.field(default_factory=dict)
