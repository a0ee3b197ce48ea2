"""The figure of the user's own data: which number of clusters was chosen, and why."""

from experiment_shell import figure_style


def k_selection(selection, best):
  """Returns the silhouette over the number of clusters.

  Args:
    selection: Dicts with `num_clusters` and `simplified_silhouette`.
    best: The number that was chosen.
  """
  figure = figure_style.new_figure(3.2)
  axes = figure.add_subplot()
  scores = {row["num_clusters"]: row["simplified_silhouette"] for row in selection}
  numbers = sorted(scores)
  color = figure_style.METHOD_COLORS["blue"]
  axes.plot(numbers, [scores[number] for number in numbers], color=color, marker="o")
  axes.plot(best, scores[best], marker="o", markersize=11, color=color)
  axes.set_xlabel("number of clusters")
  axes.set_ylabel("simplified silhouette")
  axes.xaxis.get_major_locator().set_params(integer=True)
  axes.grid(True)
  figure_style.set_title(figure, "All clients' points", f"The choice of K: {best}")
  return figure
