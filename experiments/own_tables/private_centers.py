"""Private centers as people read them: each number with the noise on it, or "unknown"."""

from __future__ import annotations

import math
from typing import Any, TYPE_CHECKING

import numpy as np

from dp_clustering import private_centers
from experiment_shell import tidy_experiment

if TYPE_CHECKING:
  import pandas as pd

  from fl_clustering import load_model

_UNKNOWN = "unknown"
_COUNT, _COUNT_SD = "noisy_count", "count_sd"
# More columns of the data, or clusters, don't fit on a page.
_MOST_COLUMNS = 15
_MOST_CLUSTERS = 12


def rows(
    model: load_model.SavedModel, noise: private_centers.PrivateCenters
) -> tuple[list[str], list[list[Any]]]:
  """Returns the header of a file of private centers, and its rows, one for every cluster."""
  names = model.tables.feature_names
  header = ["cluster", _COUNT, _COUNT_SD, *names, *(f"noise_sd of {name}" for name in names)]
  cells = np.where(model.are_known, noise.centers.astype(object), _UNKNOWN)
  columns = (noise.noisy_counts, noise.count_sd, *cells.T, *noise.noise_sd.T)
  return header, [[k, *row] for k, row in enumerate(zip(*columns))]


def _text(value: float, noise_sd: float) -> str:
  """Returns a number and its noise, which has two digits, such as `70.1 ± 0.032`."""
  if math.isnan(value):
    return _UNKNOWN
  digits = 1 - math.floor(math.log10(noise_sd)) if noise_sd > 0 else 6
  return f"{round(value, digits):.12g} ± {float(f'{noise_sd:.2g}'):.12g}"


def frame(table: pd.DataFrame) -> pd.DataFrame:
  """Returns the frame of `TABLE`, which has a column for every cluster, from a file of `rows`."""
  import pandas as pd  # It takes long to import.  pylint: disable=g-import-not-at-top

  # By place, because the user's columns may have our names.
  clusters = table.iloc[:_MOST_CLUSTERS, 1:].replace(_UNKNOWN, "nan").to_numpy(float)
  num_columns = (clusters.shape[1] - 2) // 2
  names = [_COUNT, *table.columns[3 : 3 + num_columns]]
  values = clusters[:, [0, *range(2, 2 + num_columns)]]
  noise_sd = clusters[:, [1, *range(2 + num_columns, 2 + 2 * num_columns)]]
  shown = [
      [name, *map(_text, *pair)]
      for name, *pair in zip(names[: 1 + _MOST_COLUMNS], values.T, noise_sd.T)
  ]
  return pd.DataFrame(shown, columns=["column", *map(str, range(len(clusters)))])


TABLE = tidy_experiment.Table(
    "centroids", "Private centers in the data's units",
    "A column for every cluster. Behind ± is the standard deviation of the noise that was added: "
    "it is no confidence interval, as which rows there are is not in it. Unknown: that "
    f"exceeds {private_centers.LARGEST_NOISE:g} of the range of the column, or the noisy count of "
    f"rows is below {private_centers.LEAST_COUNT:g} of its standard deviations. At most "
    f"{_MOST_COLUMNS} columns of the data and {_MOST_CLUSTERS} clusters; `centroids.csv` has all.",
    is_text=True, printed=True,
)
