"""The groupings by name.

To add one, write its builder in a file of its own and add a row here: its key is
then a value of --groupings, and the contract test runs over it.
"""

import dataclasses
from typing import Callable

from fl_clustering.grouping import dynamic_distance
from fl_clustering.grouping import grouping
from fl_clustering.grouping import hierarchical
from fl_clustering.grouping import kmeans


@dataclasses.dataclass(frozen=True)
class GroupingEntry:
  """A row of `GROUPINGS`.

  Attributes:
    build: Function from options, by keyword, to a `GroupingStrategy`.
    options: The names of the options it takes; any other is refused by those who
      read the options.
  """

  build: Callable[..., grouping.GroupingStrategy]
  options: tuple[str, ...]


GROUPINGS = {
    "kmeans": GroupingEntry(kmeans.build_kmeans, ("num_clusters", "representation")),
    "dynamic_distance": GroupingEntry(
        dynamic_distance.build_dynamic_distance,
        ("distance_threshold", "max_clusters", "representation"),
    ),
    "hierarchical": GroupingEntry(
        hierarchical.build_hierarchical,
        ("num_clusters", "distance_threshold", "linkage", "metric", "representation"),
    ),
}
