"""The groupings by name.

To add one, write its dataclass in a file of its own and add a row here: its name is then
a value of --methods, its options are flags, and the contract test runs over it.  Every
grouping has the option `representation` (`grouping.representation_option`): where the true
groups are known, the report compares what the groupings find in each representation.
"""

from fl_clustering.methods import dynamic_distance
from fl_clustering.methods import hierarchical
from fl_clustering.methods import kmeans

GROUPINGS = {
    "kmeans": kmeans.KMeans,
    "dynamic_distance": dynamic_distance.DynamicDistance,
    "hierarchical": hierarchical.Hierarchical,
}
