"""The settings of the demo, checked when made."""

import dataclasses
import math
from typing import Any

from clustering_basics import options
from clustering_basics import validate
from dp_clustering import clustering
from dp_clustering import clustering_params

DELTA = 1e-6


@dataclasses.dataclass(frozen=True)
class DemoConfig(options.Settings):
  """The settings of the demo, checked when made."""

  num_points: int = options.option(int, "Number of points of the data set.", 100_000)
  dim: int = options.option(int, "Number of coordinates of a point.", 100)
  num_clusters: int = options.option(int, "Number of true clusters, which are Gaussians.", 64)
  cluster_ratio: float = options.option(
      float,
      "Ratio of the data's radius to a point's typical distance from its cluster's center.", 8.0,
  )
  radius: float = options.option(float, "Radius of the ball that contains all points.", 1.0)
  fixed_epsilon: float = options.option(
      float, "The epsilon for --k_to_try.", 1.0, rule=clustering_params.check_epsilon
  )
  k_to_try: tuple[int, ...] = options.option(
      int, "Comma-separated values of k.", (2, 4, 8, 16, 32, 64), several=True,
      rule=validate.AT_LEAST_ONE,
  )
  fixed_k: int = options.option(
      int, "The k for --epsilon_to_try.", 64, rule=validate.AT_LEAST_ONE
  )
  epsilon_to_try: tuple[float, ...] = options.option(
      float, "Comma-separated values of epsilon; `inf` means no noise.",
      (0.0625, 0.125, 0.25, 0.5, 1.0, 2.0, 4.0), several=True,
      rule=clustering_params.check_epsilon,
  )
  method: str = options.option(
      str,
      "`refine`: splits and refines centers; `lsh`: k-means over the leaves of a tree of hashes.",
      "refine", values=clustering.METHODS,
  )
  seed: int | None = options.option(
      int, "Seed of the data and the clustering, which is then repeatable and NOT private.", None,
      rule=validate.AT_LEAST_ZERO,
      default_text="seed 0 for the data, and secure noise",
  )

  def to_json(self) -> dict[str, Any]:
    found = {**super().to_json(), "delta": DELTA}
    for name in ("fixed_epsilon", "epsilon_to_try"):  # JSON has no infinity.
      one = found[name]
      found[name] = list(map(_plain, one)) if isinstance(one, list) else _plain(one)
    return found


def _plain(value: float) -> float | str:
  return value if math.isfinite(value) else "inf"
