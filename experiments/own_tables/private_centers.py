"""Private centers as people read them: each number with the noise on it, or "unknown"."""

from __future__ import annotations

import itertools
import math
from typing import Iterable, Sequence, TYPE_CHECKING

import numpy as np

from dp_clustering import private_centers
from experiment_shell import tidy_experiment

if TYPE_CHECKING:
  import pandas as pd

UNKNOWN = "unknown"
_SIZE = "rows"
# More columns of the data, or clusters, don't fit on a page.
_MOST_COLUMNS = 15
_MOST_CLUSTERS = 12


def _text(value: float, noise_sd: float) -> str:
  """Returns a number and its noise, which has two digits, such as `70.1 ± 0.032`."""
  if math.isnan(value):
    return UNKNOWN
  digits = 1 - math.floor(math.log10(noise_sd)) if noise_sd > 0 else 6
  return f"{round(value, digits):.12g} ± {float(f'{noise_sd:.2g}'):.12g}"


def frame(
    names: Sequence[str], centroids: np.ndarray, noise_sd: np.ndarray, noisy_counts: np.ndarray,
    count_sd: np.ndarray,
) -> pd.DataFrame:
  """Returns the table of `TABLE`: a row for every column of the data, a column for every cluster.

  Args:
    names: Of the data's columns.
    centroids: In the data's units, of shape (K, d); NaN where nothing is known.
    noise_sd: Likewise, the standard deviation of the noise on these.
    noisy_counts: Of shape (K,); NaN where nothing is known.
    count_sd: Likewise.
  """
  import pandas as pd  # It takes long to import.  pylint: disable=g-import-not-at-top

  def texts(values: Iterable[float], noise: Iterable[float]) -> list[str]:
    return [_text(*pair) for pair in itertools.islice(zip(values, noise), _MOST_CLUSTERS)]

  rows = [[_SIZE, *texts(noisy_counts, count_sd)]]
  columns = zip(names, centroids.T, noise_sd.T)
  rows += [[name, *texts(*column)] for name, *column in list(columns)[:_MOST_COLUMNS]]
  return pd.DataFrame(rows, columns=["column", *map(str, range(len(rows[0]) - 1))])


TABLE = tidy_experiment.Table(
    "centroids", "Private centers in the data's units",
    "A column for every cluster. Behind ± is the standard deviation of the noise that was added: "
    "it is no confidence interval, as which rows there are is not in it. Unknown: that "
    f"exceeds {private_centers.LARGEST_NOISE:g} of the range of the column, or the noisy number of "
    f"rows is below {private_centers.LEAST_COUNT:g} of its standard deviations. At most "
    f"{_MOST_COLUMNS} columns of the data and {_MOST_CLUSTERS} clusters; `centroids.csv` has all.",
    is_text=True, printed=True,
)
