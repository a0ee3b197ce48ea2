"""A figure of every method's gain over FedAvg."""

from experiment_shell import figure_style
from experiments.three_phase import comparison
from fl_clustering.three_phase import gains as gains_lib

_VERDICT_COLORS = {
    gains_lib.BETTER: figure_style.METHOD_COLORS["green"],
    gains_lib.WORSE: figure_style.METHOD_COLORS["vermilion"],
    gains_lib.UNCLEAR: figure_style.QUIET,
}


def gains(results):
  """Returns the gain of every method over FedAvg with its interval; None without any."""
  basis = results.summary["comparison"]
  rows = [
      (row.label, row.part["gain"])
      for row in comparison.comparison_rows(results.summary)
      if "gain" in row.part
  ]
  if not rows:
    return None
  figure = figure_style.new_figure(1.6 + 0.36 * len(rows))
  axes = figure.add_subplot()
  axes.axvline(0, color="#1c1e21", linewidth=1)
  for position, (_, gain) in enumerate(rows):
    color = _VERDICT_COLORS[gain["verdict"]]
    if gain["low"] is not None:
      axes.plot(
          [100 * gain["low"], 100 * gain["high"]], [position] * 2, color=color, linewidth=2.4,
          solid_capstyle="butt",
      )
    axes.plot(
        100 * gain["mean"], position, marker="o", markersize=8, color=color,
        markerfacecolor="white" if gain["verdict"] == gains_lib.UNCLEAR else color,
        markeredgewidth=1.8,
    )
    axes.annotate(
        f"{comparison.points(gain['mean'])}  {comparison.VERDICTS[gain['verdict']]}",
        (1.02, position), va="center", xycoords=("axes fraction", "data"), fontsize=9,
    )
  axes.set_yticks(range(len(rows)), [label for label, _ in rows])
  axes.set_ylim(len(rows) - 0.5, -0.5)
  axes.tick_params(axis="y", length=0)
  axes.spines["left"].set_visible(False)
  axes.grid(True, axis="x")
  axes.set_xlabel("gain over FedAvg in percentage points of accuracy")
  note = ""
  if not basis["control_repeats"]:
    note = "about these trained models only: the intervals leave out the chance in training"
  figure_style.set_title(
      figure, results.data_line,
      f"Gain in the clients' mean accuracy over FedAvg, with {basis['level']:.0%} intervals "
      f"for all {basis['num_comparisons']} comparisons together",
      note,
  )
  return figure
