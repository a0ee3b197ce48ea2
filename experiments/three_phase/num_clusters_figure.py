"""A figure of how the number of clusters was chosen."""

from matplotlib import lines
from matplotlib import ticker

from experiment_shell import figure_style

# What a criterion's score is; a criterion that is not here is drawn by its name.
_SCORES = {
    "silhouette": "mean silhouette",
    "eigengap": "gap between eigenvalues",
    "stability": "stability beyond chance",
}
# Criteria that have no score at one cluster: the level is drawn that others must exceed.
_WITH_LEVEL = ("silhouette", "stability")
_SCORE_COLOR = figure_style.METHOD_COLORS["blue"]
_CHOICE_COLOR = figure_style.METHOD_COLORS["vermilion"]


def _draw_criterion(axes, rows, has_level):
  """Draws one panel: the score of every number of clusters, and the choice."""
  scored = rows[1:] if has_level else rows
  axes.plot(
      [row["num_clusters"] for row in scored], [row["score"] for row in scored],
      color=_SCORE_COLOR, marker="o", markersize=4, linewidth=1.5,
  )
  if has_level:
    axes.axhline(rows[0]["score"], color=figure_style.QUIET, linewidth=1.2, linestyle=":")
  for row in rows:
    if row["chosen"]:
      axes.plot(row["num_clusters"], row["score"], marker="o", markersize=11,
                markerfacecolor="none", markeredgecolor=_CHOICE_COLOR, markeredgewidth=1.8)


def _legend(figure):
  figure.legend(
      handles=[
          lines.Line2D([], [], color=_SCORE_COLOR, marker="o", markersize=4, label="score"),
          lines.Line2D([], [], color=figure_style.QUIET, linestyle=":",
                       label="least score for more than one cluster"),
          lines.Line2D([], [], color=_CHOICE_COLOR, marker="o", markersize=11, linestyle="",
                       markerfacecolor="none", markeredgewidth=1.8, label="choice"),
      ],
      loc="outside lower center", ncols=3,
  )


def num_clusters(rows, data_line, decisive=None):
  """Returns the scores of every number of clusters by criterion, the choices marked.

  Args:
    rows: A dict per criterion and number of clusters, with `criterion` (str),
      `num_clusters` (int, from 1), `score` (float) and `chosen` (1 or 0), as of
      `NumClustersChoice.rows`.
    data_line: Description of the data.
    decisive: The criterion whose choice the run uses; `None` = not said.
  """
  criteria = list(dict.fromkeys(row["criterion"] for row in rows))
  figure = figure_style.new_figure(1.6 + 1.75 * len(criteria))
  panels = figure.subplots(len(criteria), 1, squeeze=False, sharex=True)[:, 0]
  for axes, criterion in zip(panels, criteria):
    own_rows = sorted(
        (row for row in rows if row["criterion"] == criterion), key=lambda row: row["num_clusters"]
    )
    _draw_criterion(axes, own_rows, criterion in _WITH_LEVEL)
    choice = next(row["num_clusters"] for row in own_rows if row["chosen"])
    used = " (used by this run)" if criterion == decisive else ""
    axes.set_title(f"{criterion}: {choice}{used}", loc="left")
    axes.set_ylabel(_SCORES.get(criterion, "score"))
    axes.xaxis.set_major_locator(ticker.MaxNLocator(integer=True))
    axes.margins(x=0.04, y=0.16)
    axes.grid(True)
  panels[-1].set_xlabel("number of clusters")
  _legend(figure)
  figure_style.set_title(
      figure, data_line, "What each criterion gives every number of clusters, and what it chooses"
  )
  return figure
