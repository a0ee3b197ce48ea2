"""The clients of `engine/bounded_sums.py` as TFF's, whose secure modular sum adds messages up."""

from __future__ import annotations

import collections
import functools
import itertools
import os
from typing import Any, Callable, Iterable, TYPE_CHECKING

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from fl_clustering.engine import bounded_sums
from fl_clustering.engine import sketch
from fl_clustering.engine.tff import client_messages
from fl_clustering.engine.tff import client_sketches
from fl_clustering.engine.tff import point_files
from fl_clustering.points import secure_sums

if TYPE_CHECKING:
  from fl_clustering.engine.tff import client_files
  from fl_clustering.tasks import model as model_lib

# A client's value: the paths of its own files.
_CLIENT_TYPE = tff.StructWithPythonType(
    [("train", np.str_), ("test", np.str_), ("sketch", np.str_)], collections.OrderedDict
)
_MEAN_TYPE = tff.TensorType(np.float64, [sketch.SIZE])


class _Rounds:
  """The rounds in which clients answer, of TFF."""

  def __init__(
      self, model: model_lib.Model, num_clusters: int, local_steps: int, learning_rate: float
  ) -> None:
    self._model = model
    self._num_clusters = num_clusters
    self._local_steps = local_steps
    self._learning_rate = learning_rate
    self._public_type = tff.StructWithPythonType(
        [
            ("vectors", tff.TensorType(np.float32, [num_clusters, model.num_parameters])),
            ("is_locked", np.bool_),
            ("centers", tff.TensorType(np.float64, [num_clusters, sketch.SIZE])),
            ("clip_norm", np.float64),
        ],
        collections.OrderedDict,
    )

  @functools.cache
  def of(self, question: bounded_sums.Question) -> Any:
    """Returns the round in which every client answers a question, and the answers are added up."""
    size = question.size(self._num_clusters, self._model.num_parameters)
    of_client: Any = {
        bounded_sums.SKETCH: self._sketch, bounded_sums.NORM: self._norm,
        bounded_sums.ROUND: self._round, bounded_sums.REPORT: self._report,
    }[question]
    public_type = self._public_type
    if question is bounded_sums.SKETCH:
      public_type = tff.TensorType(np.int32)

    def message(public: Any, client: Any) -> tf.Tensor:
      parts = ("train", "test") if question is bounded_sums.REPORT else ("train",)
      examples = [client_messages.read(self._model, client[part]) for part in parts]
      return client_messages.or_zeros(lambda: of_client(public, client, *examples), size, *examples)

    return point_files.build_round(_CLIENT_TYPE, public_type, tf.function(message))

  def _sketch(self, unused_public: Any, unused_client: Any, train: Any) -> tf.Tensor:
    return client_sketches.sketch(self._model, train)

  def _update(self, public: Any, client: Any, train: Any) -> tuple[tf.Tensor, tf.Tensor]:
    slot = client_messages.slot_of(self._model, public, client["sketch"], train)
    update = client_messages.update_of(
        self._model, public["vectors"][slot], train, self._local_steps, self._learning_rate,
        own_labels=self._num_clusters > 1,
    )
    return update, slot

  def _norm(self, public: Any, client: Any, train: Any) -> tf.Tensor:
    return client_messages.norm_message(self._update(public, client, train)[0])

  def _round(self, public: Any, client: Any, train: Any) -> tf.Tensor:
    update, slot = self._update(public, client, train)
    return client_messages.round_message(update, slot, self._num_clusters, public["clip_norm"])

  def _report(self, public: Any, client: Any, train: Any, test: Any) -> tf.Tensor:
    slot = client_messages.slot_of(self._model, public, client["sketch"], train)
    return client_messages.report_message(self._model, public["vectors"], slot, test)

  @functools.cached_property
  def writing(self) -> Any:
    """The computation in which clients write centered sketches to files of their own."""

    @tff.tensorflow.computation(_MEAN_TYPE, _CLIENT_TYPE)
    def write(mean: Any, client: Any) -> tf.Tensor:
      examples = client_messages.read(self._model, client["train"])
      own = tf.cond(
          tf.size(examples[1]) > 0,
          lambda: client_sketches.unit(client_sketches.sketch(self._model, examples) - mean),
          lambda: tf.zeros([sketch.SIZE], tf.float64),
      )
      # The message ends with the numbers themselves, as `point_files` reads them.
      content = tf.io.serialize_tensor(own)
      num_bytes = own.dtype.size * sketch.SIZE
      raw = tf.strings.substr(content, tf.strings.length(content) - num_bytes, num_bytes)
      with tf.control_dependencies([tf.io.write_file(client["sketch"], raw)]):
        return tf.constant(0)

    @tff.federated_computation(
        tff.FederatedType(_MEAN_TYPE, tff.SERVER), tff.FederatedType(_CLIENT_TYPE, tff.CLIENTS)
    )
    def write_all(mean: Any, clients: Any) -> Any:
      return tff.federated_sum(tff.federated_map(write, (tff.federated_broadcast(mean), clients)))

    return write_all

  @functools.cache
  def scores(self, finetuning_steps: int) -> Callable[..., tuple[tf.Tensor, ...]]:
    """Returns a function of models (K, P) and a client's paths to what `Scores` holds of it."""
    vectors_type = tf.TensorSpec((self._num_clusters, self._model.num_parameters), tf.float32)
    path_type = tf.TensorSpec((), tf.string)

    @tf.function(input_signature=[vectors_type, path_type, path_type])
    def of_client(
        vectors: tf.Tensor, train_path: tf.Tensor, test_path: tf.Tensor
    ) -> tuple[tf.Tensor, ...]:
      train, test = (client_messages.read(self._model, path) for path in (train_path, test_path))
      slot = client_messages.least_loss(self._model, vectors, train)
      tuned = vectors[slot] + tf.cast(
          client_messages.update_of(
              self._model, vectors[slot], train, finetuning_steps, self._learning_rate,
              own_labels=False,
          ),
          tf.float32,
      )
      return (
          slot, client_messages.accuracy(self._model, vectors[slot], test),
          client_messages.accuracy(self._model, tuned, test),
      )

    return of_client


