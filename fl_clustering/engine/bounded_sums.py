"""Sums over clients of bounded messages of integers: all that a server gets of a private training.

A `Question` says what a client sends, and how long that can be at most.  Given the public numbers
that come with it, a message depends on the client's own examples and on no other client.  A message
that can't be computed, of a client without examples or with an update that is not finite, is all
zeros: of the same size as every other, and without an error.

Every client sends one vector in a round, with a slot for every cluster, all zero but in its own
slot.  There stand its clipped update over the clip norm, of a norm of at most 1, and a count.
Beside the slots stands a bit: whether the update was shorter than the clip norm.  `COUNT_WEIGHT`
and `BIT_WEIGHT` make the latter two small, so that most of the budget goes into the updates.

With several clusters, losses are softmax cross-entropies over the client's own labels: what labels
a client lacks then drives neither its update nor its choice of a model.
"""

from __future__ import annotations

import abc
import dataclasses
import math
from typing import Any, Callable, Iterable, NamedTuple, TYPE_CHECKING

import numpy as np

from fl_clustering.engine import sketch

if TYPE_CHECKING:
  from fl_clustering.points import secure_sums
  from fl_clustering.tasks import model as model_lib

COUNT_WEIGHT = 0.2
BIT_WEIGHT = 0.1
# Edges of the histogram of update norms: half octaves.
NORM_BINS = 2.0 ** np.arange(-10, 7, 0.5)
# Integer steps to one.  Truncation makes no number larger; the factor has room for the rounding
# of a float64 norm.
STEPS = 2**20
INSIDE = 1 - 2e-6


@dataclasses.dataclass(frozen=True)
class Question:
  """What clients are asked; a message is float64 times `STEPS` `INSIDE`, truncated towards zero.

  Attributes:
    name: What each sends.
    sensitivity: The largest norm of a message, in `STEPS`.
    size: How many integers a message has, by the numbers of clusters and of parameters.
  """

  name: str
  sensitivity: float
  size: Callable[[int, int], int]


# `engine/sketch.py`.
SKETCH = Question("sketch", 1.0, lambda unused_k, unused_p: sketch.SIZE)
# A one for the place in `NORM_BINS`.
NORM = Question("norm of the update", 1.0, lambda unused_k, unused_p: len(NORM_BINS) + 1)
# The slots, and the bit at the end.
ROUND = Question(
    "update", math.sqrt(1 + COUNT_WEIGHT**2 + (BIT_WEIGHT / 2) ** 2), lambda k, p: k * (p + 1) + 1
)
# For every cluster accuracy - 1/2 on the client's test data and 1/2, in the client's slot.
REPORT = Question("accuracy", math.sqrt(0.5), lambda k, unused_p: 2 * k)


class Public(NamedTuple):
  """What all clients are told.

  Attributes:
    vectors: The clusters' models, float32 of shape (K, P).
    is_locked: Whether clients keep to the slot of the center that is nearest to their sketch.
      Otherwise they take that of the model of least loss on their own data.
    centers: Of centered sketches, float64 of shape (K, d).
    clip_norm: The longest update that is sent as it is.
  """

  vectors: np.ndarray
  is_locked: bool
  centers: np.ndarray
  clip_norm: float


class Scores(NamedTuple):
  """Exact numbers of clients, NOT private, each of shape (n,).

  Attributes:
    slots: The model of least loss on the client's training data, int32.
    accuracies: Of that model, on the client's test data.
    finetuned: Of the same after the client has gone on training it on its own.
  """

  slots: np.ndarray
  accuracies: np.ndarray
  finetuned: np.ndarray


class BoundedSums(abc.ABC):
  """The clients of one training, in an engine.

  Attributes:
    model: What they train.
    num_clusters: K.
    local_steps: Gradient steps of an update, each on all of the client's examples.
    learning_rate: Of these steps.
    num_clients: N.  A client is its place among them.
  """

  def __init__(
      self, model: model_lib.Model, num_clusters: int, local_steps: int, learning_rate: float,
      num_clients: int,
  ) -> None:
    self.model = model
    self.num_clusters = num_clusters
    self.local_steps = local_steps
    self.learning_rate = learning_rate
    self.num_clients = num_clients

  def size(self, question: Question) -> int:
    """Returns how many integers a client's message has."""
    return question.size(self.num_clusters, self.model.num_parameters)

  @abc.abstractmethod
  def total(
      self, question: Question, public: Public | None, clients: np.ndarray,
      shares: Iterable[np.ndarray] | None = None,
  ) -> np.ndarray:
    """Returns the sum of the messages of some clients, int64 of shape (`size(question)`,).

    Args:
      public: What they are told; None for sketches.
      clients: Who is asked, increasing.
      shares: What each of them adds to its message before anyone else sees it, its noise.
    """

  @abc.abstractmethod
  def centered_sketches(self, mean: np.ndarray) -> secure_sums.ClientPoints:
    """Has every client keep its sketch less a released mean (d,), scaled to norm 1.

    Returns:
      These as the clients' points, which stay with them, in coordinates of their own; zeros for a
      client without examples.
    """

  @abc.abstractmethod
  def scores(self, vectors: np.ndarray, clients: np.ndarray, finetuning_steps: int) -> Scores:
    """Returns exact numbers of clients with examples for training and testing; for simulations.

    Args:
      vectors: The clusters' models, float32 of shape (K, P).
      finetuning_steps: Gradient steps on all labels' loss.
    """


def in_steps(messages: Any) -> Any:
  """Returns float64 messages, of NumPy or JAX, as int64, whose norm in steps is below their own."""
  return (messages * (STEPS * INSIDE)).astype(np.int64)
