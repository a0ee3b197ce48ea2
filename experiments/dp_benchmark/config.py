"""The settings of the benchmark of private clustering: everything that changes its numbers."""

import dataclasses
import functools

from clustering_basics import options
from clustering_basics import validate
from dp_clustering import clustering_params
from experiments.dp_benchmark import data
from experiments.dp_benchmark import methods

_BUDGET = functools.partial(
    validate.within, clustering_params.LEAST_EPSILON, clustering_params.LARGEST_EPSILON
)


@dataclasses.dataclass(frozen=True)
class BenchmarkConfig(options.Settings):
  """The settings of a benchmark, checked when made."""

  datasets: tuple[str, ...] = options.option(
      str,
      "Comma-separated, of: " + ", ".join(data.DATASETS) + ". The constants of refine were never "
      "tuned on " + ", ".join(data.NEW) + ".",
      data.BUNDLED, several=True, values=data.DATASETS,
  )
  methods: tuple[str, ...] = options.option(
      str,
      "Comma-separated, of: " + ", ".join(methods.METHODS) + ". The last two are refine on sums "
      "over clients; the server adds the noise, or every client a share. Data without "
      f"clients are split into {data.NUM_CLIENTS}.",
      methods.CENTRAL, several=True, values=methods.METHODS,
  )
  k_to_try: tuple[int, ...] = options.option(
      int, "Comma-separated numbers of clusters, at --fixed_epsilon.", (2, 4, 8, 16, 32, 64),
      several=True, rule=validate.AT_LEAST_ONE,
  )
  fixed_epsilon: float = options.option(
      float, "The epsilon of the private methods for --k_to_try.", 1.0, rule=_BUDGET
  )
  epsilon_to_try: tuple[float, ...] = options.option(
      float, "Comma-separated values of epsilon, with --fixed_k clusters; may be empty.",
      (0.25, 0.5, 1.0, 2.0, 4.0), several=True, may_be_empty=True, rule=_BUDGET,
  )
  fixed_k: int = options.option(
      int, "Number of clusters for --epsilon_to_try.", 16, rule=validate.AT_LEAST_ONE
  )
  delta: float = options.option(
      float, "The delta of the private methods.", 1e-6,
      rule=functools.partial(validate.between, 0, 1),
  )
  runs: int = options.option(
      int, "Runs of each method for each data set, k and epsilon; Google's benchmarks had 20.", 3,
      rule=validate.AT_LEAST_ONE,
  )
  seed: int = options.option(
      int,
      "Seed of all randomness: data and clustering. The noise is repeatable, so nothing here is "
      "private.",
      0, rule=validate.AT_LEAST_ZERO,
  )