# Trainings of the same model share them, such as those of a sweep over epsilon: TFF takes seconds
# to trace and to compile them.
build_rounds = functools.lru_cache(maxsize=8)(_Rounds)


class BoundedSums(bounded_sums.BoundedSums):
  """TFF's clients, each with files of its own."""

  def __init__(
      self, model: model_lib.Model, num_clusters: int, local_steps: int, learning_rate: float,
      files: client_files.ClientFiles, folder: str,
  ) -> None:
    """Makes the clients; TFF's context must be set, see `runtime/`.

    Args:
      files: The clients' examples, of which those for training and testing are read.
      folder: An existing folder for the files that clients keep to themselves.
    """
    super().__init__(model, num_clusters, local_steps, learning_rate, len(files.train))
    self._rounds = build_rounds(model, num_clusters, local_steps, learning_rate)
    folder = os.path.abspath(folder)
    self._clients = [
        collections.OrderedDict(
            train=train.path, test=test.path,
            sketch=os.fsencode(os.path.join(folder, f"client_{index:05d}.sketch")),
        )
        for index, (train, test) in enumerate(zip(files.train, files.test))
    ]

  def total(
      self, question: bounded_sums.Question, public: bounded_sums.Public | None,
      clients: np.ndarray, shares: Iterable[np.ndarray] | None = None,
  ) -> np.ndarray:
    sent: Any = np.int32(0)
    if public is not None:
      sent = collections.OrderedDict(
          vectors=public.vectors, is_locked=np.bool_(public.is_locked), centers=public.centers,
          clip_norm=np.float64(public.clip_norm),
      )
    if shares is None:
      shares = itertools.repeat(np.zeros(self.size(question), np.int64))
    values = (self._clients[client] for client in clients)
    return point_files.total(self._rounds.of(question), sent, values, shares)

  def centered_sketches(self, mean: np.ndarray) -> point_files.PointFiles:
    self._rounds.writing(mean, self._clients)
    return point_files.PointFiles(
        {index: client["sketch"] for index, client in enumerate(self._clients)},
        secure_sums.identity(sketch.SIZE),
    )

  def scores(
      self, vectors: np.ndarray, clients: np.ndarray, finetuning_steps: int
  ) -> bounded_sums.Scores:
    of_client = self._rounds.scores(finetuning_steps)
    found = [
        of_client(vectors, self._clients[client]["train"], self._clients[client]["test"])
        for client in clients
    ]
    slots, *accuracies = np.array(found, np.float64).T
    return bounded_sums.Scores(slots.astype(np.int32), *accuracies)
