"""Measures a run: its three phases, with a progress bar, and the rows of its tables."""

import contextlib
import csv
import dataclasses
import itertools
import os
import shutil
from typing import TYPE_CHECKING, Any, Iterable, Iterator, Mapping, Sequence

import numpy as np

from clustering_basics import atomic_file
from clustering_basics import model_folder
from clustering_basics import randomness
from experiment_shell import figure_style
from experiment_shell import launch
from experiment_shell import output_folder
from experiment_shell import tidy_experiment
from experiment_shell import tidy_tables
from experiments.cluster_tables import cluster_profiles
from experiments.three_phase_emnist import summary
from fl_clustering import runtime
from fl_clustering import saved_clusters
from fl_clustering.engine import cost as cost_lib
from fl_clustering.engine import device_memory
from fl_clustering.engine import divergence
from fl_clustering.engine import engines
from fl_clustering.engine import metrics as metrics_lib
from fl_clustering.methods import client_weights as client_weights_lib
from fl_clustering.methods import cluster_assignment
from fl_clustering.methods import distances as distances_lib
from fl_clustering.methods import registry
from fl_clustering.three_phase import checkpoint
from fl_clustering.three_phase import progress_bar
from fl_clustering.three_phase import rows as rows_lib
from fl_clustering.three_phase import run as run_lib
from fl_clustering.three_phase import stages
from fl_clustering.three_phase import tensorboard

if TYPE_CHECKING:
  from fl_clustering.tables import encode
  from fl_clustering.tables import saved as saved_lib
  from fl_clustering.tasks import federated_task
  from fl_clustering.three_phase import config as config_lib
  from fl_clustering.three_phase import result as result_lib

Row = rows_lib.Row
# Of more clients, so many are shown by their distances, evenly spaced.
_MOST_IN_MATRIX = 100
# Local epochs by which groups are looked for besides the run's own.
_EPOCHS = (1, 5)


class Recorder(rows_lib.Rounds):
  """Keeps the rows of all rounds, and writes the weights that are grouped.

  While a run lasts, `curves.csv` grows by the round, without costs: those of what came before a
  method's rounds are known at the end.
  """

  def __init__(self, folder: str, client_ids: Sequence[str], seed: int) -> None:
    super().__init__()
    self._folder = folder
    self._client_ids = client_ids
    self._seed = seed
    self._curves = os.path.join(folder, tidy_tables.file_name(summary.CURVES))
    header = ["seed", *stages.Row._fields]
    atomic_file.write_text(self._curves, output_folder.csv_text(header, ()))

  def round_finished(self, stage: str, round_num: int, rows: Sequence[stages.Row]) -> None:
    super().round_finished(stage, round_num, rows)
    costs = cost_lib.Cost().by_name()
    with open(self._curves, "a", encoding="utf-8", newline="") as file:
      csv.writer(file, lineterminator="\n").writerows(
          [self._seed, *row] for row in rows if row.metric not in costs
      )

  def clients_grouped(
      self, client_weights: client_weights_lib.ClientWeights | None, assignments: Mapping[str, Any]
  ) -> None:
    if client_weights is not None:
      client_weights.save(os.path.join(self._folder, summary.WEIGHTS), self._client_ids)


