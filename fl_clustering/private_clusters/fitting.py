"""A run, from the clients' files to released models.

1. Sketch and group.  Every client sketches what a public probe learns of its data; one noisy
   sum tells the mean of the sketches, and private k-means of the centered sketches finds K
   centers.  A client's slot is its nearest center.
2. A noisy histogram of the norms of the clients' first updates gives the first clip norm.
3. Rounds.  All models go to every client.  It trains one of them, at first that of its slot and
   then that of least loss on its own data, and sends its clipped update in that model's slot.
4. One report: the clusters' numbers of clients, and their mean accuracy on the clients' test data.

The server sees nothing but noisy sums (`slot_sums.py`).
"""

from __future__ import annotations

import collections
import dataclasses
import functools
import os
from typing import Any, Iterator, Mapping, TYPE_CHECKING

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from clustering_basics import randomness
from clustering_basics import validate
from dp_clustering import ledger as ledger_lib
from dp_clustering import point_grid
from fl_clustering.kmeans import private_fit
from fl_clustering.points import point_files
from fl_clustering.points import privacy as privacy_lib
from fl_clustering.points import scaling as scaling_lib
from fl_clustering.private_clusters import client_messages
from fl_clustering.private_clusters import plan as plan_lib
from fl_clustering.private_clusters import slot_sums
from fl_clustering.private_clusters import training

if TYPE_CHECKING:
  from dp_clustering import noise
  from fl_clustering.engine import client_files
  from fl_clustering.tasks import model as model_lib

_CLIENT_TYPE = tff.StructWithPythonType(
    [("train", np.str_), ("test", np.str_), ("sketch", np.str_)], collections.OrderedDict
)
_MEAN_TYPE = tff.TensorType(np.float64, [client_messages.SKETCH_DIM])
_NUM_NORMS = len(training.NORM_BINS) + 1


@dataclasses.dataclass(frozen=True, eq=False)
class Released:
  """What a run releases; all of it is covered by the ledger.

  Attributes:
    vectors: The models, float32 of shape (K, P).
    counts: Noisy numbers of clients, of shape (K,).
    accuracies: Noisy mean accuracies on the clients' test data, of shape (K,); NaN where the
      noisy count is not above a half.
    clip_norms: Of every round.
    ledger: All releases; frozen.
  """

  vectors: np.ndarray
  counts: np.ndarray
  accuracies: np.ndarray
  clip_norms: tuple[float, ...]
  ledger: ledger_lib.Ledger


