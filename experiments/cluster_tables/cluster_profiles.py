"""What clusters of rows are like: mean and spread of every feature, in the data's units."""

from __future__ import annotations

import dataclasses
from typing import Iterable, Iterator, Mapping, NamedTuple, Sequence, TYPE_CHECKING

from matplotlib import ticker
import numpy as np

from experiment_shell import figure_shapes
from experiment_shell import figure_style
from experiment_shell import tidy_experiment
from fl_clustering.points import grid_scaling

if TYPE_CHECKING:
  from matplotlib.axes import Axes
  import pandas as pd

# The table's name: a file of a run, for `Experiment.read`, and the frame of `FIGURE`.
NAME = "profiles"
COLUMNS = {
    "cluster": int, "num_rows": int, "feature": str, "mean": float, "standard_deviation": float,
    "share_explained": float,
}
HEADER = tuple(COLUMNS)
# More features or clusters don't fit on a page.
_MOST_FEATURES = 15
_MOST_CLUSTERS = 12
_MOST_CHARACTERS = 28
# Of the numbers' size: a range in which the rounding of their sum would show.
_NARROW = 1e-12
# Inches of a character, a row, and the colour bar with all labels that are below the rows.
_CHARACTER, _ROW, _BELOW = 0.08, 0.34, 1.3


@dataclasses.dataclass(frozen=True, eq=False)
class Profiles:
  """Moments of K clusters of rows with d features.

  Attributes:
    counts: Numbers of rows, of shape (K,).
    means: Of shape (K, d); NaN for a cluster without rows.
    deviations: Standard deviations, of shape (K, d), likewise.
  """

  counts: np.ndarray
  means: np.ndarray
  deviations: np.ndarray

  @property
  def shares_explained(self) -> np.ndarray:
    """The share of every feature's variance that is between the clusters, of shape (d,)."""
    is_there = self.counts > 0
    total, between = _variances(
        self.means[is_there].T, self.deviations[is_there].T, self.counts[is_there]
    )
    return np.minimum(between / np.where(total > 0, total, 1), 1)


# The count, mean and sum of squared deviations of rows.
_Moments = tuple[int, np.ndarray, np.ndarray]


def _merged(first: _Moments, second: _Moments) -> _Moments:
  """Returns the moments of two groups of rows together."""
  n, mean, squares = first
  m, other_mean, other_squares = second
  if not n:
    return second
  offset = other_mean - mean
  return n + m, mean + offset * m / (n + m), squares + other_squares + offset**2 * n * m / (n + m)


def measure(
    blocks: Iterable[tuple[np.ndarray, np.ndarray]], num_clusters: int, num_features: int
) -> Profiles:
  """Returns the profiles of rows that come in blocks: features (n, d) and clusters (n,)."""
  nothing = (0, np.zeros(num_features), np.zeros(num_features))
  moments = [nothing] * num_clusters
  for features, clusters in blocks:
    for cluster in np.unique(clusters):
      rows = features[clusters == cluster]
      # The sum of equal decimals, or of nearly equal ones, divided by their number, can be a number
      # that is not between them.
      offsets = rows - rows[0]
      is_narrow = np.abs(offsets).max(axis=0) <= _NARROW * np.abs(rows[0])
      mean = np.where(is_narrow, rows[0] + offsets.mean(axis=0), rows.mean(axis=0))
      found = (len(rows), mean, ((rows - mean) ** 2).sum(axis=0))
      moments[cluster] = _merged(moments[cluster], found)
  counts = np.array([n for n, _, _ in moments])
  is_empty = (counts == 0)[:, np.newaxis]
  means = np.where(is_empty, np.nan, [mean for _, mean, _ in moments])
  squares = np.where(is_empty, np.nan, [squares for _, _, squares in moments])
  return Profiles(counts, means, np.sqrt(squares / np.maximum(counts, 1)[:, np.newaxis]))