@contextlib.contextmanager
def _ends(folder: str, engine: str) -> Iterator[None]:
  """Makes an engine ready, and says what can be done about errors that end a run."""
  kept = f"Results so far are in {folder};"
  try:
    with launch.run_errors(folder, runtime.WorkerLost), device_memory.told():
      with runtime.LocalRuntime() if engine == engines.TFF else contextlib.nullcontext():
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
    if phase in (summary.CLUSTER, summary.NEW_CLIENTS):  # What clients keep.
      recalls = metrics_lib.class_recall(confusions)
      metrics |= {f"recall_class_{label}": recalls[:, label] for label in range(recalls.shape[1])}
    values = np.stack(list(metrics.values()), axis=1).tolist()
    for i, client_id in enumerate(client_ids):
      own = itertools.chain(
          (("cluster", cluster) for cluster in (clusters[i] if clusters else ())),
          zip(metrics, values[i]),
      )
      yield from rows_lib.named(own, phase=phase, method=method, client=client_id)

  first, new_clients = registry.PRETRAIN, task.new_client_ids
  client_ids = task.client_ids
  evaluated = [client_ids[client] for client in result.evaluated]
  yield from rows(first, first, evaluated, result.pretrain.clients)
  yield from rows(first, summary.OWN_WEIGHTS, evaluated, result.pretrain.own_weights)
  for method, found in result.methods.items():
    clusters_of = cluster_assignment.clusters_of(
        [members[np.isin(members, result.evaluated)] for members in found.assignment.clusters]
    )
    clusters = [clusters_of[client] for client in result.evaluated]
    yield from rows(summary.CLUSTER, method, evaluated, found.clients, clusters)
    yield from rows(summary.EVALUATE, method, evaluated, found.clients_blended)
  yield from rows(summary.NEW_CLIENTS, first, new_clients, result.pretrain.new_clients)
  for method, found in result.methods.items():
    yield from rows(
        summary.NEW_CLIENTS, method, new_clients, found.new_clients,
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
    weights: client_weights_lib.ClientWeights | None, client_ids: Sequence[str],
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


def recovery_rows(
    config: "config_lib.ThreePhaseConfig", task: "federated_task.FederatedTask",
    result: "result_lib.ThreePhaseResult",
) -> list[dict[str, Any]]:
  """Tries which settings recover the true groups: representations and numbers of local epochs.

  It trains the clients, so TFF's context and the run's data folder must still be there.

  Returns:
    Two rows for each grouping without overlap and each setting with which no client diverges; none
    where no true groups are known, or no weights.
  """
  true_groups = task.true_groups
  names = [name for name in config.methods if name in registry.GROUPINGS]
  if true_groups is None or not names or result.client_weights is None:
    return []
  if result.num_clusters_choice is not None:
    config = config.with_num_clusters(result.num_clusters_choice.num_clusters)
  used = (config.grouping_epochs, config.representation)
  weights_by_epochs: dict[int | None, client_weights_lib.ClientWeights] = {
      config.grouping_epochs: result.client_weights
  }
  for more_epochs in _EPOCHS:
    if more_epochs not in weights_by_epochs:
      # So many epochs may be too many at this rate.
      with contextlib.suppress(divergence.TrainingDiverged):
        weights_by_epochs[more_epochs] = result.local_weights(more_epochs)
  rows = []
  for name in names:
    for epochs, weights in weights_by_epochs.items():
      for representation in client_weights_lib.REPRESENTATIONS:
        grouping = config.method_settings(name, representation=representation)
        assignment = grouping(weights, randomness.generator(config.seed, "grouping"))
        if assignment.overlapping:
          continue
        setting = {
            "method": name, "representation": representation, "epochs": epochs or "last round",
            "used": int((epochs, representation) == used),
        }
        scores = {
            "ari": assignment.adjusted_rand_index(true_groups),
            "purity": assignment.purity(true_groups),
        }
        rows += [{**setting, "metric": metric, "value": value} for metric, value in scores.items()]
  return rows


def _in_units(
    profiles: cluster_profiles.Profiles, scaling: "encode.FeatureScaling"
) -> cluster_profiles.Profiles:
  """Returns profiles of scaled features in the data's units, where they are near to exact.

  The features were float32.  A mean of zero would show as a small number, so means and
  deviations are rounded to a millionth or so of a feature's deviation.
  """
  is_constant = scaling.factor == 0
  unit = np.where(is_constant, 0, 1 / np.where(is_constant, 1, scaling.factor))
  step = 10.0 ** (np.floor(np.log10(np.where(is_constant, 1, unit))) - 5)

  def rounded(values: np.ndarray) -> np.ndarray:
    return np.where(is_constant, values, np.rint(values / step) * step + 0.0)  # No -0.

  return dataclasses.replace(
      profiles,
      means=rounded(profiles.means * unit + scaling.shift),
      deviations=rounded(profiles.deviations * unit),
  )


def scaled_profiles(
    task: "federated_task.FederatedTask", saved: "saved_clusters.SavedClusters"
) -> cluster_profiles.Profiles:
  """Returns the moments of the clusters' training rows, scaled as the models take them.

  Those for validation are among them.

  Args:
    task: The run's task, of tables; its new clients have no part.
    saved: The run's clusters.  The rows of a client in several of them are in each.
  """

  def blocks() -> Iterator[tuple[np.ndarray, np.ndarray]]:
    for client in task.clients:
      parts = [part for part in (client.train, client.validation) if part is not None]
      features = np.concatenate([part.features.astype(np.float64) for part in parts])
      features = features.reshape(len(features), -1)
      for cluster in saved.clusters[client.client_id]:
        yield features, np.full(len(features), cluster)

  assert task.tables is not None
  num_features = len(task.tables.schema.feature_names)
  return cluster_profiles.measure(blocks(), len(saved.vectors), num_features)


def profiles_text(
    tables: "saved_lib.SavedTables", scaled: cluster_profiles.Profiles
) -> str:
  """Returns `profiles.csv`, of `scaled_profiles`, in the data's units."""
  names = tables.schema.feature_names
  rows = [
      [f"{value:.12g}" if isinstance(value, float) else value for value in row]
      for row in cluster_profiles.rows(_in_units(scaled, tables.scaling), names)
  ]
  return output_folder.csv_text(cluster_profiles.HEADER, rows)


def tidy_rows(
    config: "config_lib.ThreePhaseConfig", task: "federated_task.FederatedTask",
    result: "result_lib.ThreePhaseResult",
) -> dict[str, Iterable[Row]]:
  """Returns the rows of all tables but those that need the training."""
  choice = result.num_clusters_choice
  return {
      tidy_experiment.RESULTS: rows_lib.of_result(config, result),
      summary.CLIENTS: client_rows(task, result),
      summary.EXAMPLES: example_rows(task, result.evaluated),
      summary.WARNINGS: [
          {"method": name, "warning": found.assignment.warning, "metric": "clusters",
           "value": len(found.assignment.clusters)}
          for name, found in result.methods.items() if found.assignment.warning
      ],
      summary.NUM_CLUSTERS: [] if choice is None else [
          {"num_clusters": k, "chosen": int(k == choice.num_clusters), "metric": "score",
           "value": score}
          for k, score in enumerate(choice.scores, start=1)
      ],
      summary.DISTANCES: distance_rows(
          result.client_weights, task.client_ids,
          config.representation if config.representation in client_weights_lib.REPRESENTATIONS
          else "weights",
      ),
  }


def measure(
    config: "config_lib.ThreePhaseConfig", task: "federated_task.FederatedTask", folder: str,
    checkpoints: checkpoint.Checkpoints, clients_per_block: int | None = None,
    shows_in_tensorboard: bool = False,
) -> dict[str, Iterable[Row]]:
  """Runs all three phases, from their checkpoints if there are any; returns the tables' rows.

  Args:
    folder: The run's folder.
    clients_per_block: As of `run.run`.
    shows_in_tensorboard: Whether the folder gets one for TensorBoard.
  """
  client_data = os.path.join(folder, "client_data")
  os.makedirs(client_data, exist_ok=True)
  recorder = Recorder(folder, task.client_ids, config.seed)
  with contextlib.ExitStack() as stack:
    stack.enter_context(_ends(folder, config.engine))
    observers = [recorder, stack.enter_context(progress_bar.ProgressBar())]
    if shows_in_tensorboard:
      observers.append(
          stack.enter_context(tensorboard.TensorBoard(os.path.join(folder, summary.TENSORBOARD)))
      )
    result = run_lib.run(
        config, task, client_data, checkpoints, observers, clients_per_block=clients_per_block
    )
    recovery = recovery_rows(config, task, result)
  rows = tidy_rows(config, task, result)
  if task.tables is not None:
    method = saved_clusters.most_accurate(config, result)
    saved = saved_clusters.of_result(method, result, task, config.options_for("model"))
    if len(saved.vectors) > 1:
      profiles = scaled_profiles(task, saved)
      saved = dataclasses.replace(saved, means=profiles.means)
      path = os.path.join(folder, f"{summary.PROFILES}.csv")
      atomic_file.write_text(path, profiles_text(task.tables, profiles))
    saved.save(os.path.join(folder, model_folder.MODEL))
    is_saved = {"method": method, "cluster": "", "metric": summary.SAVED, "value": 1}
    rows[tidy_experiment.RESULTS] = [*rows[tidy_experiment.RESULTS], is_saved]
  # The clients' files serve training alone; the checkpoints hold the trained models.
  shutil.rmtree(client_data)
  return {**rows, summary.CURVES: recorder.rows(result), summary.RECOVERY: recovery}
