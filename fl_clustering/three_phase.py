"""Three-phase federated learning that groups similar clients.

The method of "Federated Learning through Distance-Based Clustering" (Helmy,
Katerji, Muthukrishnan, Towards Data Science, 2021):

1.  *Pretraining*: FedAvg over all clients.
2.  *Grouping and cluster training*: clients are grouped by the weights that
    their last local training gave; every cluster starts from the mean of its
    clients' own weights and is a FedAvg of its own from then on.
3.  *Evaluation*: the cluster models as they are, averaged, averaged with
    weights, and blended with their average.

Three controls (`methods/controls.py`) run beside the methods that are chosen, and a fourth
(`matched_control.py`) where a method trains more than the others.

This file is the straight line through the other modules; it reads no flags and
writes no files but the clients' data and, through `checkpoint.py`, its state.
"""

import functools

from clustering_basics import randomness
from fl_clustering import client_privacy
from fl_clustering import config as config_lib
from fl_clustering import control_repeats
from fl_clustering.engine import client_update
from fl_clustering.engine import engine as engine_lib
from fl_clustering.engine import federated_training
from fl_clustering import final_evaluation
from fl_clustering.grouping import num_clusters
from fl_clustering import matched_control
from fl_clustering import method_rounds
from fl_clustering.methods import registry
from fl_clustering import participation
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
  aggregator = config.build_aggregator().build(
      config.clients_per_round or config.num_training_clients
  )
  fedavg = federated_training.FedAvg(task, engine.files, local_training, aggregator, config.seed)

  settings = stages.digest(config.training_settings(), task.fingerprint())
  pretrained = pretraining.pretrain(config, fedavg, engine, scorer, stage_runner, settings)
  choice = None
  if config.chooses_num_clusters:
    choice = num_clusters.choose(
        pretrained.client_weights,
        randomness.generator(config.seed, "number of clusters"),
        config.representation or "weights",
        config.num_clusters_criterion,
    )
    config = config.with_num_clusters(choice.num_clusters)
  chosen = {
      name: registry.METHODS[name].build(config.method_settings(name), engine)
      for name in config.chosen_methods
  }
  controls = {name: build(config, engine) for name, build in registry.CONTROLS.items()}
  methods = {**chosen, **controls}
  starts = {
      name: method_rounds.start(name, method, pretrained, config, engine, settings)
      for name, method in methods.items()
  }
  stage_runner.tell_grouped(
      pretrained.client_weights,
      {name: starts[name].state.reported_clusters()[1] for name in chosen},
  )

  def finish(name, method, start, numbers):
    outcome = method_rounds.run(
        name, method, start, numbers, config, engine, scorer, stage_runner
    )
    placement = None
    if engine.new_client_ids:
      placement = method.place(pretrained, outcome.state, engine.new_client_ids)
    true_groups = task.true_groups if name in chosen else None
    return outcome, final_evaluation.evaluate(outcome, placement, scorer, true_groups)

  results, fedavg_outcome = {}, None
  for name, method in methods.items():
    numbers = participation.numbers_of(config, method.from_start)
    outcome, results[name] = finish(name, method, starts[name], numbers)
    if name == registry.FEDAVG:
      fedavg_outcome = outcome
  most_steps = max((results[name].cost.client_steps for name in chosen), default=0)
  numbers = matched_control.numbers(config, fedavg_outcome, most_steps)
  if numbers:
    start = method_rounds.go_on(fedavg_outcome, starts[registry.FEDAVG])
    _, results[matched_control.NAME] = finish(
        matched_control.NAME, methods[registry.FEDAVG], start, numbers
    )
  repeats = None
  if config.control_repeats:
    repeats = control_repeats.run(
        config, starts[registry.FEDAVG], engine, scorer, stage_runner
    )
  return three_phase_result.ThreePhaseResult(
      pretrain=final_evaluation.evaluate_pretrained(pretrained, scorer),
      client_weights=pretrained.client_weights,
      methods=results,
      control_repeats=repeats,
      num_clusters_choice=choice,
      privacy=privacy,
      local_weights=functools.partial(
          pretraining.local_weights, config, engine, pretrained.vector
      ),
  )
