"""Three-phase federated learning that groups similar clients.

The method of "Federated Learning through Distance-Based Clustering" (Helmy,
Katerji, Muthukrishnan, Towards Data Science, 2021):

1.  *Pretraining*: FedAvg over all clients.
2.  *Grouping and cluster training*: clients are grouped by the weights that
    their last local training gave; every cluster starts from the mean of its
    clients' own weights and is a FedAvg of its own from then on.
3.  *Evaluation*: the cluster models as they are, averaged, averaged with
    weights, and blended with their average.

Two controls (`methods/controls.py`) run beside the methods that are chosen.

This file is the straight line through the other modules; it reads no flags and
writes no files but the clients' data and, through `checkpoint.py`, its state.
"""

import functools

from clustering_basics import randomness
from fl_clustering import client_privacy
from fl_clustering import config as config_lib
from fl_clustering.engine import client_update
from fl_clustering.engine import engine as engine_lib
from fl_clustering.engine import federated_training
from fl_clustering import final_evaluation
from fl_clustering import method_rounds
from fl_clustering.methods import registry
from fl_clustering import pretraining
from fl_clustering import scoring
from fl_clustering import stages
from fl_clustering.tasks import federated_task
from fl_clustering import three_phase_result


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
  # Compute the guarantee first, so it can't depend on the outcome.
  privacy = client_privacy.spent(config)
  stage_runner = stages.StageRunner(checkpoints, observers)
  local_training = client_update.LocalTraining(config.batch_size, config.learning_rate)
  engine = engine_lib.Engine(task, data_dir, local_training, config.seed)
  scorer = scoring.Scoring(engine)
  aggregator = config.build_aggregator().build(config.clients_per_round or config.num_clients)
  fedavg = federated_training.FedAvg(task, engine.files, local_training, aggregator, config.seed)

  pretrained = pretraining.pretrain(config, fedavg, engine, scorer, stage_runner)
  chosen = {
      name: registry.METHODS[name].build(config.method_settings(name), engine)
      for name in config.groupings
  }
  controls = {name: build(engine) for name, build in registry.CONTROLS.items()}
  methods = {**chosen, **controls}
  states = {
      name: method.initialize(pretrained, randomness.generator(config.seed, "grouping"))
      for name, method in methods.items()
  }
  stage_runner.tell_grouped(
      pretrained.client_weights,
      {name: states[name].reported_clusters()[1] for name in chosen},
  )
  results = {}
  for name, method in methods.items():
    state, best_accuracy = method_rounds.run(
        name, method, states.pop(name), config, engine, scorer, stage_runner
    )
    true_groups = task.true_groups if name in chosen else None
    results[name] = final_evaluation.evaluate(state, best_accuracy, scorer, true_groups)
  return three_phase_result.ThreePhaseResult(
      pretrain=final_evaluation.evaluate_pretrained(pretrained, scorer),
      client_weights=pretrained.client_weights,
      methods=results,
      privacy=privacy,
      local_weights=functools.partial(
          pretraining.local_weights, config, engine, pretrained.vector
      ),
  )
