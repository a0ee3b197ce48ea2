"""Groups the clients once, by their own weights, and then trains every cluster.

Every cluster starts from the mean of its members' own weights and is a FedAvg of its own
from then on.
"""

import numpy as np

from fl_clustering.methods import method


def one_shot(grouping, engine):
  """Returns the method that groups once with `grouping`.

  Args:
    grouping: A grouping, a function (ClientWeights, rng) -> ClusterAssignment.
    engine: An `engine.Engine`.
  """

  def initialize(pretrained, rng):
    weights = pretrained.client_weights
    assignment = grouping(weights, rng)
    assignment.check_covers(weights.client_ids)
    return method.ClusterState(
        vectors=np.stack([weights.mean_of(members) for members in assignment.clusters]),
        members=assignment.clusters,
        warning=assignment.warning,
    )

  return method.Method(initialize, method.train_clusters(engine))
