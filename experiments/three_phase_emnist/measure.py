"""Measures a run: its three phases, with a progress bar, and the rows of its tables."""

import contextlib
import itertools
import math
import os
import shutil
from typing import TYPE_CHECKING, Any, Iterable, Iterator, Mapping, Sequence

import numpy as np

from clustering_basics import atomic_file
from clustering_basics import model_folder
from experiment_shell import figure_style
from experiment_shell import launch
from experiment_shell import tidy_experiment
from experiments.three_phase_emnist import group_recovery
from experiments.three_phase_emnist import method_names
from experiments.three_phase_emnist import profiles
from experiments.three_phase_emnist import tables
from fl_clustering import runtime
from fl_clustering import saved_clusters
from fl_clustering.engine import device_memory
from fl_clustering.engine import divergence
from fl_clustering.engine import engines
from fl_clustering.engine import metrics as metrics_lib
from fl_clustering.methods import cluster_assignment
from fl_clustering.methods import distances as distances_lib
from fl_clustering.three_phase import checkpoint
from fl_clustering.three_phase import progress_bar
from fl_clustering.three_phase import run as run_lib
from fl_clustering.three_phase import stages
from fl_clustering.three_phase import summary as summary_lib

if TYPE_CHECKING:
  from fl_clustering.methods import client_weights as client_weights_lib
  from fl_clustering.tasks import federated_task
  from fl_clustering.three_phase import config as config_lib
  from fl_clustering.three_phase import result as result_lib

Row = dict[str, Any]
# Of more clients, so many are shown by their distances, evenly spaced.
_MOST_IN_MATRIX = 100


class Recorder(stages.RunObserver):
  """Keeps the rows of all rounds, and writes the weights that are grouped.

  A resumed run replays its rounds.
  """

  def __init__(self, folder: str, client_ids: Sequence[str]) -> None:
    self.rows: list[Row] = []
    self._folder = folder
    self._client_ids = client_ids

  def round_finished(self, stage: str, round_num: int, rows: Sequence[stages.Row]) -> None:
    self.rows += [
        {name: value for name, value in row._asdict().items() if name != "phase"} for row in rows
    ]

  def clients_grouped(
      self, client_weights: "client_weights_lib.ClientWeights | None",
      assignments: Mapping[str, Any],
  ) -> None:
    if client_weights is not None:
      client_weights.save(os.path.join(self._folder, tables.WEIGHTS), self._client_ids)


@contextlib.contextmanager
def _tff(kept: str) -> Iterator[None]:
  """Has TFF compute here."""
  with runtime.LocalRuntime():
    try:
      yield
    except runtime.ClientFileUnreadable as e:
      raise launch.RunFailed(
          f"{e} {kept} --resume writes the clients' data again and continues from there."
      ) from e


@contextlib.contextmanager
def _ends(folder: str, engine: str) -> Iterator[None]:
  """Makes an engine ready, and says what can be done about errors that end a run."""
  kept = f"Results so far are in {folder};"
  try:
    with launch.run_errors(folder, runtime.WorkerLost), device_memory.told():
      with _tff(kept) if engine == engines.TFF else contextlib.nullcontext():
        yield
  except (checkpoint.DamagedCheckpoint, run_lib.TooLarge) as e:
    raise launch.InputError(str(e)) from e
  except divergence.TrainingDiverged as e:
    # The same run would end the same way, and it can't be resumed with other settings.
    raise launch.RunFailed(
        f"{e} {kept} another rate needs a new run, in another --output_dir or with --overwrite."
    ) from e
  except device_memory.DeviceFull as e:
    raise launch.RunFailed(
        f"The memory of the device is full. {kept} --resume continues from there, with a smaller "
        "--clients_per_block."
    ) from e


def _flat(part: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, float | None]]:
  """Yields the numbers of nested dicts, with names joined by `_`."""
  for name, value in part.items():
    if isinstance(value, Mapping):
      yield from _flat(value, f"{prefix}{name}_")
    elif not isinstance(value, str):
      yield f"{prefix}{name}", value


def _rows(named: Iterable[tuple[str, Any]], **columns: Any) -> Iterator[Row]:
  """Yields a row for every number; one that is not defined, as a recall without rows, has none."""
  for metric, value in named:
    if value is None or not math.isnan(value):
      yield {**columns, "metric": metric, "value": value}


def result_rows(summary: Mapping[str, Any], result: "result_lib.ThreePhaseResult") -> Iterator[Row]:
  """Yields what concerns methods as a whole, clusters, and, with no method, the run."""
  of_run = {name: summary[name] for name in ("num_test_examples", "comparison")}
  parts = {
      "": of_run, method_names.PRETRAIN: summary["pretrain"], **summary["methods"],
  }
  for method, part in parts.items():
    yield from _rows(_flat(part), method=method, cluster="")
  for method, found in result.methods.items():
    for name in ("best_accuracy", "validation_accuracy"):
      values = getattr(found, name)
      for cluster, value in enumerate(() if values is None else values):
        yield from _rows([(name, value)], method=method, cluster=cluster)


