"""The settings of the multi-view experiment, checked when made."""

import dataclasses
from typing import Optional

from clustering_basics import validate
from experiments.multiview import data
from fl_clustering import model_folder
from fl_clustering.multiview import multiview_config
from fl_clustering.tables import table_options

# The files of a run, besides those that all experiments write.
MEASUREMENTS = "measurements.csv"
# Of the user's own sites only.
CLUSTERS = "clusters.csv"
CENTROIDS = "centroids.csv"
PROFILES = "profiles.csv"
MODEL = model_folder.MODEL


@dataclasses.dataclass(frozen=True)
class MultiViewStudyConfig:
  """The settings: everything that changes a number of the experiment.

  Attributes:
    datasets: Names in `data.DATASETS`; `auto` alone means all that are on this machine;
      `sites` alone means the user's own.
    num_clients: Number of clients that points are split over; sites are clients already.
    dirichlet_alpha: Concentration of the label skew; smaller is more skewed.
    seed: The first seed.
    num_seeds: Number of seeds, one after another.
    num_clusters: Number of clusters, for sites only; None for as many as labels.
    alpha: Exponent of the view weights, > 1; closer to 1 makes learnt weights less equal.
    n_init: Number of restarts, of which the one with the lowest objective is kept.
    num_rounds: Maximum number of rounds of a restart.
    tol: A restart ends when a round lowers the objective by less than this share of it.
    tables: The `TableOptions` of the files of sites.
  """

  datasets: tuple[str, ...] = (data.AUTO,)
  num_clients: int = 5
  dirichlet_alpha: float = 0.3
  seed: int = 0
  num_seeds: int = 5
  num_clusters: Optional[int] = None
  alpha: float = multiview_config.MultiViewConfig.alpha
  n_init: int = multiview_config.MultiViewConfig.n_init
  num_rounds: int = multiview_config.MultiViewConfig.num_rounds
  tol: float = multiview_config.MultiViewConfig.tol
  tables: table_options.TableOptions = table_options.TableOptions()

  def __post_init__(self):
    if self.datasets not in ((data.AUTO,), (data.SITES,)):
      if not self.datasets or len(set(self.datasets)) < len(self.datasets):
        raise validate.error("datasets", "name each data set once", ",".join(self.datasets))
      for name in self.datasets:
        validate.one_of(data.DATASETS, datasets=name)
    validate.integer(minimum=1, num_clients=self.num_clients)
    validate.positive(dirichlet_alpha=self.dirichlet_alpha)
    validate.integer(minimum=1, seeds=self.num_seeds)
    if self.num_clusters is not None:
      validate.integer(minimum=1, num_clusters=self.num_clusters)
      if self.datasets != (data.SITES,):
        raise validate.error(
            "num_clusters", "be left out unless `data_dir` is given", self.num_clusters
        )
    # The methods' own configuration checks the rest; `mvkm` has the strictest rules.
    multiview_config.MultiViewConfig(
        n_clusters=1, view_weights="mvkm", seed=self.seed, **self.method_settings
    )

  @property
  def method_settings(self):
    """The settings that all rows of `FederatedMultiViewKMeans` share."""
    return {
        "alpha": self.alpha,
        "n_init": self.n_init,
        "num_rounds": self.num_rounds,
        "tol": self.tol,
    }

  @property
  def seeds(self):
    return range(self.seed, self.seed + self.num_seeds)

  def to_json(self):
    """Returns the settings as a dict for JSON."""
    return {
        **dataclasses.asdict(self), "datasets": list(self.datasets),
        "tables": self.tables.to_json(),
    }
