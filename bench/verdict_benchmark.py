"""How often the verdict calls a winner where there is none (an A/A test).

  bazel run bench:verdict_benchmark -- --runs=200
  bazel run bench:verdict_benchmark -- --studies=400 --num_seeds=20

In every run, phase 1 and the control `fedavg` are trained, and the control's repeats.  One
more repeat, which differs from the control in the order of the batches alone, is then judged
as if it were a method.  At a level of 95%, about one run in twenty may call it better or
worse.  The same runs are also judged without repeats, as if the clients' sample were the only
chance.  The tasks are small and their training is short, where chance in training is
largest: the digits over few clients, another seed in every run.

With --studies, nothing is trained.  The cells of studies are drawn instead, in which no method
differs from any other (`null_studies.py`), and those that say that one does are counted.
"""

from experiment_shell import launch  # First, for Ctrl-C while the others are imported.

import dataclasses
import tempfile

from absl import flags
import numpy as np
import tqdm

from bench import null_studies
from experiment_shell import lazy_module
from fl_clustering import config as config_lib
from fl_clustering.engine import participation
from fl_clustering.methods import registry as method_registry
from fl_clustering.tasks import federated_task
from fl_clustering.tasks import model as model_lib
from fl_clustering.tasks import registry as task_registry
from fl_clustering.three_phase import gains
from fl_clustering.three_phase import stages

client_update = lazy_module.LazyModule("fl_clustering.engine.client_update")
control_repeats = lazy_module.LazyModule("fl_clustering.three_phase.control_repeats")
engine_lib = lazy_module.LazyModule("fl_clustering.engine.engine")
metrics = lazy_module.LazyModule("fl_clustering.engine.metrics")
pretraining = lazy_module.LazyModule("fl_clustering.three_phase.pretraining")
rounds = lazy_module.LazyModule("fl_clustering.three_phase.rounds")
runtime = lazy_module.LazyModule("fl_clustering.runtime")
scoring = lazy_module.LazyModule("fl_clustering.three_phase.scoring")

_RUNS = flags.DEFINE_integer("runs", 200, "Number of runs.", lower_bound=1)
_NUM_CLIENTS = flags.DEFINE_integer("num_clients", 40, "Clients of a run.", lower_bound=2)
_ROUNDS = flags.DEFINE_integer(
    "rounds", 4, "Rounds of each phase, of one epoch.", lower_bound=1)
_ALPHA = flags.DEFINE_float(
    "dirichlet_alpha", 5.0, "Concentration of the label skew; small is skewed.")
_REPEATS = flags.DEFINE_integer(
    "control_repeats", 4, "Repeats of the control, apart from the one that is judged.",
    lower_bound=1)
_STUDIES = flags.DEFINE_integer("studies", None, "Number of studies to judge instead.", lower_bound=1)
_NUM_SEEDS = flags.DEFINE_integer("num_seeds", 20, "Seeds of a study.", lower_bound=2)


def _load_task(
    config: config_lib.ThreePhaseConfig, model: model_lib.Model | None
) -> federated_task.FederatedTask:
  """Returns the run's task, with the model of the runs before if there is one."""
  task = task_registry.load_task(
      dataset="digits", data_dir=None, num_clients=config.num_clients, partition="dirichlet",
      dirichlet_alpha=_ALPHA.value, num_groups=None, model=config.model, seed=config.seed)
  return dataclasses.replace(task, model=model or task.model)


def _accuracies(
    config: config_lib.ThreePhaseConfig, task: federated_task.FederatedTask
) -> tuple[np.ndarray, np.ndarray]:
  """Returns the clients' accuracy under the control, and under each of its repeats."""
  local_training = client_update.LocalTraining(config.batch_size, config.learning_rate)
  stage_runner = stages.StageRunner(None, ())
  with tempfile.TemporaryDirectory() as folder:
    engine = engine_lib.Engine(task, folder, local_training, config.seed)
    pretrained = pretraining.pretrain(config, task, engine, stage_runner, "")
    name = method_registry.FEDAVG
    method = method_registry.CONTROLS[name](config, engine)
    start = rounds.start(name, method, pretrained, config, engine, "")
    numbers = participation.cluster_numbers(config)
    state = rounds.run(start, numbers, config, engine, stage_runner).state
    control, _ = scoring.on_clients_and_clusters(engine, state.vectors, state.members)
    repeats = control_repeats.run(config, start, engine, stage_runner)
  assert repeats is not None  # The settings ask for some.
  return metrics.accuracy(control), metrics.accuracy(repeats)


def _judge_studies(number: int) -> None:
  for law in null_studies.LAWS:
    found = []
    with tempfile.TemporaryDirectory() as folder:
      for study in tqdm.trange(number, unit="study"):
        found.append(null_studies.claims(
            law, _NUM_SEEDS.value, folder, np.random.default_rng([_NUM_SEEDS.value, study])
        ))
    headlines, anywhere = map(sum, zip(*found))
    print(f"{law:5} {_NUM_SEEDS.value} seeds: of {number} studies {headlines} claim a gain in the "
          f"headline, {anywhere} anything anywhere ({anywhere / number:.1%})")


def main() -> None:
  if _STUDIES.value:
    _judge_studies(_STUDIES.value)
    return
  verdicts: dict[str, list[str]] = {"with repeats": [], "without": []}
  model = None
  with runtime.LocalRuntime():
    for seed in tqdm.trange(_RUNS.value, unit="run"):
      config = config_lib.ThreePhaseConfig(
          dataset="digits", num_clients=_NUM_CLIENTS.value, pretrain_rounds=_ROUNDS.value,
          cluster_rounds=_ROUNDS.value, methods=(), control_repeats=_REPEATS.value + 1,
          seed=seed)
      task = _load_task(config, model)
      model = task.model
      control, (judged, *repeats) = _accuracies(config, task)
      repeated = [control.mean(), *(repeat.mean() for repeat in repeats)]
      for name, known in (("with repeats", repeated), ("without", repeated[:1])):
        verdicts[name].append(gains.gain(judged - control, known, 1).verdict)
  print(f"{_RUNS.value} runs of {_NUM_CLIENTS.value} clients, "
        f"{_ROUNDS.value} + {_ROUNDS.value} rounds, {_REPEATS.value} repeats")
  for name, found in verdicts.items():
    wrong = sum(verdict != gains.UNCLEAR for verdict in found)
    print(f"{name:14} {wrong:4} of {len(found)} called better or worse ({wrong / len(found):.1%})")


if __name__ == "__main__":
  launch.run(main)
