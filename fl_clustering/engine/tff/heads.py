"""Cluster heads: TFF clients that train some members of one cluster each, one after the other.

So TFF's messages hold one vector per cluster on the way to the heads and one per head on the way
back, however many clients there are.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from typing import Any, Sequence, TYPE_CHECKING

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from fl_clustering.engine.tff import client_update as client_update_lib
from fl_clustering.engine.tff import model_jobs

if TYPE_CHECKING:
  from fl_clustering.engine import participation
  from fl_clustering.tasks import model as model_lib

# A head does at most about 1/16 of a round's work: small enough that no core waits long for
# the last one, whatever the cluster sizes.  Many clients are cut finer, for many cores.
FEWEST_HEADS = 16
_MOST_HEADS = 64
_MEMBERS_PER_HEAD = 10

# What one head returns of its members is at most this part of a message, so that several heads fill
# it and cores share the work.
HEADS_PER_MESSAGE = 16

# What a head is told of its members.
MEMBER_FIELDS = (
    ("paths", tff.TensorType(np.str_, [None])),
    ("seeds", tff.TensorType(np.int32, [None, 2])),
    ("num_epochs", np.int32),
)


@dataclasses.dataclass(frozen=True, eq=False)
class Head:
  """Some members of one cluster, which one TFF client trains in turn."""

  cluster: int
  members: np.ndarray


def plan_heads(clusters: participation.Clusters, num_examples: np.ndarray) -> list[Head]:
  """Cuts clusters into heads of about equal work, the largest first.

  The plan does not depend on the machine that computes, so that sums are taken in the same order
  everywhere.

  Args:
    clusters: Per cluster its members.
    num_examples: All clients' numbers of training examples.

  Returns:
    The heads; those of a cluster hold its members once each.
  """
  work = lambda members: int(num_examples[members].sum())
  num_parts = sum(map(len, clusters)) // _MEMBERS_PER_HEAD
  num_parts = min(max(num_parts, FEWEST_HEADS), _MOST_HEADS)
  limit = sum(work(members) for members in clusters) / num_parts
  heads: list[Head] = []
  for cluster, members in enumerate(clusters):
    if not len(members):
      continue
    num_heads = min(len(members), math.ceil(work(members) / limit))
    # Dealing the clients out by size keeps the heads of a cluster alike.
    by_size = members[np.argsort(-num_examples[members], kind="stable")]
    heads += [Head(cluster, by_size[i::num_heads]) for i in range(num_heads)]
  return sorted(heads, key=lambda head: -work(head.members))


def cut(heads: Sequence[Head], size: int) -> list[Head]:
  """Cuts heads that return so many numbers per member into heads whose results fit a message."""
  return [
      Head(head.cluster, head.members[part])
      for head in heads
      for part in model_jobs.batches([HEADS_PER_MESSAGE * size] * len(head.members))
  ]


@functools.cache
def build_sums(
    model: model_lib.Model, batch_size: int, learning_rate: float
) -> tff.Computation:
  """Returns the computation of `model_jobs.on_models` of heads that sum their members up.

  A job's result is the weighted sum of the members' parameters, their number of examples and every
  member's loss.
  """
  client_update = client_update_lib.build_client_update(model, batch_size, learning_rate)

  @tf.function
  def sum_up(vector: tf.Tensor, job: Any) -> tuple:
    paths = job["paths"]
    parameters = client_update_lib.unflatten(model, vector)
    weighted_sum = [tf.zeros_like(p) for p in parameters]
    total = 0.0
    losses = tf.TensorArray(tf.float32, tf.shape(paths)[0])
    for i in tf.range(tf.shape(paths)[0]):
      trained, loss, num_examples = client_update(
          parameters, paths[i], job["seeds"][i], job["num_epochs"]
      )
      weighted_sum = [s + num_examples * t for s, t in zip(weighted_sum, trained)]
      total += num_examples
      losses = losses.write(i, loss)
    return client_update_lib.flatten(weighted_sum), total, losses.stack()

  return model_jobs.on_models(sum_up, model.num_parameters, *MEMBER_FIELDS)
