"""Three-phase federated learning that groups similar clients.

The method of "Federated Learning through Distance-Based Clustering" (Helmy,
Katerji, Muthukrishnan, Towards Data Science, 2021):

1.  *Pretraining*: FedAvg over all clients.
2.  *Grouping and cluster training*: clients are grouped by the weights that
    their last local training gave; every cluster starts from the mean of its
    clients' own weights and is a FedAvg of its own from then on.
3.  *Evaluation*: the cluster models as they are, averaged, averaged with
    weights, and blended with their average.

Two controls run beside the groupings, because most of what phase 2 gains over
phase 1 is the gain of training longer: `fedavg` goes on training everyone
together for as long, and `local` trains every client alone.  Both start from the
weights that are grouped, and differ from a grouping in nothing else.

This file is the straight line through the other modules; it reads no flags and
writes no files but the clients' data and, through `checkpoint.py`, its state.
"""

import dataclasses

import numpy as np

from clustering_basics import randomness
from fl_clustering import aggregation
from fl_clustering import client_files
from fl_clustering import client_privacy
from fl_clustering import client_update
from fl_clustering import client_weights as client_weights_lib
from fl_clustering import cluster_training
from fl_clustering import config as config_lib
from fl_clustering import federated_training
from fl_clustering.grouping import grouping as grouping_lib
from fl_clustering.grouping import recovery
from fl_clustering import metrics as metrics_lib
from fl_clustering import mixtures
from fl_clustering import participation
from fl_clustering import round_metrics
from fl_clustering import scoring
from fl_clustering import stages
from fl_clustering.tasks import federated_task
from fl_clustering import three_phase_result

PRETRAIN = "pretrain"
CONTROLS = ("fedavg", "local")
# Local epochs for which the recovery of known groups is tried, besides the run's.
_RECOVERY_EPOCHS = (1, 5)


def run(
    config: config_lib.ThreePhaseConfig,
    task: federated_task.FederatedTask,
    data_dir,
    checkpoints=None,
    observers=(),
) -> three_phase_result.ThreePhaseResult:
  """Runs all three phases. TFF's context must be set, see `runtime.py`.

  Args:
    config: The settings.
    task: The clients and their data, as `config` describes them.
    data_dir: An existing folder for the clients' data files.
    checkpoints: `checkpoint.Checkpoints` to go on from and to save to.
    observers: `stages.RunObserver`s.

  Returns:
    A `three_phase_result.ThreePhaseResult`.

  Raises:
    federated_training.TrainingDiverged: If a client's loss is not finite.
  """
  return _Run(config, task, data_dir, checkpoints, observers).run()


