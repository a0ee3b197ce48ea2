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

import contextlib
import dataclasses
import functools
import os
import types

from clustering_basics import atomic_file
from clustering_basics import randomness
from clustering_basics import validate
from fl_clustering import config as config_lib
from fl_clustering.engine import client_update
from fl_clustering.engine import engine as engine_lib
from fl_clustering.engine import federated_training
from fl_clustering.engine import participation
from fl_clustering.methods import num_clusters
from fl_clustering.methods import registry
from fl_clustering.tasks import federated_task
from fl_clustering.three_phase import client_privacy
from fl_clustering.three_phase import control_repeats
from fl_clustering.three_phase import final_evaluation
from fl_clustering.three_phase import matched_control
from fl_clustering.three_phase import method_rounds
from fl_clustering.three_phase import pretraining
from fl_clustering.three_phase import scoring
from fl_clustering.three_phase import stages
from fl_clustering.three_phase import three_phase_result

# More models, such as those of thousands of clients, wait in a file for their use.
_MOST_MODELS_KEPT = 200


def run(
    config: config_lib.ThreePhaseConfig,
    task: federated_task.FederatedTask,
    data_dir,
    checkpoints=None,
    observers=(),
    tolerated=(),
    failed=types.MappingProxyType({}),
) -> three_phase_result.ThreePhaseResult:
  """Runs all three phases. TFF's context must be set, see `runtime.py`.

  Args:
    config: The settings.
    task: The clients and their data, as `config` describes them.
    data_dir: An existing folder for the clients' data files, for the own weights of more than
      200 clients, and for the models of methods that end with more than 200.
    checkpoints: `checkpoint.Checkpoints` to go on from and to save to.
    observers: `stages.RunObserver`s.
    tolerated: Types of exceptions that end a method or control and not the run.
    failed: Why methods and controls fail that are known to, by name; they don't run.

  Returns:
    A `three_phase_result.ThreePhaseResult`.

  Raises:
    divergence.TrainingDiverged: If a client's loss is not finite.
    ValueError: If the settings are of another number of clients.
  """
  _check_number_of_clients(config, task)
  # Compute the guarantee first, so it can't depend on the outcome.
  privacy = client_privacy.spent(config)
  stage_runner = stages.StageRunner(checkpoints, observers)
  local_training = client_update.LocalTraining(config.batch_size, config.learning_rate)
  engine = engine_lib.Engine(task, data_dir, local_training, config.seed)
  scorer = scoring.Scoring(engine)
  aggregator = config.build_aggregator()
  fedavg = federated_training.FedAvg(
      task, engine.files, local_training,
      aggregator.build(config.clients_per_round or config.num_training_clients), config.seed,
      aggregator.is_private,
  )
  settings = stages.digest(
      config.training_settings(), task.fingerprint(), task.model.parameter_shapes
  )
  pretrained = pretraining.pretrain(config, fedavg, engine, scorer, stage_runner, settings)
  config, choice = _with_number_of_clusters(config, pretrained)
  methods = {
      **{
          name: registry.METHODS[name].build(config.method_settings(name), engine)
          for name in config.chosen_methods
      },
      **{name: build(config, engine) for name, build in registry.CONTROLS.items()},
  }
  results, starts, ends, failures = {}, {}, {}, dict(failed)

  @contextlib.contextmanager
  def failure_of(name):
    try:
      yield
    except tolerated as e:
      failures[name] = f"{e}" or type(e).__name__

  for name, method in methods.items():
    if name not in failures:
      stage_runner.tell_begins(name)
      with failure_of(name):
        starts[name] = method_rounds.start(name, method, pretrained, config, engine, settings)
  stage_runner.tell_grouped(
      pretrained.client_weights,
      {
          name: starts[name].state.reported_clusters()[1]
          for name in config.chosen_methods if name in starts
      },
  )
  pretrained = _with_weights_in_file(pretrained, data_dir)

  def train_and_evaluate(name, start, numbers):
    outcome = method_rounds.run(
        name, methods[name], start, numbers, config, engine, scorer, stage_runner
    )
    result = final_evaluation.evaluate(
        outcome,
        methods[name].place_new(pretrained, outcome.state, engine.new_client_ids),
        scorer,
        task.true_groups if name in config.chosen_methods else None,
    )
    results[name] = _with_models_in_file(result, data_dir, name)
    if name == registry.FEDAVG:
      ends[name] = outcome  # For the matched control.

  for name, start in starts.items():
    with failure_of(name):
      train_and_evaluate(
          name, start, participation.numbers_of(config, methods[name].from_start)
      )
  repeats = None
  # What follows goes on from the control, so there is none without it.
  if registry.FEDAVG in results:
    more_rounds = matched_control.numbers(config, results, engine)
    if more_rounds and matched_control.NAME not in failures:
      methods[matched_control.NAME] = methods[registry.FEDAVG]
      start = method_rounds.go_on(ends[registry.FEDAVG], starts[registry.FEDAVG])
      with failure_of(matched_control.NAME):
        train_and_evaluate(matched_control.NAME, start, more_rounds)
    repeats = control_repeats.run(config, starts[registry.FEDAVG], engine, scorer, stage_runner)
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
      failures=failures,
  )


def _with_weights_in_file(pretrained, data_dir):
  """Returns a `Pretrained` whose clients' weights, if they are many, are in a file."""
  weights = pretrained.client_weights
  if len(weights.client_ids) <= _MOST_MODELS_KEPT:
    return pretrained
  moved = weights.moved_to(os.path.join(data_dir, "client_weights.npy"))
  return dataclasses.replace(pretrained, client_weights=moved)


def _with_models_in_file(result, data_dir, name):
  """Returns a `MethodResult` whose models, if they are many, are in a file and not in memory."""
  if len(result.vectors) <= _MOST_MODELS_KEPT:
    return result
  path = os.path.join(data_dir, f"models_of_{name}.npy")
  return dataclasses.replace(result, vectors=atomic_file.array_in_file(path, result.vectors))


def _check_number_of_clients(config, task):
  for name, expected in (
      ("num_clients", len(task.all_clients)), ("num_new_clients", len(task.new_clients))
  ):
    if getattr(config, name) != expected:
      raise validate.error(name, f"be the task's {expected}", getattr(config, name))


def _with_number_of_clusters(config, pretrained):
  """Returns the settings with a number of clusters, and its `NumClustersChoice` or `None`."""
  if not config.chooses_num_clusters:
    return config, None
  choice = num_clusters.choose(
      pretrained.client_weights,
      randomness.generator(config.seed, "number of clusters"),
      config.representation or "weights",
      config.num_clusters_criterion,
  )
  return config.with_num_clusters(choice.num_clusters), choice
