"""FLUX: groups clients once, by moments of what the global model sees in their data.

Dario Fenoglio, Mohan Li, Pietro Barbiero, Nicholas D. Lane, Marc Langheinrich, Martin Gjoreski:
"FLUX: Efficient Descriptor-Driven Clustered Federated Learning under Arbitrary Distribution
Shifts", NeurIPS 2025, https://arxiv.org/abs/2511.22305.  A client's descriptor are the means and
standard deviations of the inputs of the model's last layer, projected at random to as many
dimensions as there are classes: over all of its examples, and over those of each label.  DBSCAN
groups the descriptors, so the number of clusters is found.  Its radius is the knee of the sorted
distances from each client to the nearest other one.  A new client needs no labels: it joins the
cluster whose mean is nearest to its moments over all examples.

DBSCAN's clusters of at least two, with each client that is in none as a cluster of its own, are
those of single linkage cut at the radius.

Where this differs:

*   The projection is Gaussian, and is computed by the model with other weights in its last
    layer.  The authors' program takes the principal axes of random points.
*   Two clients are compared by the labels that both have.  In the authors' program, -1 stands
    for moments of a label that is missing, so the labels that are there weigh most.
*   Clients are grouped after phase 1, not when the global model stops gaining accuracy.
*   The knee is where the curve is farthest below the line between its ends (Satopaa, Albrecht,
    Irwin, Raghavan: "Finding a 'Kneedle' in a Haystack", 2011), without a threshold.
    Where groups are alike in density, it tears them apart: give a radius there.
*   Every cluster starts from the mean of its members' own weights, in which all count alike.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import numpy as np

from clustering_basics import options
from clustering_basics import validate
from fl_clustering.methods import cluster_assignment
from fl_clustering.methods import grouping
from fl_clustering.methods import hierarchical
from fl_clustering.methods import method
from fl_clustering.methods import new_clients

if TYPE_CHECKING:
  from fl_clustering.engine import engine as engine_lib
  from fl_clustering.tasks import model as model_lib


def distances_between(one: np.ndarray, others: np.ndarray) -> np.ndarray:
  """Returns the root mean square differences between moments, of shape (n,).

  Args:
    one: A client's moments, of shape (m, 2, d) as of `Engine.moments`.  Only the first, over all
      examples, are always there.
    others: Those of n clients, of shape (n, m, 2, d).  What is NaN in one of two doesn't count.
  """
  return np.sqrt(np.nanmean(np.square(others - one), axis=(1, 2, 3)))


def knee(distances: np.ndarray) -> float:
  """Returns the knee of the sorted distances to the nearest other one, given all (N, N)."""
  curve = np.sort(np.min(distances + np.diag(np.full(len(distances), np.inf)), axis=1))
  if curve[0] == curve[-1]:
    return float(curve[0])
  heights = (curve - curve[0]) / (curve[-1] - curve[0])
  return float(curve[np.argmax(np.linspace(0, 1, len(curve)) - heights)])


@dataclasses.dataclass(frozen=True)
class Flux(options.Settings):
  """The settings of FLUX."""

  flux_radius: float | None = options.option(
      float,
      "Largest distance of two clients that flux joins: the root mean square difference of their "
      "moments, in which means and standard deviations range over 1.",
      default=None,
      default_text="the knee of the distances to the nearest other client",
      rule=validate.not_negative,
  )


def group(moments: np.ndarray, settings: Flux) -> np.ndarray:
  """Groups clients by their moments; returns a label per client.

  Args:
    moments: float64 of shape (N, m, 2, d), NaN where there are none.
  """
  distances = np.stack([distances_between(one, moments) for one in moments])
  radius = knee(distances) if settings.flux_radius is None else settings.flux_radius
  return hierarchical.agglomerate(distances, "single", None, radius)


def last_kernel_shape(model: model_lib.Model) -> tuple[int, ...]:
  """Returns the shape of the kernel of a model's last layer, which its bias follows."""
  kernel, bias = [(), (), *model.parameter_shapes.values()][-2:]
  if not kernel[1:] == bias == (model.num_classes,):
    raise validate.error(
        "model", "end in a dense layer with a bias for the method flux", [kernel, bias]
    )
  return kernel


def flux(settings: Flux, engine: engine_lib.Engine) -> method.Method:
  """Returns FLUX."""
  shape = last_kernel_shape(engine.model)

  def moments_of(
      pretrained: method.Pretrained, kernel: np.ndarray, clients: np.ndarray, by_label: bool
  ) -> np.ndarray:
    # The outputs of the model whose last layer is this kernel, without a bias.
    bias = np.zeros(shape[1])
    before = pretrained.vector[: -(kernel.size + bias.size)]
    vector = np.concatenate([before, kernel.ravel(), bias]).astype(np.float32)
    return engine.moments(vector, clients, by_label).astype(np.float64)

  def initialize(pretrained: method.Pretrained, rng: np.random.Generator) -> method.ClusterState:
    weights = pretrained.used_weights
    kernel = rng.normal(size=shape) / np.sqrt(shape[0])
    moments = moments_of(pretrained, kernel, engine.clients, by_label=True)
    # Of means and of standard deviations, overall and of each label; none if nobody has it.
    largest = np.nanmax(moments, axis=(0, 3), initial=-np.inf)
    ranges = largest - np.nanmin(moments, axis=(0, 3), initial=np.inf)
    ranges = np.where(ranges > 0, ranges, 1)[..., None]
    labels = group(moments / ranges, settings)
    assignment = grouping.with_threshold_warning(
        cluster_assignment.ClusterAssignment.from_labels(engine.clients, labels),
        "the knee" if settings.flux_radius is None else settings.flux_radius, "flux_radius",
    )
    overall = moments[:, :1] / ranges[:1]
    clusters = assignment.clusters
    return method.ClusterState(
        np.stack([weights.mean_of(members) for members in clusters]),
        clusters,
        {
            "kernel": kernel, "ranges": ranges[:1],
            "centers": np.stack([overall[members].mean(axis=0) for members in clusters]),
        },
        assignment.warning,
    )

  def place(
      pretrained: method.Pretrained, state: method.ClusterState, clients: np.ndarray
  ) -> method.Placement:
    memory = state.memory
    moments = moments_of(pretrained, memory["kernel"], clients, by_label=False)
    nearest = [
        distances_between(one, memory["centers"]).argmin() for one in moments / memory["ranges"]
    ]
    return new_clients.in_cluster(state.vectors, np.array(nearest))

  return method.Method(initialize, method.TrainClusters(engine), place)
