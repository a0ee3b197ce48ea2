"""A method of one's own: it groups clients by how their updates change the model's last layer.

It is the program `three_phase_emnist` with one more method; docs/own_method.md says more.

  PYTHONPATH=. python examples/last_layer.py --methods=last_layer,kmeans --output_dir=out
"""

import dataclasses
import math

import numpy as np
from sklearn import cluster

from clustering_basics import options
from fl_clustering.methods import cluster_assignment, grouping, one_shot, registry


@dataclasses.dataclass(frozen=True)
class LastLayer:
  """The options: each is a flag, and a setting of `ThreePhaseConfig`."""

  num_clusters: int = grouping.num_clusters_option("Number of clusters.")
  last_layer_linkage: str = options.option(
      str, "How last_layer measures the distance of two clusters.", "average",
      values=("average", "complete", "single"),
  )
  representation: str = grouping.representation_option()  # New clients are placed by it.


def last_layer(settings, engine):
  sizes = [math.prod(shape) for shape in engine.model.parameter_shapes.values()]
  in_head = np.repeat([name in engine.model.head for name in engine.model.parameter_shapes], sizes)

  def group(weights, rng):
    updates = (weights.vectors - weights.global_vector)[:, in_head]
    labels = cluster.AgglomerativeClustering(
        settings.num_clusters, metric="cosine", linkage=settings.last_layer_linkage
    ).fit_predict(updates)
    return cluster_assignment.ClusterAssignment.from_labels(weights.clients, labels)

  group.representation = settings.representation
  return one_shot.one_shot(group, engine)


# Before the settings are imported, which have the options of all methods.
registry.METHODS["last_layer"] = registry.MethodEntry(LastLayer, last_layer)

if __name__ == "__main__":
  from experiments.three_phase_emnist import __main__ as three_phase_emnist

  three_phase_emnist.start()
