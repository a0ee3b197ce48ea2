"""A run, from the clients' files to released models.

1. Group.  Every client sketches what a public probe learns of its data, and private k-means of
   the sketches finds K centers (`grouping.py`).  A client's slot is its nearest center.
2. A noisy histogram of the norms of the clients' first updates gives the first clip norm.
3. Rounds.  All models go to every client.  It trains one of them, at first that of its slot and
   then that of least loss on its own data, and sends its clipped update in that model's slot.
4. One report: the clusters' numbers of clients, and their mean accuracy on the clients' test data.

The server sees sums of bounded integers alone, and all that is released of them is noisy
(`slot_sums.py`).
"""

from __future__ import annotations

import collections
import copy
import dataclasses
import functools
import math
import os
from typing import Any, Iterator, Mapping, TYPE_CHECKING

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from clustering_basics import randomness
from fl_clustering.engine import sketch
from fl_clustering.points import privacy as privacy_lib
from fl_clustering.private_clusters import client_messages
from fl_clustering.private_clusters import grouping
from fl_clustering.private_clusters import plan as plan_lib
from fl_clustering.private_clusters import slot_sums
from fl_clustering.private_clusters import training

if TYPE_CHECKING:
  from fl_clustering.engine.tff import client_files
  from fl_clustering.private_clusters import releases as releases_lib
  from fl_clustering.tasks import model as model_lib

_CLIENT_TYPE = tff.StructWithPythonType(
    [("train", np.str_), ("test", np.str_), ("sketch", np.str_)], collections.OrderedDict
)
_NUM_NORMS = len(training.NORM_BINS) + 1


@dataclasses.dataclass(frozen=True, eq=False)
class Report:
  """What the report at the end releases: of every cluster, and last of all clients together.

  It is about the clients with data for training and for testing; others send zeros.

  Attributes:
    counts: Their noisy numbers, of shape (K + 1,); NaN if the report was lost.
    count_stds: The standard deviations of the noise on these, likewise.
    accuracies: Their noisy mean accuracies on their test data, likewise; NaN where the noisy count
      is not above a half.
    accuracy_stds: The standard deviations of the noise on these, by the delta method, likewise.
  """

  counts: np.ndarray
  count_stds: np.ndarray
  accuracies: np.ndarray
  accuracy_stds: np.ndarray

  @classmethod
  def of_sums(cls, sums: np.ndarray, std: float) -> Report:
    """Returns what noisy sums tell.

    Args:
      sums: Over the clients of every cluster of accuracy - 1/2, and of 1/2, of shape (K, 2).
      std: The standard deviation of the noise on each of them.
    """
    stds = std * np.append(np.ones(len(sums)), math.sqrt(len(sums)))
    of_accuracy, of_half = np.vstack([sums, sums.sum(axis=0)]).T
    counts = np.where(2 * of_half > 0.5, 2 * of_half, np.nan)
    ratios = of_accuracy / counts
    return cls(
        2 * of_half, 2 * stds, np.clip(ratios + 0.5, 0, 1),
        # The noise of the count is twice that of the sum, and independent.
        stds * np.hypot(1, 2 * ratios) / counts,
    )


