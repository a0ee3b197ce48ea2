"""What a grouping is, and the options that several have.

A grouping is a frozen dataclass: its fields are its options.  It is called with the clients'
weights, a `ClientWeights`, and a `np.random.Generator`, and returns a `ClusterAssignment`.  It
refers to clients by id throughout; its result does not depend on the order in which the clients
come.
"""

from clustering_basics import validate
from fl_clustering import options
from fl_clustering.methods import client_weights

_DEFAULT_NUM_CLUSTERS = 8
# Stands for the number that `num_clusters.choose` finds.
AUTO = "auto"


def num_clusters_option(about, **details):
  """Returns the option `num_clusters`: a number or, in a run's settings, `AUTO`.

  Args:
    about: What it is.
    **details: The field's `default`, if it has one.
  """
  return options.option(
      int,
      about,
      default_for=lambda num_clients: min(_DEFAULT_NUM_CLUSTERS, num_clients),
      default_text=f"{_DEFAULT_NUM_CLUSTERS}, at most num_clients",
      up_to_num_clients=True,
      word=AUTO,
      **details,
  )


def representation_option():
  """Returns the option `representation`: what of the clients' weights is grouped."""
  return options.option(
      str,
      "What is grouped: the clients' `weights`, their `update` since the last global "
      "model, or the `normalized_update`.",
      default="weights",
      values=tuple(client_weights.REPRESENTATIONS),
  )


def check_num_clusters(num_clusters, client_ids):
  """Checks that there are at most as many clusters as clients.

  Args:
    num_clusters: Number of clusters.
    client_ids: Every client's id.

  Raises:
    ValueError: If there are more.
  """
  if num_clusters > len(client_ids):
    raise validate.error(
        "num_clusters", f"be in [1, num_clients={len(client_ids)}]", num_clusters
    )
