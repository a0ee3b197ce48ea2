"""The experiment of three phases: what it loads and measures, and how it is reported."""

import contextlib
import dataclasses
import os
from typing import Any, Iterable, Mapping

from clustering_basics import model_folder
from experiment_shell import tidy_experiment
from experiments.cluster_tables import cluster_profiles
from experiments.own_tables import predictions
from experiments.three_phase_emnist import data
from experiments.three_phase_emnist import figures
from experiments.three_phase_emnist import report
from experiments.three_phase_emnist import summary
from fl_clustering.tasks import federated_task
from fl_clustering.tasks import registry as task_registry
from fl_clustering.three_phase import checkpoint
from fl_clustering.three_phase import config as config_lib

_EMNIST = "federated EMNIST, whose clients are its writers: --dataset=emnist, a download of 170 MB"


@dataclasses.dataclass(frozen=True, eq=False)
class Loaded:
  """What a run is measured with.

  Attributes:
    reuse: The folder of another run's checkpoints, as of `checkpoint.Checkpoints`.
    clients_per_block: As of `run.run`.
    shows_in_tensorboard: As of `measure.measure`.
  """

  task: federated_task.FederatedTask
  reuse: str | None
  clients_per_block: int | None
  shows_in_tensorboard: bool


def _load(
    config: config_lib.ThreePhaseConfig, stack: contextlib.ExitStack, *,
    data_dir: str | None = None, reuse: str | None = None, clients_per_block: int | None = None,
    shows_in_tensorboard: bool = False,
) -> tidy_experiment.Inputs:
  """Loads the data; the options are as of `load_task`, and of `Loaded`."""
  del stack
  task = task_registry.load_task(config, data_dir, config)
  data.check_model(config, task.model)
  num_clients = f"{len(task.clients):,} clients, {len(task.new_clients):,} new"
  lines = (
      data.engine_line(config.engine), f"data: {task.source}, {num_clients}",
      _EMNIST if config.dataset == "digits" else None,
  )
  return tidy_experiment.Inputs(
      Loaded(task, reuse, clients_per_block, shows_in_tensorboard),
      identity=data.identity(config, task),
      about=data.describe(config, task),
      warnings=data.warnings(config, task),
      lines=tuple(filter(None, lines)),
  )


def _cells(config: config_lib.ThreePhaseConfig, unused_loaded: Any) -> list[dict[str, Any]]:
  return [{"seed": config.seed}]


def _measure(
    whole: tidy_experiment.Run, seed: int
) -> Mapping[str, Iterable[Mapping[str, Any]]]:
  # Errors in flags and data are told before TFF is imported, which takes seconds.
  from experiments.three_phase_emnist import measure

  del seed  # The settings have it.
  checkpoints = checkpoint.Checkpoints(os.path.join(whole.folder, "checkpoints"), whole.data.reuse)
  return measure.measure(
      whole.config, whole.data.task, whole.folder, checkpoints, whole.data.clients_per_block,
      whole.data.shows_in_tensorboard,
  )


_PROFILES = dataclasses.replace(
    cluster_profiles.FIGURE,
    caption="The clusters are those whose models are saved, with their clients' training rows; "
    f"profiles.csv has all columns, with the spread. {cluster_profiles.FIGURE.caption}",
    panels="method",
)

EXPERIMENT = tidy_experiment.Experiment(
    name="three_phase_emnist",
    title="Three-phase federated learning: does grouping the clients help?",
    keys={"seed": int},
    load=_load,
    cells=_cells,
    measure=_measure,
    summarise=summary.summarise,
    headlines=report.HEADLINES,
    tables=report.TABLES,
    figures=(*figures.FIGURES, _PROFILES),
    reading=report.READING,
    tidy={
        tidy_experiment.RESULTS: {"method": str, "cluster": int},
        summary.CURVES: {"method": str, "cluster": int, "round": int},
        summary.CLIENTS: {"phase": str, "method": str, "client": str},
        summary.EXAMPLES: {"client": str, "group": str, "new": int, "part": str, "label": int},
        summary.WARNINGS: {"method": str, "warning": str},
        summary.NUM_CLUSTERS: {"num_clusters": int, "chosen": int},
        summary.RECOVERY: {"method": str, "representation": str, "epochs": str, "used": int},
        summary.DISTANCES: {"client": str, "other": str},
    },
    files={
        summary.WEIGHTS: "the clients' weights that were grouped, and the global model",
        f"{summary.PROFILES}.csv": "mean and spread of every feature in the clusters whose models "
        "are saved, in the data's units",
        **predictions.FILES,
    },
    folders={
        "checkpoints": "the trained models, and the state to resume from",
        "client_data": "the clients' data, while a run trains",
        summary.TENSORBOARD: "the rounds, for TensorBoard, if `--tensorboard` is given",
        model_folder.MODEL: "the models of one method's clusters, for experiments:predict",
    },
    read={summary.PROFILES: cluster_profiles.COLUMNS},
    versions_of=("numpy", "scikit-learn", "tensorflow", "tensorflow-federated", "jax"),
)