def rows(
    profiles: Profiles, names: Sequence[str]
) -> Iterator[tuple[int, int, str, float, float, float]]:
  """Yields the rows of a table with `HEADER`; features that tell clusters apart come first."""
  shares = profiles.shares_explained
  for cluster, count in enumerate(profiles.counts):
    for feature in np.argsort(-shares, kind="stable"):
      if count:
        yield (
            cluster, int(count), names[feature], float(profiles.means[cluster, feature]),
            float(profiles.deviations[cluster, feature]), float(shares[feature]),
        )


def _overall(
    means: np.ndarray, deviations: np.ndarray, counts: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
  """Returns mean and deviation of all rows, from clusters' (d, K); zero if that is rounding."""
  weights = counts / counts.sum()
  overall = means @ weights
  offsets = means - overall[:, np.newaxis]
  deviation = np.sqrt((deviations**2 + offsets**2) @ weights)
  return overall, np.where(deviation > grid_scaling.rounding(overall), deviation, 0)


def _variances(
    means: np.ndarray, deviations: np.ndarray, counts: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
  """Returns variances of all rows and between clusters, (d,); zero where they are rounding."""
  overall, deviation = _overall(means, deviations, counts)
  between = (means - overall[:, np.newaxis]) ** 2 @ (counts / counts.sum())
  return deviation**2, np.where(deviation > 0, between, 0)


def _scores(means: np.ndarray, deviations: np.ndarray, counts: np.ndarray) -> np.ndarray:
  """Returns how far clusters' means are from that of all rows, in standard deviations, (d, K)."""
  overall, deviation = _overall(means, deviations, counts)
  unit = np.where(deviation > 0, deviation, np.inf)
  return (means - overall[:, np.newaxis]) / unit[:, np.newaxis]


def _by_cluster(found: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame, pd.Series]:
  """Returns clusters' means and deviations, of shape (d, K), and numbers of rows, from the table.

  Features and clusters are in the table's order.
  """
  cells = found.pivot_table(index="feature", columns="cluster", aggfunc="last")
  cells = cells.loc[found["feature"].unique()]
  return cells["mean"], cells["standard_deviation"], cells["num_rows"].iloc[0].astype(int)


def field_variances(
    found: pd.DataFrame, field_of: Mapping[str, str], standardize: bool
) -> pd.DataFrame:
  """Returns the variance of every field, `total`, and `between` the clusters, from the table.

  Args:
    field_of: The fields of features that are levels; every other feature is one.
    standardize: Whether every field counts in units of its standard deviation, as in a fit.
  """
  import pandas as pd  # It takes long to import.  pylint: disable=g-import-not-at-top

  means, deviations, counts = _by_cluster(found)
  total, between = _variances(means.to_numpy(), deviations.to_numpy(), counts.to_numpy())
  variances = pd.DataFrame({
      "field": [field_of.get(name, name) for name in means.index],
      "total": total, "between": between,
  }).groupby("field", sort=False).sum()
  if not standardize:
    return variances
  return variances.div(variances["total"], axis=0).fillna(0)  # A constant field has no unit.


def explained(variances: pd.DataFrame) -> pd.DataFrame:
  """Returns how much each field contributes to what clusters explain, and how much they explain.

  The largest contributions come first.  Fields of which nothing is explained are left out,
  and so are the last of many.

  Args:
    variances: From `field_variances`.
  """
  found = variances[variances["between"] > 0]
  found = found.sort_values("between", ascending=False, kind="stable").assign(
      contribution=lambda one: one["between"] / one["between"].sum(),
      share_explained=lambda one: one["between"] / one["total"],
  )
  shown = found[["contribution", "share_explained"]].head(_MOST_FEATURES)
  return shown.reset_index()


class _Layout(NamedTuple):
  """What a figure shows: for features and clusters, scores and the texts on them.

  Attributes:
    labels: Of the clusters.
    row: Inches of a row.
    is_upright: Whether texts are turned, because they would overlap.
  """

  scores: pd.DataFrame
  numbers: list[list[str]]
  labels: list[str]
  row: float
  is_upright: bool


def _number_text(number: float) -> str:
  """Returns a number of three digits, or all before the point, such as `1,105`."""
  return f"{number:,.0f}" if 1e3 <= abs(number) < 1e6 else f"{number:.3g}"


def _layout(found: pd.DataFrame) -> _Layout:
  means, deviations, counts = _by_cluster(found)
  scores = means.copy()
  scores[:] = _scores(means.to_numpy(), deviations.to_numpy(), counts.to_numpy())
  clusters = found["cluster"].unique()[:_MOST_CLUSTERS]
  scores, means = (one[clusters].iloc[:_MOST_FEATURES] for one in (scores, means))
  # A column's view has a line of its own.
  scores.index = [
      figure_style.shortened(name, _MOST_CHARACTERS).replace(": ", ":\n", 1)
      for name in scores.index
  ]
  sizes = [f"{count:,}" for count in counts[clusters]]
  numbers = [[_number_text(mean) for mean in row] for row in means.to_numpy()]
  longest = max(len(text) for row in numbers for text in row)
  lines = [line for name in scores.index for line in name.split("\n")]
  room = figure_style.WIDTH - _CHARACTER * max(map(len, lines))
  is_upright = len(sizes) * _CHARACTER * max(longest, *map(len, sizes)) > room
  row = max(_ROW, _CHARACTER * longest) if is_upright else _ROW
  separator = ": " if is_upright else "\n"
  labels = [f"{k}{separator}{size}" for k, size in zip(clusters, sizes)]
  return _Layout(scores, numbers, labels, row, is_upright)


def _height(table: pd.DataFrame) -> float:
  layout = _layout(table)
  labels = _CHARACTER * max(map(len, layout.labels)) if layout.is_upright else 0
  return _BELOW + labels + layout.row * len(layout.scores)


def _draw(table: pd.DataFrame, axes: Axes) -> None:
  """Draws the clusters' means, those of the best features."""
  scores, numbers, labels, _, is_upright = _layout(table)
  limit = max(1.0, scores.abs().to_numpy().max())
  rotation = 90 if is_upright else 0
  image = figure_shapes.heat_map(
      axes, scores, (-limit, limit), "RdBu_r", numbers, rotation=rotation, fontsize=8
  )
  axes.set_xticks(range(len(labels)), labels, rotation=rotation)
  num_clusters = table["cluster"].nunique()
  axes.set_xlabel(
      "cluster, and its number of rows" if num_clusters <= _MOST_CLUSTERS else
      f"cluster (the first {_MOST_CLUSTERS} of {num_clusters}), and its number of rows"
  )
  axes.figure.colorbar(
      image, ax=axes, location="bottom", aspect=40, pad=0.02, ticks=ticker.MaxNLocator(5),
      label="standard deviations\nfrom the mean of all rows",
  )


FIELDS = tidy_experiment.Table(
    "fields", "What the clusters explain, by field",
    "Contribution: the field's part of all variance that the clusters explain, in the units of the "
    "fit. Share explained: the part of its own variance that they explain. At most "
    f"{_MOST_FEATURES} fields.",
    {"field": "{}", "contribution": "{:.0%}", "share_explained": "{:.0%}"},
    printed=True,
)

FIGURE = tidy_experiment.Figure(
    NAME, "Means of the clusters by column",
    "Numbers are means in the data's units, also where a fit standardizes columns; for a level of "
    "a column, the share of the rows that have it. Colours say how far a mean is from that of all "
    "rows. Shown are the columns that tell the clusters apart best, at most "
    f"{_MOST_FEATURES}, and at most {_MOST_CLUSTERS} clusters. Missing cells, where the schema "
    "lets them count as their column's mean, do so here.",
    _draw, height=_height,
)