class Questions:
  """The TFF computations of a run, but for those of its grouping."""

  def __init__(
      self, model: model_lib.Model, num_slots: int, local_steps: int, learning_rate: float
  ) -> None:
    self._model = model
    self._num_slots = num_slots
    self._local_steps = local_steps
    self._learning_rate = learning_rate
    self.public_type = tff.StructWithPythonType(
        [
            ("vectors", tff.TensorType(np.float32, [num_slots, model.num_parameters])),
            ("is_locked", np.bool_),
            ("centers", tff.TensorType(np.float64, [num_slots, sketch.SIZE])),
            ("clip_norm", np.float64),
        ],
        collections.OrderedDict,
    )
    self.round_size = num_slots * (model.num_parameters + 1) + 1

  def _examples(self, path: Any) -> tuple[tf.Tensor, tf.Tensor]:
    return client_messages.read(self._model, path)

  def _update(self, public: Any, client: Any, examples: Any) -> tuple[tf.Tensor, tf.Tensor]:
    slot = client_messages.slot_of(self._model, public, client["sketch"], examples)
    update = client_messages.update_of(
        self._model, public["vectors"][slot], examples, self._local_steps, self._learning_rate,
        own_labels=self._num_slots > 1,
    )
    return update, slot

  @functools.cached_property
  def norms(self) -> Any:
    """Asks how many updates have which norm."""

    def message(public: Any, client: Any) -> tf.Tensor:
      examples = self._examples(client["train"])
      return client_messages.or_zeros(
          lambda: client_messages.norm_message(self._update(public, client, examples)[0]),
          _NUM_NORMS,
          examples,
      )

    return slot_sums.build_question(self.public_type, _CLIENT_TYPE, tf.function(message))

  @functools.cached_property
  def round_(self) -> Any:
    """Asks for a round of training."""

    def message(public: Any, client: Any) -> tf.Tensor:
      examples = self._examples(client["train"])

      def found() -> tf.Tensor:
        update, slot = self._update(public, client, examples)
        return client_messages.round_message(
            update, slot, self._num_slots, public["clip_norm"]
        )

      return client_messages.or_zeros(found, self.round_size, examples)

    return slot_sums.build_question(self.public_type, _CLIENT_TYPE, tf.function(message))

  @functools.cached_property
  def report(self) -> Any:
    """Asks for the clusters' numbers of clients and their accuracy."""

    def message(public: Any, client: Any) -> tf.Tensor:
      train, test = self._examples(client["train"]), self._examples(client["test"])

      def found() -> tf.Tensor:
        slot = client_messages.slot_of(self._model, public, client["sketch"], train)
        return client_messages.report_message(self._model, public["vectors"], slot, test)

      return client_messages.or_zeros(found, 2 * self._num_slots, train, test)

    return slot_sums.build_question(self.public_type, _CLIENT_TYPE, tf.function(message))


# Runs on the same model share them, such as those of a sweep over epsilon: TFF takes seconds to
# trace and to compile them.
build_questions = functools.lru_cache(maxsize=8)(Questions)


