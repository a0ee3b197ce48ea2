"""Three-phase federated learning that groups similar clients.

The method of "Federated Learning through Distance-Based Clustering" (Helmy,
Katerji, Muthukrishnan, Towards Data Science, 2021):

1.  *Pretraining*: FedAvg over all clients.
2.  *Grouping and cluster training*: clients are grouped by the weights that
    their last local training gave; every cluster starts from the mean of its
    clients' own weights and is a FedAvg of its own from then on.
3.  *Evaluation*: the cluster models as they are, averaged, averaged with
    weights, and blended with their average.

Three controls (`methods/controls.py`) run beside the methods that are chosen, personal models
(`registry.PERSONAL`) where they are, and another (`matched_control.py`) where a method trains more
than the others.

This file is the straight line through the other modules; it reads no flags and
writes no files but the clients' data and, through `checkpoint.py`, its state.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import os
from typing import Collection, Iterator, Mapping, Sequence, TYPE_CHECKING

import psutil

from clustering_basics import atomic_file
from clustering_basics import randomness
from clustering_basics import validate
from fl_clustering.engine import device_memory
from fl_clustering.engine import divergence
from fl_clustering.engine import engines
from fl_clustering.engine import participation
from fl_clustering.methods import grouping
from fl_clustering.methods import num_clusters
from fl_clustering.methods import registry
from fl_clustering.three_phase import matched_control
from fl_clustering.three_phase import own_code
from fl_clustering.three_phase import pretraining
from fl_clustering.three_phase import repeats as repeats_lib
from fl_clustering.three_phase import result as result_lib
from fl_clustering.three_phase import rounds
from fl_clustering.three_phase import scoring
from fl_clustering.three_phase import stages

if TYPE_CHECKING:
  import numpy as np

  from fl_clustering.engine import engine as engine_lib
  from fl_clustering.methods import method as method_lib
  from fl_clustering.tasks import federated_task
  from fl_clustering.three_phase import checkpoint
  from fl_clustering.three_phase import config as config_lib


class TooLarge(ValueError):
  """A run's models don't fit into memory."""


@dataclasses.dataclass(frozen=True, eq=False)
class Run:
  """Phases 2 and 3 of a run: what they work with, and what they have found so far.

  Attributes:
    data_dir: The folder for models that are too many for memory.
    tolerated: Exceptions that end a method or control and not the run, as of `run`.
    only: The names of what is run, as of `run`.
    failures: Why methods and controls failed, by name.
    results: What the others came to, by name.
    repeats: Every client's accuracy under each repeat of a method, (R, N), by name.
  """

  config: config_lib.ThreePhaseConfig
  task: federated_task.FederatedTask
  data_dir: str
  engine: engine_lib.Engine
  stage_runner: stages.StageRunner
  tolerated: tuple[type[BaseException], ...]
  only: Collection[str] | None = None
  failures: dict[str, str] = dataclasses.field(default_factory=dict)
  results: dict[str, result_lib.MethodResult] = dataclasses.field(default_factory=dict)
  repeats: dict[str, np.ndarray] = dataclasses.field(default_factory=dict)

  @property
  def evaluated(self) -> np.ndarray:
    """The clients on whose data models are evaluated."""
    return participation.evaluated(self.config, len(self.engine.clients))

  @contextlib.contextmanager
  def _failure_of(self, name: str) -> Iterator[None]:
    try:
      with device_memory.told():
        yield
    except self.tolerated as e:
      self.failures[name] = f"{e}" or type(e).__name__
    except divergence.TrainingDiverged as e:
      raise divergence.TrainingDiverged(f"{name}: {e}") from e

  def is_run(self, name: str) -> bool:
    return self.only is None or name in self.only

  def methods(self) -> dict[str, method_lib.Method]:
    """Returns the chosen methods and the controls that are run, by name."""
    chosen, personal = (
        {
            name: registry.entry(name).build(self.config.method_settings(name), self.engine)
            for name in names if self.is_run(name)
        }
        for names in (self.config.methods, self.config.personal)
    )
    controls = {
        name: row.build(self.config, self.engine) for name, row in registry.CONTROLS.items()
        if name in self.config.controls and self.is_run(name)
    }
    return {**chosen, **controls, **personal}

  def start(self, pretrained: method_lib.Pretrained, settings: str) -> dict[str, rounds.Start]:
    """Lets every method and control make its first clusters, and tells of them.

    Args:
      pretrained: What they start from.
      settings: The `stages.digest` of the data and of the settings that all methods share.

    Returns:
      The starts of all that don't fail, by name.
    """
    starts = {}
    for name, method in self.methods().items():
      self.stage_runner.tell_begins(name)
      with self._failure_of(name):
        starts[name] = rounds.start(
            name, method, pretrained, self.config, self.engine, settings
        )
    self.stage_runner.tell_grouped(
        pretrained.client_weights,
        {
            name: starts[name].state.reported_clusters()[1]
            for name in self.config.methods if name in starts
        },
    )
    return starts

  def train(
      self, start: rounds.Start, numbers: Sequence[int], pretrained: method_lib.Pretrained
  ) -> None:
    """Trains a method in the rounds of these numbers, and evaluates what it ends with."""
    name = start.name
    with self._failure_of(name):
      outcome = rounds.run(start, numbers, self.config, self.engine, self.stage_runner)
      placement = start.method.place_new(
          pretrained, outcome.state, self.engine.new_clients
      )
      true_groups = self.task.true_groups if name in self.config.methods else None
      result = scoring.evaluate(
          self.engine, outcome, placement, self.evaluated, true_groups,
          self.config.article_weights,
      )
      if len(result.vectors) > rounds.MOST_MODELS_KEPT:
        path = os.path.join(self.data_dir, f"models_of_{name}.npy")
        vectors = atomic_file.array_in_file(path, result.vectors)
        result = dataclasses.replace(result, vectors=vectors)
      self.results[name] = result

  def repeat(
      self, start: rounds.Start, numbers: Sequence[int], pretrained: method_lib.Pretrained,
      settings: str,
  ) -> None:
    """Trains a method again, as often as the settings say; arguments as of `start` and `train`."""
    name = start.name
    count = self.config.repeats_of(name)
    if not count or name not in self.results:
      return

    def start_of(repeat: int) -> rounds.Start:
      return rounds.start(
          name, start.method, pretrained, self.config, self.engine, settings, repeat
      )

    with divergence.told(name):
      self.repeats[name] = repeats_lib.run(
          start_of, count, numbers, self.config, self.engine, self.stage_runner
      )


@device_memory.told()
def run(
    config: config_lib.ThreePhaseConfig, task: federated_task.FederatedTask, data_dir: str,
    checkpoints: checkpoint.Checkpoints | None = None, observers: Sequence[stages.RunObserver] = (),
    tolerated: Sequence[type[BaseException]] = (), clients_per_block: int | None = None,
    only: Collection[str] | None = None, least_steps: int = 0,
) -> result_lib.ThreePhaseResult:
  """Runs all three phases. For the TFF engine its context must be set, see `runtime/`.

  Args:
    task: The clients and their data, as `config` describes them.
    data_dir: An existing folder for the clients' data files, for the own weights of more than
      200 clients, and for the models of methods that end with more than 200.
    checkpoints: What to go on from and to save to.
    tolerated: Types of exceptions that end a method or control and not the run, unless they are
      raised where it is trained again (`repeats.py`).
    clients_per_block: How many clients the engine jax trains side by side; None: it decides.
    only: The names of those methods and controls that are run, that of `matched_control` among
      them; None: all of the settings.
    least_steps: The most client steps of methods of other runs, which `matched_control` matches
      too.

  Raises:
    device_memory.DeviceFull: If the memory of the accelerator is full.
    divergence.TrainingDiverged: If a loss, a weight or a model's output is not finite.
    TooLarge: If models of all clients don't fit into memory.
    ValueError: If the settings are of another number of clients, or JAX is to train and can't.
  """
  _check_number_of_clients(config, task)
  engine = _engine(config, task, data_dir, clients_per_block)
  stage_runner = stages.StageRunner(checkpoints, observers)
  settings = stages.digest(
      config.training_settings(), task.fingerprint(), task.model.parameter_shapes,
      *own_code.digests(model=config.model).values(),
  )
  checked = config.with_num_clusters(1) if config.chooses_num_clusters else config
  this = Run(checked, task, data_dir, engine, stage_runner, tuple(tolerated), only)
  # What a method or this machine can't work with is refused before anything is trained.
  methods = this.methods()
  _check_memory(config, engine, methods)
  numbers = {
      name: participation.numbers_of(config, method.from_start)
      for name, method in methods.items()
  }
  planned = config.pretrain_rounds + sum(
      len(numbers[name]) * (1 + config.repeats_of(name)) for name in numbers
  )
  stage_runner.tell_planned(planned)
  pretrained = pretraining.pretrain(
      config, engine, stage_runner, settings, _uses_weights(config, methods)
  )
  config, choice = _with_number_of_clusters(config, pretrained)
  pretrained = dataclasses.replace(pretrained, chose_num_clusters=choice is not None)
  this = dataclasses.replace(this, config=config)
  starts = this.start(pretrained, settings)
  pretrained = _with_weights_in_file(pretrained, data_dir)
  for name, start in starts.items():
    this.train(start, numbers[name], pretrained)
  # It goes on from the control, so there is none without that.
  if registry.FEDAVG in this.results and this.is_run(registry.FEDAVG_MATCHED):
    more_rounds = matched_control.numbers(config, this.results, engine, least_steps)
    if more_rounds:
      stage_runner.tell_planned(planned + len(more_rounds))
      longer = rounds.go_on(
          starts[registry.FEDAVG], this.results[registry.FEDAVG], registry.FEDAVG_MATCHED
      )
      this.train(longer, more_rounds, pretrained)
  for name, start in starts.items():
    this.repeat(start, numbers[name], pretrained, settings)
  return result_lib.ThreePhaseResult(
      pretrain=scoring.evaluate_pretrained(engine, pretrained, this.evaluated),
      evaluated=this.evaluated,
      client_weights=pretrained.client_weights,
      methods=this.results,
      repeats=this.repeats,
      num_clusters_choice=choice,
      local_weights=functools.partial(
          pretraining.own_weights, engine, engine.clients, pretrained.vector,
          participation.grouping_round(config),
      ),
      failures=this.failures,
  )


def _engine(
    config: config_lib.ThreePhaseConfig, task: federated_task.FederatedTask, data_dir: str,
    clients_per_block: int | None,
) -> engine_lib.Engine:
  """Returns the engine that the settings name; each imports a library of its own."""
  if config.engine == engines.JAX:
    from fl_clustering.engine.jax import devices

    devices.local()  # Where JAX can't be used, its errors are long.
    from fl_clustering.engine.jax import engine as jax_engine

    return jax_engine.Engine(
        task, config.batch_size, config.learning_rate, config.seed, config,
        clients_per_block=clients_per_block,
    )
  from fl_clustering.engine.tff import engine as tff_engine

  return tff_engine.Engine(
      task, data_dir, config.batch_size, config.learning_rate, config.seed, config
  )


def _with_weights_in_file(
    pretrained: method_lib.Pretrained, data_dir: str
) -> method_lib.Pretrained:
  """Returns it with the clients' weights in a file, if they are many."""
  weights = pretrained.client_weights
  if weights is None or len(weights.clients) <= rounds.MOST_MODELS_KEPT:
    return pretrained
  moved = weights.moved_to(os.path.join(data_dir, "client_weights.npy"))
  return dataclasses.replace(pretrained, client_weights=moved)