class Questions:
  """The TFF computations of a run."""

  def __init__(self, model: model_lib.Model, settings: plan_lib.PrivateClusters) -> None:
    self._model = model
    self._settings = settings
    num_slots = settings.num_clusters
    self.public_type = tff.StructWithPythonType(
        [
            ("vectors", tff.TensorType(np.float32, [num_slots, model.num_parameters])),
            ("is_locked", np.bool_),
            ("mean", _MEAN_TYPE),
            ("centers", tff.TensorType(np.float64, [num_slots, client_messages.SKETCH_DIM])),
            ("clip_norm", np.float64),
        ],
        collections.OrderedDict,
    )
    self.round_size = num_slots * (model.num_parameters + 1) + 1

  def _examples(self, path: Any) -> tuple[tf.Tensor, tf.Tensor]:
    return client_messages.read(self._model, path)

  def _update(self, public: Any, examples: Any) -> tuple[tf.Tensor, tf.Tensor]:
    slot = client_messages.slot_of(self._model, public, examples)
    vector = public["vectors"][slot]
    return client_messages.update_of(self._model, self._settings, vector, examples), slot

  @functools.cached_property
  def sketches(self) -> Any:
    """Asks for the sum of the sketches."""

    def message(unused_public: Any, client: Any) -> tf.Tensor:
      examples = self._examples(client["train"])
      return client_messages.or_zeros(
          lambda: client_messages.sketch(self._model, examples), client_messages.SKETCH_DIM,
          examples,
      )

    return slot_sums.build_question(tff.TensorType(np.int32), _CLIENT_TYPE, tf.function(message))

  @functools.cached_property
  def write_sketches(self) -> Any:
    """Has every client write its centered sketch to its own file, and returns nothing of it."""
    model = self._model

    @tff.tensorflow.computation(_MEAN_TYPE, _CLIENT_TYPE)
    def write(mean: Any, client: Any) -> tf.Tensor:
      examples = client_messages.read(model, client["train"])
      own = tf.cond(
          tf.size(examples[1]) > 0,
          lambda: client_messages.centered_sketch(client_messages.sketch(model, examples), mean),
          lambda: tf.zeros([client_messages.SKETCH_DIM], tf.float64),
      )
      # The message ends with the numbers themselves, as `point_files` reads them.
      content = tf.io.serialize_tensor(own)
      num_bytes = own.dtype.size * client_messages.SKETCH_DIM
      raw = tf.strings.substr(content, tf.strings.length(content) - num_bytes, num_bytes)
      with tf.control_dependencies([tf.io.write_file(client["sketch"], raw)]):
        return tf.constant(0)

    @tff.federated_computation(
        tff.FederatedType(_MEAN_TYPE, tff.SERVER), tff.FederatedType(_CLIENT_TYPE, tff.CLIENTS)
    )
    def write_all(mean: Any, clients: Any) -> Any:
      return tff.federated_sum(tff.federated_map(write, (tff.federated_broadcast(mean), clients)))

    return write_all

  @functools.cached_property
  def norms(self) -> Any:
    """Asks how many updates have which norm."""

    def message(public: Any, client: Any) -> tf.Tensor:
      examples = self._examples(client["train"])
      return client_messages.or_zeros(
          lambda: client_messages.norm_message(self._update(public, examples)[0]), _NUM_NORMS,
          examples,
      )

    return slot_sums.build_question(self.public_type, _CLIENT_TYPE, tf.function(message))

  @functools.cached_property
  def round_(self) -> Any:
    """Asks for a round of training."""

    def message(public: Any, client: Any) -> tf.Tensor:
      examples = self._examples(client["train"])

      def found() -> tf.Tensor:
        update, slot = self._update(public, examples)
        return client_messages.round_message(
            update, slot, self._settings.num_clusters, public["clip_norm"]
        )

      return client_messages.or_zeros(found, self.round_size, examples)

    return slot_sums.build_question(self.public_type, _CLIENT_TYPE, tf.function(message))

  @functools.cached_property
  def report(self) -> Any:
    """Asks for the clusters' numbers of clients and their accuracy."""

    def message(public: Any, client: Any) -> tf.Tensor:
      train, test = self._examples(client["train"]), self._examples(client["test"])

      def found() -> tf.Tensor:
        slot = client_messages.slot_of(self._model, public, train)
        return client_messages.report_message(self._model, public["vectors"], slot, test)

      return client_messages.or_zeros(found, 2 * self._settings.num_clusters, train, test)

    return slot_sums.build_question(self.public_type, _CLIENT_TYPE, tf.function(message))


