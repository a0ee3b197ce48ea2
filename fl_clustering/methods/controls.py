"""The two controls that run beside the methods.

Most of what phase 2 gains over phase 1 comes from training longer.  `fedavg` keeps
training everyone together for as long, and `local` trains every client alone.  Both start
from the clients' own weights, as the groupings do, and differ from them in nothing else.
"""

from fl_clustering.methods import method


def fedavg(engine):
  """Returns the control that trains one model with all clients.

  It starts from the mean of the clients' own weights.  That mean is weighted by the
  number of examples, as FedAvg averages: where all clients took part and `mean`
  averaged, it is the model of phase 1, with the `grouping_epochs` if there are any.

  Args:
    engine: An `engine.Engine`.
  """

  def initialize(pretrained, rng):
    del rng  # Nothing here is random.
    weights = pretrained.client_weights
    start = weights.mean_of(weights.client_ids, engine.num_examples)
    return method.ClusterState(start[None], (weights.client_ids,))

  return method.Method(initialize, method.train_clusters(engine))


def local(engine):
  """Returns the control that trains every client's model on the client's data alone.

  Args:
    engine: An `engine.Engine`.
  """

  def initialize(pretrained, rng):
    del rng  # Nothing here is random.
    weights = pretrained.client_weights
    return method.ClusterState(
        weights.vectors, tuple((client_id,) for client_id in weights.client_ids)
    )

  return method.Method(initialize, method.train_clusters(engine))
