"""The settings of the benchmark of private clustering: everything that changes its numbers."""

import dataclasses

from clustering_basics import validate
from experiments.private import data
from experiments.private import methods


@dataclasses.dataclass(frozen=True)
class BenchmarkConfig:
  """The settings of a benchmark, checked when made.

  Attributes:
    datasets: Keys of `data.DATASETS`.
    methods: Keys of `methods.LABELS`.
    k_to_try: Numbers of clusters, at epsilon `fixed_epsilon`.
    fixed_epsilon: The epsilon of the private methods for `k_to_try`.
    epsilon_to_try: Values of epsilon, with `fixed_k` clusters; may be empty.
    fixed_k: Number of clusters for `epsilon_to_try`.
    delta: The delta of the methods that have one.
    runs: Runs of each method for each data set, k and epsilon, with different noise.
    seed: Seed of all randomness: data and noise.
  """

  datasets: tuple[str, ...] = tuple(data.KNOWN)
  methods: tuple[str, ...] = methods.CENTRAL
  k_to_try: tuple[int, ...] = (2, 4, 8, 16, 32, 64)
  fixed_epsilon: float = 1.0
  epsilon_to_try: tuple[float, ...] = (0.25, 0.5, 1.0, 2.0, 4.0)
  fixed_k: int = 16
  delta: float = 1e-6
  runs: int = 2
  seed: int = 0

  def __post_init__(self):
    for name in ("datasets", "methods", "k_to_try", "epsilon_to_try"):
      values = getattr(self, name)
      if len(set(values)) != len(values):
        raise validate.error(name, "name nothing twice", list(values))
      if not values and name != "epsilon_to_try":
        raise validate.error(name, "have at least one value", [])
    for dataset in self.datasets:
      validate.one_of(data.DATASETS, datasets=dataset)
    for method in self.methods:
      validate.one_of(methods.LABELS, methods=method)
    for k in self.k_to_try:
      validate.integer(1, k_to_try=k)
    for epsilon in self.epsilon_to_try:
      validate.positive(epsilon_to_try=epsilon)
    validate.positive(fixed_epsilon=self.fixed_epsilon)
    validate.integer(1, fixed_k=self.fixed_k)
    validate.between(0, 1, delta=self.delta)
    validate.integer(1, runs=self.runs)
    validate.integer(0, seed=self.seed)

  def to_json(self):
    """Returns the settings as a dict for JSON."""
    return {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in dataclasses.asdict(self).items()
    }