class Run:
  """The server of one run."""

  def __init__(
      self, settings: plan_lib.PrivateClusters, model: model_lib.Model,
      files: client_files.ClientFiles, folder: str, seed: int, noise_source: noise.Source,
  ) -> None:
    """Makes a run.

    Args:
      files: The clients' files, of which those for training and testing are read.
      folder: An existing folder for the files that clients keep to themselves.
      seed: Of public random numbers: the first model, directions, and starts of k-means.
    """
    self._settings = settings
    self._model = model
    self._budget = settings.budget()
    self._noise_source = noise_source
    self._seed = seed
    self.ledger = ledger_lib.Ledger(settings.epsilon, settings.delta, noise_source)
    self.questions = Questions(model, settings)
    self._sketch_paths = {
        client_id: os.path.join(os.path.abspath(folder), f"client_{index:05d}.sketch")
        for index, client_id in enumerate(files.train)
    }
    self.clients = [
        collections.OrderedDict(
            train=files.train[client_id].path, test=files.test[client_id].path, sketch=path
        )
        for client_id, path in self._sketch_paths.items()
    ]
    self._door = slot_sums.SlotSums(
        self.clients, self.ledger, noise_source, settings.trust, settings.min_clients
    )

  def _public(
      self, state: training.State, grouped: tuple[np.ndarray, np.ndarray], is_locked: bool
  ) -> dict[str, Any]:
    mean, centers = grouped
    return collections.OrderedDict(
        vectors=state.vectors, is_locked=np.bool_(is_locked), mean=mean, centers=centers,
        clip_norm=np.float64(state.clip_norm),
    )

  def _group(self) -> tuple[np.ndarray, np.ndarray]:
    """Returns the released mean of the sketches, and centers of the centered ones."""
    num_clusters, dim = self._settings.num_clusters, client_messages.SKETCH_DIM
    if num_clusters == 1:
      return np.zeros(dim), np.zeros((1, dim))
    total = self._door.ask(
        "mean of sketches", self.questions.sketches, np.int32(0), dim, 1.0,
        self._budget.mean_sketch,
    )
    mean = total / len(self.clients)
    self.questions.write_sketches(mean, self.clients)
    # One client is one point.
    privacy = privacy_lib.ClientPrivacy(
        self._settings.epsilon, self._settings.delta, radius=1.0, max_points=1,
        trust=self._settings.trust, min_clients=self._settings.min_clients,
    )
    steps = scaling_lib.Scaling(np.zeros(dim), np.full(dim, float(point_grid.POINT_STEPS)))
    sums = private_fit.FederatedSums(
        point_files.PointFiles(self._sketch_paths, steps), num_clusters, privacy,
        self._noise_source, self.ledger,
    )
    rng = randomness.generator(self._seed, "private clusters, k-means")
    return mean, sums.private_centers(num_clusters, self._budget.kmeans, rng)

  def _first_model(self) -> np.ndarray:
    """Returns the model that all start from, of shape (P,)."""
    if len(self._model.parameter_shapes) == 2:
      # One layer: its loss is convex, and what is random in a start would only be noise.
      return np.zeros(self._model.num_parameters, np.float32)
    parameters = self._model.initial_parameters(
        randomness.generator(self._seed, "initial_parameters")
    )
    return np.concatenate([parameter.ravel() for parameter in parameters])

  def states(self) -> Iterator[tuple[training.State, dict[str, Any]]]:
    """Yields the state before every round and after the last, and what clients are told of it."""
    num_clusters, num_clients = self._settings.num_clusters, len(self.clients)
    state = training.State.first(self._first_model(), num_clusters, num_clients, clip_norm=1.0)
    grouped = self._group()
    counts = self._door.ask(
        "histogram of norms", self.questions.norms, self._public(state, grouped, True),
        _NUM_NORMS, 1.0, self._budget.norms,
    )
    state = dataclasses.replace(state, clip_norm=training.first_clip_norm(counts))
    for number in range(self._settings.rounds):
      public = self._public(state, grouped, number < training.LOCKED_ROUNDS)
      yield state, public
      found = self._door.ask(
          f"round {number + 1}", self.questions.round_, public, self.questions.round_size,
          training.message_norm(), self._budget.round_,
      )
      slots = found[:-1].reshape(num_clusters, -1)
      count_std = training.message_norm() / self._budget.round_ / training.COUNT_WEIGHT
      sums = training.SlotSums(
          slots[:, :-1], slots[:, -1] / training.COUNT_WEIGHT,
          float(found[-1]) / training.BIT_WEIGHT, count_std,
      )
      rng = randomness.generator(self._seed, "private clusters, revival", number)
      state = state.next(sums, num_clients, self._settings.rounds, rng)
    yield state, self._public(state, grouped, False)

  def report(self, public: Mapping[str, Any]) -> tuple[np.ndarray, np.ndarray]:
    """Returns noisy counts and mean accuracies, of shape (K,); closes the ledger."""
    found = self._door.ask(
        "report", self.questions.report, public, 2 * self._settings.num_clusters, np.sqrt(0.5),
        self._budget.report,
    ).reshape(-1, 2)
    self.ledger.freeze()
    counts = 2 * found[:, 1]
    with np.errstate(divide="ignore", invalid="ignore"):
      accuracies = np.where(counts > 0.5, np.clip(found[:, 0] / counts + 0.5, 0, 1), np.nan)
    return counts, accuracies


def fit(
    settings: plan_lib.PrivateClusters, model: model_lib.Model, files: client_files.ClientFiles,
    folder: str, seed: int, noise_source: noise.Source,
) -> Released:
  """Runs all of it; see `Run`."""
  if settings.num_clusters > len(files.train):
    raise validate.error(
        "num_clusters", f"be at most the {len(files.train)} clients", settings.num_clusters
    )
  run = Run(settings, model, files, folder, seed, noise_source)
  *before, (state, public) = run.states()
  counts, accuracies = run.report(public)
  clip_norms = tuple(one.clip_norm for one, _ in before)
  return Released(state.vectors, counts, accuracies, clip_norms, run.ledger)