def _check_number_of_clients(
    config: config_lib.ThreePhaseConfig, task: federated_task.FederatedTask
) -> None:
  for name, expected in (
      ("num_clients", len(task.clients) + len(task.new_clients)),
      ("num_new_clients", len(task.new_clients)),
  ):
    if getattr(config, name) != expected:
      raise validate.error(name, f"be the task's {expected}", getattr(config, name))


def _uses_weights(
    config: config_lib.ThreePhaseConfig, methods: Mapping[str, method_lib.Method]
) -> bool:
  """Returns whether a run keeps all clients' own weights: unless sketches are grouped alone."""
  return config.representation != grouping.SKETCH or any(
      method.uses_own_weights and not method.from_start for method in methods.values()
  )


def _check_memory(
    config: config_lib.ThreePhaseConfig, engine: engine_lib.Engine,
    methods: Mapping[str, method_lib.Method],
) -> None:
  """Raises `TooLarge` if the models of all clients, of what has them, can't fit into memory."""
  needed = 4 * len(engine.clients) * engine.model.num_parameters  # They are float32.
  available = psutil.virtual_memory().available
  if needed <= available:
    return
  if _uses_weights(config, methods):
    raise TooLarge(
        "`methods` must group by a sketch if the weights of all clients don't fit into memory, of "
        f"which {available / 1e9:.1f} GB are free, got {needed / 1e9:.1f} GB of weights."
    )
  for name in methods:
    if name in (registry.FINETUNED, registry.LOCAL, *config.personal):
      setting = "personal" if name in config.personal else "controls"
      raise TooLarge(
          f"`{setting}` must be without a model per client if these don't fit into memory, of "
          f"which {available / 1e9:.1f} GB are free, got {name} with {needed / 1e9:.1f} GB of "
          "models."
      )


def _with_number_of_clusters(
    config: config_lib.ThreePhaseConfig, pretrained: method_lib.Pretrained
) -> tuple[config_lib.ThreePhaseConfig, num_clusters.NumClustersChoice | None]:
  """Returns the settings with a number of clusters, and how it was chosen, if it was."""
  if not config.chooses_num_clusters:
    return config, None
  choice = num_clusters.choose(
      pretrained.used_weights, randomness.generator(config.seed, "number of clusters")
  )
  return config.with_num_clusters(choice.num_clusters), choice