class _Run:
  """The parts of one run, built once: TFF prepares a computation only once."""

  def __init__(self, config, task, data_dir, checkpoints, observers):
    self._config = config
    self._task = task
    self._stages = stages.StageRunner(checkpoints, observers)
    self._observers = observers
    files = client_files.write_client_files(task, data_dir)
    options = client_update.LocalTraining(config.batch_size, config.learning_rate)
    self._fedavg = federated_training.FedAvg(
        task,
        files,
        options,
        aggregation.AGGREGATORS[config.aggregator].build(config),
        config.seed,
    )
    self._cluster_training = cluster_training.ClusterTraining(
        task, files, options, config.seed
    )
    self._scoring = scoring.Scoring(task, files)
    # Before any training: what it says of the run must not depend on how it ends.
    self._privacy = client_privacy.spent(config) if config.aggregator == "dp" else None
    # Rounds are numbered through the phases, so that every local training has
    # random numbers of its own.
    self._grouping_round = config.pretrain_rounds + 1

  def run(self):
    broadcast, trained = self._pretrain()
    client_weights = self._collect(broadcast, trained)
    assignments = {
        name: self._group(self._config.build_grouping(name), client_weights)
        for name in self._config.groupings
    }
    for observer in self._observers:
      observer.clients_grouped(client_weights, assignments)
    methods = {
        name: self._train_and_evaluate(
            name, assignment, self._cluster_starts(client_weights, assignment)
        )
        for name, assignment in assignments.items()
    }
    methods["fedavg"] = self._train_and_evaluate(
        "fedavg", self._everyone(), self._fedavg_start(client_weights)
    )
    methods["local"] = self._train_and_evaluate(
        "local", self._everyone_alone(), client_weights.vectors
    )
    return three_phase_result.ThreePhaseResult(
        pretrain=self._evaluate_pretrained(trained.vector, client_weights),
        client_weights=client_weights,
        methods=methods,
        recovery=self._recovery(trained.vector, client_weights),
        privacy=self._privacy,
    )

  def _participants(self, round_num):
    """Returns the ids of the clients that take part in a round of any method."""
    config = self._config
    chosen = participation.participants(
        config.seed, config.num_clients, config.clients_per_round, round_num
    )
    return tuple(self._task.client_ids[i] for i in chosen)

  # Phase 1.

  def _pretrain(self):
    """Returns the `FedAvgState`s before and after the last round."""

    def start():
      return self._pack(self._fedavg.initialize()), []

    def step(state, round_num):
      before = self._unpack(state)
      after, losses = self._fedavg.next(
          before,
          self._participants(round_num),
          self._config.client_epochs_per_round,
          round_num,
      )
      vectors = after.vector[None]
      clients, _ = self._scoring.on_clients_and_clusters(vectors, self._everyone())
      (global_test,) = self._scoring.on_global_test(vectors)
      rows = round_metrics.rows(PRETRAIN, PRETRAIN, "", round_num, {
          "train_loss": np.mean(list(losses.values())),
          **round_metrics.model_metrics("global", global_test),
          **round_metrics.client_metrics(clients),
      })
      return {**self._pack(after), "broadcast": before.vector}, rows

    state = self._stages.run(PRETRAIN, 1, self._config.pretrain_rounds, start, step)
    trained = self._unpack(state)
    return dataclasses.replace(trained, vector=state["broadcast"]), trained

  def _pack(self, state):
    leaves = {f"aggregator_{i}": leaf for i, leaf in enumerate(state.aggregator_state)}
    return {"vectors": state.vector[None], **leaves}

  def _unpack(self, arrays):
    num_leaves = sum(name.startswith("aggregator_") for name in arrays)
    return federated_training.FedAvgState(
        arrays["vectors"][0], tuple(arrays[f"aggregator_{i}"] for i in range(num_leaves))
    )

  def _evaluate_pretrained(self, vector, client_weights):
    clients, _ = self._scoring.on_clients_and_clusters(vector[None], self._everyone())
    own_weights, _ = self._scoring.on_clients_and_clusters(
        client_weights.vectors, self._everyone_alone()
    )
    return three_phase_result.PretrainResult(
        vector=vector,
        global_test=self._scoring.on_global_test(vector[None])[0],
        clients=clients,
        own_weights=own_weights,
    )

  # Grouping.

  def _collect(self, broadcast, trained):
    """Returns the clients' own weights after their last local training.

    By default those of the last round: every client's training from the model
    that was broadcast in it, which is repeated here with the same random
    numbers. With `grouping_epochs`, one more local training from the final model.
    """
    epochs = self._config.grouping_epochs
    if epochs is None:
      return self._local_training(
          broadcast.vector,
          self._config.client_epochs_per_round,
          self._config.pretrain_rounds,
      )
    return self._local_training(trained.vector, epochs, self._grouping_round)

  def _local_training(self, vector, epochs, round_num):
    client_ids = self._task.client_ids
    vectors, _ = self._cluster_training.next(
        np.broadcast_to(vector, (len(client_ids), len(vector))),
        self._everyone_alone().clusters,
        client_ids,
        epochs,
        round_num,
    )
    return client_weights_lib.ClientWeights(client_ids, vectors, vector)

  def _group(self, strategy, client_weights):
    assignment = strategy(
        client_weights, randomness.generator(self._config.seed, "grouping")
    )
    assignment.check_covers(client_weights.client_ids)
    return assignment

  def _everyone(self):
    return grouping_lib.ClusterAssignment((self._task.client_ids,))

  def _everyone_alone(self):
    return grouping_lib.ClusterAssignment(
        tuple((client_id,) for client_id in self._task.client_ids)
    )

  def _recovery(self, vector, client_weights):
    """Tries every representation and several local epochs on known groups."""
    truth = self._task.true_groups
    if truth is None or not self._config.groupings:
      return []
    used_epochs = self._config.grouping_epochs
    weights_by_epochs = {used_epochs: client_weights}
    for epochs in _RECOVERY_EPOCHS:
      if epochs != used_epochs:
        weights_by_epochs[epochs] = self._local_training(
            vector, epochs, self._grouping_round
        )
    rows = []
    for name in self._config.groupings:
      for epochs, weights in weights_by_epochs.items():
        for representation in client_weights_lib.REPRESENTATIONS:
          assignment = self._group(
              self._config.build_grouping(name, representation=representation), weights
          )
          if assignment.overlapping:
            continue
          rows.append({
              "grouping": name,
              "representation": representation,
              "grouping_epochs": epochs or "last round",
              "adjusted_rand_index": recovery.adjusted_rand_index(assignment, truth),
              "purity": recovery.purity(assignment, truth),
              "used": int(
                  epochs == used_epochs and representation == self._config.representation
              ),
          })
    return rows

  # Phases 2 and 3.

  def _cluster_starts(self, client_weights, assignment):
    return np.stack([client_weights.mean_of(c) for c in assignment.clusters])

  def _fedavg_start(self, client_weights):
    """Returns the model from which the control trains everyone together.

    The mean of the same weights that the clusters start from, here by examples, as
    FedAvg averages: where all clients took part and `mean` averaged, it is the model
    of phase 1, with the `grouping_epochs` if there are any.
    """
    num_examples = {c.client_id: len(c.train) for c in self._task.clients}
    return client_weights.mean_of(client_weights.client_ids, num_examples)[None]

  def _train_and_evaluate(self, name, assignment, start_vectors):
    """Runs phases 2 and 3 for one grouping or control.

    Args:
      name: Its name.
      assignment: Its clusters.
      start_vectors: The models that its clusters start from, (K, P).
    """

    def score(vectors, best_accuracy, round_num, losses):
      clients, of_clusters = self._scoring.on_clients_and_clusters(vectors, assignment)
      accuracy = metrics_lib.accuracy(of_clusters)
      rows = round_metrics.rows(
          "cluster", name, "", round_num, round_metrics.client_metrics(clients)
      )
      for k in range(len(assignment.clusters)):
        metrics = {"accuracy": accuracy[k]}
        if losses is not None and losses[k]:
          metrics["train_loss"] = np.mean(list(losses[k].values()))
        rows += round_metrics.rows("cluster", name, k, round_num, metrics)
      best_accuracy = np.maximum(best_accuracy, accuracy)
      return {"vectors": vectors, "best_accuracy": best_accuracy}, rows

    def start():
      return score(start_vectors, np.zeros(len(assignment.clusters)), 0, None)

    def step(state, round_num):
      vectors, losses = self._cluster_training.next(
          state["vectors"],
          assignment.clusters,
          self._participants(self._grouping_round + round_num),
          self._config.client_epochs_per_round,
          self._grouping_round + round_num,
      )
      return score(vectors, state["best_accuracy"], round_num, losses)

    state = self._stages.run(name, 0, self._config.cluster_rounds, start, step)
    return self._evaluate(name, assignment, state["vectors"], state["best_accuracy"])

  def _evaluate(self, name, assignment, vectors, best_accuracy):
    """Phase 3."""
    mixed = mixtures.mix(vectors, best_accuracy)
    on_global_test = self._scoring.on_global_test(
        np.concatenate([mixed.mean[None], mixed.weighted[None], mixed.blended])
    )
    clients, _ = self._scoring.on_clients_and_clusters(vectors, assignment)
    clients_blended, _ = self._scoring.on_clients_and_clusters(mixed.blended, assignment)
    truth = self._task.true_groups if name not in CONTROLS else None
    return three_phase_result.MethodResult(
        assignment=assignment,
        vectors=vectors,
        best_accuracy=best_accuracy,
        clients=clients,
        clients_blended=clients_blended,
        global_mean=on_global_test[0],
        global_weighted=on_global_test[1],
        global_blended=on_global_test[2:],
        adjusted_rand_index=truth and recovery.adjusted_rand_index(assignment, truth),
        purity=truth and recovery.purity(assignment, truth),
    )
