"""How often the verdict calls a winner where there is none (an A/A test).

  bazel run bench:verdict_benchmark -- --runs=200
  bazel run bench:verdict_benchmark -- --studies=400 --num_seeds=20

In every run, phase 1 is trained, and each of --methods with its repeats.  One more repeat, which
differs in the start that a method draws and in the order of the batches alone, is then judged
against it, with repeats of its own, as if it were another method.  At a level of 95%, about one
run in twenty may call it better or worse.  The same runs are also judged without repeats, as if
the clients' sample were the only chance.  Fine-tuning is taken to vary as FedAvg does, as in every
run, which trains no other control again.  The tasks are small and their training is short, where
chance in training is largest: the digits over few clients, another seed in every run.

With --studies, nothing is trained.  The cells of studies are drawn instead, in which no method
differs from any other (`null_studies.py`), and those that say that one does are counted.
"""

import collections
import dataclasses
import functools
import tempfile
from typing import Any, Iterator

from absl import flags
import numpy as np
import tqdm

from bench import null_studies
from clustering_basics import intervals
from clustering_basics import validate
from experiment_shell import launch
from fl_clustering import runtime
from fl_clustering.engine import participation
from fl_clustering.engine.tff import engine as engine_lib
from fl_clustering.methods import registry as method_registry
from fl_clustering.tasks import federated_task
from fl_clustering.tasks import model as model_lib
from fl_clustering.tasks import registry as task_registry
from fl_clustering.three_phase import config as config_lib
from fl_clustering.three_phase import gains
from fl_clustering.three_phase import pretraining
from fl_clustering.three_phase import repeats as repeats_lib
from fl_clustering.three_phase import rounds
from fl_clustering.three_phase import stages

_RUNS = flags.DEFINE_integer("runs", 200, "Number of runs.", lower_bound=1)
_NUM_CLIENTS = flags.DEFINE_integer("num_clients", 40, "Clients of a run.", lower_bound=2)
_ROUNDS = flags.DEFINE_integer(
    "rounds", 4, "Rounds of each phase, of one epoch.", lower_bound=1)
_MODEL = flags.DEFINE_string("model", "logistic", "The model.")
_ALPHA = flags.DEFINE_float(
    "dirichlet_alpha", 5.0, "Concentration of the label skew; small is skewed.")
_METHODS = flags.DEFINE_list(
    "methods", ["fedavg", "finetuned", "kmeans", "ifca", "cfl"],
    "Methods that are judged against themselves; fedavg is the first.")
_REPEATS = flags.DEFINE_integer(
    "control_repeats", 4, "Repeats of what a method is judged against.", lower_bound=2)
_METHOD_REPEATS = flags.DEFINE_integer(
    "method_repeats", 2, "Repeats of what is judged.", lower_bound=0)
_STUDIES = flags.DEFINE_integer(
    "studies", None, "Number of studies to judge instead.", lower_bound=1)
_NUM_SEEDS = flags.DEFINE_integer("num_seeds", 20, "Seeds of a study.", lower_bound=2)


def _load_task(
    config: config_lib.ThreePhaseConfig, model: model_lib.Model | None
) -> federated_task.FederatedTask:
  """Returns the run's task, with the model of the runs before if there is one."""
  split: dict[str, Any] = {"partition": "dirichlet", "dirichlet_alpha": _ALPHA.value}
  task = task_registry.load_task(task_registry.TaskOptions(
      num_clients=config.num_clients, model=config.model, seed=config.seed, **split))
  return dataclasses.replace(task, model=model or task.model)


def _accuracies(
    config: config_lib.ThreePhaseConfig, task: federated_task.FederatedTask
) -> Iterator[tuple[str, np.ndarray]]:
  """Yields each method's name, and the clients' accuracy under all its trainings."""
  stage_runner = stages.StageRunner(None, ())
  with tempfile.TemporaryDirectory() as folder:
    engine = engine_lib.Engine(
        task, folder, config.batch_size, config.learning_rate, config.seed, config
    )
    pretrained = pretraining.pretrain(config, engine, stage_runner, "")
    for name in _METHODS.value:
      if name in method_registry.CONTROLS:
        method = method_registry.CONTROLS[name].build(config, engine)
      else:
        method = method_registry.entry(name).build(config.method_settings(name), engine)
      start_of = functools.partial(
          rounds.start, name, method, pretrained, config, engine, ""
      )
      yield name, repeats_lib.run(
          start_of, _REPEATS.value + _METHOD_REPEATS.value + 2,
          participation.numbers_of(config, method.from_start), config, engine, stage_runner
      )


def _judge_studies(number: int) -> None:
  for law in null_studies.LAWS:
    found = []
    for study in tqdm.trange(number, unit="study"):
      found.append(null_studies.claims(
          law, _NUM_SEEDS.value, np.random.default_rng([_NUM_SEEDS.value, study])
      ))
    headlines, anywhere = map(sum, zip(*found))
    print(f"{law:5} {_NUM_SEEDS.value} seeds: of {number} studies {headlines} claim a gain in the "
          f"headline, {anywhere} anything anywhere ({anywhere / number:.1%})")


def main() -> None:
  if _STUDIES.value:
    _judge_studies(_STUDIES.value)
    return
  with launch.input_errors():
    if _METHODS.value[:1] != [method_registry.FEDAVG]:
      raise validate.error("methods", f"begin with {method_registry.FEDAVG}", _METHODS.value)
    for name in _METHODS.value:
      validate.one_of(
          [*method_registry.CONTROLS, *method_registry.METHODS, *method_registry.PERSONAL],
          methods=name,
      )
  found: dict[tuple[str, str], list[str]] = collections.defaultdict(list)
  model = None
  with runtime.LocalRuntime():
    for seed in tqdm.trange(_RUNS.value, unit="run"):
      config = config_lib.ThreePhaseConfig(
          dataset="digits", num_clients=_NUM_CLIENTS.value, pretrain_rounds=_ROUNDS.value,
          cluster_rounds=_ROUNDS.value, seed=seed, model=_MODEL.value,
          methods=tuple(m for m in _METHODS.value if m in method_registry.METHODS),
          personal=tuple(m for m in _METHODS.value if m in method_registry.PERSONAL))
      task = _load_task(config, model)
      model = task.model
      for name, accuracies in _accuracies(config, task):
        control, judged = np.split(accuracies, [_REPEATS.value + 1])
        differences = judged[0] - control[0]
        trained = control.mean(axis=1)
        if name == method_registry.FEDAVG:
          of_fedavg = trained
        elif name in method_registry.CONTROLS:
          trained = of_fedavg
        for how, number in (("with repeats", None), ("without", 1)):
          gain = gains.gain(differences, trained[:number], judged.mean(axis=1)[:number], 1)
          found[name, how].append(intervals.verdict(gain.low, gain.high))
  print(f"{_RUNS.value} runs of {_NUM_CLIENTS.value} clients, {_ROUNDS.value} + {_ROUNDS.value} "
        f"rounds, {_REPEATS.value} and {_METHOD_REPEATS.value} repeats")
  for (name, how), verdicts in found.items():
    wrong = sum(verdict != intervals.UNCLEAR for verdict in verdicts)
    print(f"{name:16} {how:12} {wrong:4} of {len(verdicts)} called better or worse "
          f"({wrong / len(verdicts):.1%})")


if __name__ == "__main__":
  launch.run(main)