def client_rows(
    task: "federated_task.FederatedTask", result: "result_lib.ThreePhaseResult"
) -> Iterator[Row]:
  """Yields what every client has of every model that it gets, and the clusters that it is in.

  Of the clients that train, these are the ones that were evaluated.
  """

  def rows(
      phase: str, method: str, client_ids: Sequence[str], confusions: np.ndarray | None,
      clusters: Sequence[Sequence[int]] | None = None,
  ) -> Iterator[Row]:
    if confusions is None:
      return
    metrics = metrics_lib.model_metrics(confusions)
    if phase in (tables.CLUSTER, tables.NEW_CLIENTS):  # What clients keep.
      recalls = metrics_lib.class_recall(confusions)
      metrics |= {f"recall_class_{label}": recalls[:, label] for label in range(recalls.shape[1])}
    values = np.stack(list(metrics.values()), axis=1).tolist()
    for i, client_id in enumerate(client_ids):
      own = itertools.chain(
          (("cluster", cluster) for cluster in (clusters[i] if clusters else ())),
          zip(metrics, values[i]),
      )
      yield from _rows(own, phase=phase, method=method, client=client_id)

  first, new_clients = method_names.PRETRAIN, task.new_client_ids
  client_ids = task.client_ids
  evaluated = [client_ids[client] for client in result.evaluated]
  yield from rows(first, first, evaluated, result.pretrain.clients)
  yield from rows(first, "own_weights", evaluated, result.pretrain.own_weights)
  for method, found in result.methods.items():
    clusters_of = cluster_assignment.clusters_of(
        [members[np.isin(members, result.evaluated)] for members in found.assignment.clusters]
    )
    clusters = [clusters_of[client] for client in result.evaluated]
    yield from rows(tables.CLUSTER, method, evaluated, found.clients, clusters)
    yield from rows(tables.EVALUATE, method, evaluated, found.clients_blended)
  yield from rows(tables.NEW_CLIENTS, first, new_clients, result.pretrain.new_clients)
  for method, found in result.methods.items():
    yield from rows(
        tables.NEW_CLIENTS, method, new_clients, found.new_clients,
        found.new_client_clusters,
    )


def example_rows(task: "federated_task.FederatedTask", evaluated: np.ndarray) -> Iterator[Row]:
  """Yields how many examples of each label the clients have that are evaluated or new."""
  new = set(task.new_client_ids)
  for client in (*(task.clients[client] for client in evaluated), *task.new_clients):
    for part in ("train", "validation", "test"):
      examples = getattr(client, part)
      counts = np.bincount(() if examples is None else examples.labels)
      for label in np.flatnonzero(counts):
        yield {
            "client": client.client_id, "group": "" if client.group is None else client.group,
            "new": int(client.client_id in new), "part": part, "label": label,
            "metric": "examples", "value": counts[label],
        }


def distance_rows(
    weights: "client_weights_lib.ClientWeights | None", client_ids: Sequence[str],
    representation: str,
) -> Iterator[Row]:
  """Yields the distances between the clients' weights, if any."""
  if weights is None:
    return
  clients = np.array(figure_style.evenly_spaced(weights.clients.tolist(), _MOST_IN_MATRIX))
  distances = distances_lib.METRICS["l2"](weights.represented(representation, clients)[:])
  pairs = itertools.combinations([client_ids[client] for client in clients], 2)
  for (one, other), value in zip(pairs, distances):
    yield {"client": one, "other": other, "metric": "distance", "value": value}


def tidy_rows(
    config: "config_lib.ThreePhaseConfig", task: "federated_task.FederatedTask",
    result: "result_lib.ThreePhaseResult",
) -> dict[str, Iterable[Row]]:
  """Returns the rows of all tables but those that need the training."""
  choice = result.num_clusters_choice
  return {
      tidy_experiment.RESULTS: result_rows(summary_lib.summarize(config, task, result), result),
      tables.CLIENTS: client_rows(task, result),
      tables.EXAMPLES: example_rows(task, result.evaluated),
      tables.WARNINGS: [
          {"method": name, "warning": found.assignment.warning, "metric": "num_clusters",
           "value": len(found.assignment.clusters)}
          for name, found in result.methods.items() if found.assignment.warning
      ],
      tables.NUM_CLUSTERS: [
          {"metric": "score", "value": row.pop("score"), **row}
          for row in (() if choice is None else choice.rows())
      ],
      tables.DISTANCES: distance_rows(
          result.client_weights, task.client_ids, config.representation or "weights"
      ),
  }


def measure(
    config: "config_lib.ThreePhaseConfig", task: "federated_task.FederatedTask", folder: str,
    checkpoints: checkpoint.Checkpoints, clients_per_block: int | None = None,
) -> dict[str, Iterable[Row]]:
  """Runs all three phases, from their checkpoints if there are any; returns the tables' rows.

  Args:
    folder: The run's folder.
    clients_per_block: As of `run.run`.
  """
  client_data = os.path.join(folder, "client_data")
  os.makedirs(client_data, exist_ok=True)
  recorder = Recorder(folder, task.client_ids)
  with _ends(folder, config.engine), progress_bar.ProgressBar() as bar:
    result = run_lib.run(
        config, task, client_data, checkpoints, [recorder, bar],
        clients_per_block=clients_per_block,
    )
    recovery = group_recovery.recovery_rows(config, task, result)
  rows = tidy_rows(config, task, result)
  if task.tables is not None:
    method = saved_clusters.most_accurate(config, result)
    saved = saved_clusters.of_result(method, result, task, config.options_for("model"))
    saved.save(os.path.join(folder, model_folder.MODEL))
    if len(saved.vectors) > 1:
      path = os.path.join(folder, f"{tables.PROFILES}.csv")
      atomic_file.write_text(path, profiles.profiles_text(task, saved))
    is_saved = {"method": method, "cluster": "", "metric": tables.SAVED, "value": 1}
    rows[tidy_experiment.RESULTS] = [*rows[tidy_experiment.RESULTS], is_saved]
  # The clients' files serve training alone; the checkpoints hold the trained models.
  shutil.rmtree(client_data)
  return {**rows, tables.CURVES: recorder.rows, tables.RECOVERY: recovery}
