"""How well an assignment recovers the clients' true groups.

Hubert, Arabie: "Comparing partitions", Journal of Classification, 1985 (adjusted
Rand index); Manning, Raghavan, Schütze: "Introduction to Information Retrieval",
2008, section 16.3 (purity). Neither is defined for overlapping clusters.
"""

import collections

from clustering_basics import agreement
from clustering_basics import validate


def _members_groups(assignment, true_groups):
  """Returns the true groups of every cluster's members, a list per cluster."""
  for members in assignment.clusters:
    for client_id in members:
      if client_id not in true_groups:
        raise validate.error("true_groups", "hold every client", client_id)
  return [[true_groups[c] for c in members] for members in assignment.clusters]


def adjusted_rand_index(assignment, true_groups):
  """Returns the adjusted Rand index: 1 = the same partition, about 0 = chance.

  Args:
    assignment: A `ClusterAssignment`.
    true_groups: From every client's id to its group.

  Returns:
    A float of at most 1, or `None` for overlapping clusters.
  """
  if assignment.overlapping:
    return None
  groups = _members_groups(assignment, true_groups)
  labels = [k for k, members in enumerate(groups) for _ in members]
  return agreement.adjusted_rand_index(sum(groups, []), labels)


def purity(assignment, true_groups):
  """Returns the share of clients that are of their cluster's most frequent group.

  Args:
    assignment: A `ClusterAssignment`.
    true_groups: From every client's id to its group.

  Returns:
    A float in (0, 1], or `None` for overlapping clusters.
  """
  if assignment.overlapping:
    return None
  groups = _members_groups(assignment, true_groups)
  num_clients = sum(map(len, groups))
  return sum(max(collections.Counter(g).values()) for g in groups) / num_clients