class Run:
  """The server of one run."""

  def __init__(
      self, settings: plan_lib.PrivateClusters, model: model_lib.Model,
      files: client_files.ClientFiles, folder: str, seed: int, releases: releases_lib.Releases,
  ) -> None:
    """Makes a run.

    Args:
      files: The clients' files, of which those for training and testing are read.
      folder: An existing folder for the files that clients keep to themselves.
      seed: Of public random numbers: the first model, directions, and starts of k-means.
      releases: With the budget of `settings`.

    Raises:
      ValueError: If there are fewer clients than `num_clusters` or `min_clients`.
    """
    settings.check_clients(len(files.train))
    self._settings = settings
    self._model = model
    self._budget = settings.budget
    self._seed = seed
    self._releases = releases
    self.questions = build_questions(
        model, settings.num_clusters, settings.local_steps, settings.learning_rate
    )
    folder = os.path.abspath(folder)
    clients = {
        client_id: collections.OrderedDict(
            train=files.train[index].path, test=files.test[index].path,
            sketch=os.fsencode(os.path.join(folder, f"client_{index:05d}.sketch")),
        )
        for index, client_id in enumerate(files.client_ids)
    }
    self.clients = list(clients.values())
    self._grouping = grouping.Grouping(settings, model, _CLIENT_TYPE, clients)
    self._door = self._new_door()

  def _new_door(self) -> slot_sums.Door:
    settings = self._settings
    return slot_sums.Door(self.clients, self._releases, settings.trust, settings.min_clients)

  def with_releases(self, releases: releases_lib.Releases) -> Run:
    """Returns the run with other books, for example with those of an interrupted run."""
    other = copy.copy(self)
    other._releases = releases
    other._door = other._new_door()
    return other

  def _public(self, state: training.State, centers: np.ndarray) -> dict[str, Any]:
    """Returns what clients are told in the round after a state, and in the report."""
    is_locked = state.round_num < min(training.LOCKED_ROUNDS, self._settings.rounds)
    return collections.OrderedDict(
        vectors=state.vectors, is_locked=np.bool_(is_locked), centers=centers,
        clip_norm=np.float64(state.clip_norm),
    )

  def _first_model(self) -> np.ndarray:
    """Returns the model that all start from, of shape (P,)."""
    if len(self._model.parameter_shapes) == 2:
      # One layer: its loss is convex, and what is random in a start would only be noise.
      return np.zeros(self._model.num_parameters, np.float32)
    parameters = self._model.initial_parameters(
        randomness.generator(self._seed, "initial_parameters")
    )
    return np.concatenate([parameter.ravel() for parameter in parameters])

  def _first_clip_norm(self, public: Mapping[str, Any]) -> float:
    counts = self._door.ask(
        "histogram of norms", self.questions.norms, public, _NUM_NORMS, 1.0, self._budget.norms
    )
    if counts is None:
      return float(public["clip_norm"])
    if self._settings.is_private:
      return training.first_clip_norm(counts)
    return training.unclipping_norm(counts)

  def _round(self, number: int, public: Mapping[str, Any]) -> training.RoundSums | None:
    """Returns what a round releases; None if that was lost."""
    found = self._door.ask(
        f"round {number}", self.questions.round_, public, self.questions.round_size,
        training.message_norm(), self._budget.round_,
    )
    if found is None:
      return None
    slots = found[:-1].reshape(self._settings.num_clusters, -1)
    count_std = training.message_norm() / self._budget.round_ / training.COUNT_WEIGHT
    return training.RoundSums(
        slots[:, :-1], slots[:, -1] / training.COUNT_WEIGHT,
        float(found[-1]) / training.BIT_WEIGHT,
        count_std * privacy_lib.noise_factor(self._settings, len(self.clients)),
    )

  def _start(self) -> tuple[training.State, np.ndarray]:
    """Groups the clients, and asks for the first clip norm.

    Returns:
      The state before the first round, and the released centers of sketches, of shape (K, d).
    """
    num_clusters = self._settings.num_clusters
    state = training.State.first(
        self._first_model(), num_clusters, len(self.clients), clip_norm=1.0
    )
    centers = np.zeros((num_clusters, sketch.SIZE))
    if num_clusters > 1:
      centers = self._grouping.centers(self._door, self._releases, self._seed)
    clip_norm = self._first_clip_norm(self._public(state, centers))
    state = dataclasses.replace(
        state, clip_norm=clip_norm, is_exact=not self._settings.is_private
    )
    return state, centers

  def _next(self, state: training.State, public: Mapping[str, Any]) -> training.State:
    """Returns the state after one more round."""
    sums = self._round(state.round_num + 1, public)
    if sums is None:
      return state.skipped()
    rng = randomness.generator(self._seed, "private clusters, revival", state.round_num)
    return state.next(sums, len(self.clients), self._settings.rounds, rng)

  def states(self) -> Iterator[tuple[training.State, dict[str, Any]]]:
    """Yields the state before every round and after the last, and what clients are told of it."""
    state, centers = self._start()
    public = self._public(state, centers)
    yield state, public
    for _ in range(self._settings.rounds):
      state = self._next(state, public)
      public = self._public(state, centers)
      yield state, public

  def report(self, public: Mapping[str, Any]) -> Report:
    """Asks for the report and closes the ledger."""
    sensitivity = float(np.sqrt(0.5))
    found = self._door.ask(
        "report", self.questions.report, public, 2 * self._settings.num_clusters, sensitivity,
        self._budget.report,
    )
    self._releases.ledger.freeze()
    if found is None:
      found = np.full(2 * self._settings.num_clusters, np.nan)
    std = sensitivity / self._budget.report
    std *= privacy_lib.noise_factor(self._settings, len(self.clients))
    return Report.of_sums(found.reshape(-1, 2), std)
