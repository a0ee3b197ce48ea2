"""Figures of the clusters: the clients' weights, distances and labels."""

from typing import Any, Callable, Mapping, Sequence

import matplotlib
from matplotlib import axes as mpl_axes
from matplotlib import axis as mpl_axis
from matplotlib import cm
from matplotlib import colors as mpl_colors
from matplotlib import image as mpl_image
from matplotlib import lines
from matplotlib import patches
import numpy as np
from scipy.spatial import distance
from sklearn import decomposition

from experiment_shell import figure_style
from experiments.three_phase import method_looks
from experiments.three_phase import method_names
from experiments.three_phase import results as results_lib
from fl_clustering.methods import cluster_assignment
from fl_clustering.methods import distances as distances_lib

_MAX_POINTS = 1000
# Of more clients, few enough are shown that each one can be seen.
_MAX_MATRIX_CLIENTS, _MATRIX_CLIENTS_OF_MORE = 400, 200
_MAX_BARS, _BARS_OF_MORE = 300, 100
_MAX_SEPARATED_CLUSTERS = 50
_MAX_LEGEND_CLUSTERS = 9
_MAX_NAMED_LABELS = 40
_MAX_NAME = 32  # Characters of a label's name.
_KEY_WIDTH, _KEY_ROW = 80, 0.2  # Characters of a line of the key, and its inches.
_LABEL_COLORS = (*figure_style.CATEGORY_COLORS, "#bbbbbb")
_MARKERS = "osD^vPX*"
_REPRESENTATIONS = {
    "weights": "weights",
    "update": "weight updates",
    "normalized_update": "weight updates scaled to length 1",
}


def _at_most(items: list, limit: int, of_more: int) -> list:
  """Returns all items, or `of_more` evenly spaced ones if they are more than `limit`."""
  return items if len(items) <= limit else figure_style.evenly_spaced(items, of_more)


def _thinned(results: results_lib.Results, limit: int, of_more: int) -> tuple[list[str], str]:
  """Returns all client ids, or `of_more` if they are more than `limit`, with a note of it."""
  shown = _at_most(results.client_ids, limit, of_more)
  if len(shown) == results.num_clients:
    return shown, ""
  return shown, f"shown: {len(shown):,} of {results.num_clients:,} clients, evenly spaced"


def _cluster_word(name: str) -> str:
  return "group" if name == results_lib.TRUE_GROUPS else "cluster"


def _panel_title(name: str, assignment: cluster_assignment.ClusterAssignment) -> str:
  num_clusters = len(assignment.clusters)
  if name == results_lib.TRUE_GROUPS:
    return f"{name}: {num_clusters}"
  label = method_names.method_label(name)
  return f"{label}: {num_clusters} cluster{'' if num_clusters == 1 else 's'}"


def _looks(assignment: cluster_assignment.ClusterAssignment) -> dict[int, method_looks.Look]:
  """Returns colour and marker of the clusters: of all, or of the largest of very many."""
  clusters, colors = assignment.clusters, figure_style.CATEGORY_COLORS
  colored = list(range(len(clusters)))
  if len(clusters) > len(colors) * len(_MARKERS):
    largest = sorted(colored, key=lambda k: -len(clusters[k]))
    colored = sorted(largest[:_MAX_LEGEND_CLUSTERS])
  return {
      k: {"color": colors[i % len(colors)], "marker": _MARKERS[i // len(colors)]}
      for i, k in enumerate(colored)
  }


def _scatter(
    axes: mpl_axes.Axes, points: np.ndarray, client_ids: Sequence[str], name: str,
    assignment: cluster_assignment.ClusterAssignment,
) -> None:
  """Draws one panel of `client_weights`."""
  main = results_lib.main_clusters(assignment)
  of_clients = np.array([main[client_id] for client_id in client_ids])
  counts = np.array([len(assignment.clusters_of(client_id)) for client_id in client_ids])
  looks = _looks(assignment)
  base_size = 22 if len(client_ids) <= 200 else 10
  sizes = base_size * (1 + 2 * (counts - 1) / max(counts.max() - 1, 1))
  others = ~np.isin(of_clients, list(looks))
  axes.scatter(
      points[others, 0], points[others, 1], s=sizes[others], color=figure_style.QUIET,
      linewidths=0, alpha=0.35,
  )
  handles = []
  for index, look in looks.items():
    chosen = of_clients == index
    axes.scatter(
        points[chosen, 0], points[chosen, 1], s=sizes[chosen], edgecolors="white", linewidths=0.4,
        alpha=0.85, **look,
    )
    handles.append(lines.Line2D(
        [], [], linestyle="", markersize=5, label=f"{index} ({len(assignment.clusters[index]):,})",
        **look,
    ))
  if len(looks) <= _MAX_LEGEND_CLUSTERS:
    axes.legend(
        handles=handles, title=f"{_cluster_word(name)} (clients)",
        loc="upper center", bbox_to_anchor=(0.5, -0.08), ncols=3, handletextpad=0.1,
        columnspacing=0.9, fontsize=8, title_fontsize=8,
    )
  title = [_panel_title(name, assignment)]
  if assignment.overlapping:
    title.append("colour: a client's largest cluster")
    title.append(f"size: in how many it is ({counts.min()} to {counts.max()})")
  if len(looks) > _MAX_LEGEND_CLUSTERS:
    title.append("one colour and shape per cluster")
  if len(looks) < len(assignment.clusters):
    title.append(f"coloured: the {len(looks)} largest clusters")
  axes.set_title("\n".join(title), loc="left", fontsize=9)


def _principal_components(vectors: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
  """Returns points of shape (num_clients, 2) and the two shares of the variance."""
  vectors = vectors - vectors.mean(axis=0)
  if len(vectors) < 2 or not vectors.any():
    return np.zeros((len(vectors), 2)), np.zeros(2)
  pca = decomposition.PCA(
      n_components=min(2, *vectors.shape), svd_solver="randomized", random_state=0
  )
  points = pca.fit_transform(vectors)
  missing = 2 - points.shape[1]
  return (
      np.pad(points, ((0, 0), (0, missing))),
      np.pad(pca.explained_variance_ratio_, (0, missing)),
  )


def client_weights(results: results_lib.Results) -> figure_style.Figure | None:
  """Returns the clients' weights in two dimensions; None if no weights were kept."""
  client_ids, note = _thinned(results, _MAX_POINTS, _MAX_POINTS)
  vectors = results.vectors(client_ids)
  if vectors is None:
    return None
  points, variance = _principal_components(vectors)
  partitions = results.partitions
  num_panels = max(1, len(partitions))
  figure = figure_style.new_figure(1.0 + 3.7 * -(-num_panels // 2))
  panels = figure_style.panel_grid(figure, num_panels)
  for axes, (name, assignment) in zip(panels, partitions.items()):
    _scatter(axes, points, client_ids, name, assignment)
  if not partitions:
    panels[0].scatter(points[:, 0], points[:, 1], s=22, color=figure_style.QUIET)
  for axes in panels:
    axes.tick_params(labelbottom=False, labelleft=False, length=0)
    axes.spines[["top", "right"]].set_visible(True)
    axes.set_ylabel(f"component 2: {variance[1]:.0%} of variance", fontsize=8.5)
    axes.set_xlabel(f"component 1: {variance[0]:.0%} of variance", fontsize=8.5)
  figure_style.set_title(
      figure, results.data_line,
      f"The clients' {_REPRESENTATIONS[results.representation]} in 2-D (principal components), one "
      "point per client",
      note,
  )
  return figure


def _image(axes: mpl_axes.Axes, distances: np.ndarray) -> mpl_image.AxesImage:
  # The diagonal's zeros mean nothing, and would take up half of the colours.
  between = distances[~np.eye(len(distances), dtype=bool)]
  return axes.imshow(
      distances, cmap="viridis", vmin=between.min(), vmax=between.max(), interpolation="nearest"
  )


def _separate(
    axis: mpl_axis.Axis, clusters: np.ndarray, draw_lines: Sequence[Callable], color: str,
    widths: tuple[float, float],
) -> bool:
  """Names the clusters of ordered clients on an axis, and draws lines between them.

  Args:
    draw_lines: What draws a line at a place of the axis.
    widths: The lines' width, and that of very many lines.

  Returns:
    Whether there are lines; of too many clusters they would hide what is between them.
  """
  stretches = figure_style.blocks(clusters)
  figure_style.set_block_ticks(axis, clusters, stretches)
  if len(stretches) > _MAX_SEPARATED_CLUSTERS:
    return False
  for start, _ in stretches[1:]:
    for draw_line in draw_lines:
      draw_line(start - 0.5, color=color, linewidth=widths[len(stretches) > 12])
  return True


def _draw_distances(
    axes: mpl_axes.Axes, distances: np.ndarray, client_ids: Sequence[str], name: str,
    assignment: cluster_assignment.ClusterAssignment,
) -> mpl_image.AxesImage:
  """Draws one panel of `distance_matrix`; returns the image."""
  main = results_lib.main_clusters(assignment)
  clusters = np.array([main[client_id] for client_id in client_ids])
  order = np.argsort(clusters, kind="stable")
  image = _image(axes, distances[np.ix_(order, order)])
  is_separated = _separate(
      axes.yaxis, clusters[order], (axes.axhline, axes.axvline), "white", (0.9, 0.5)
  )
  axes.set_xticks([])
  axes.set_ylabel(_cluster_word(name))
  title = _panel_title(name, assignment)
  if assignment.overlapping:
    title += "\nby each client's largest cluster"
  if not is_separated:
    title += "\ntoo many clusters for lines between them"
  axes.set_title(title, loc="left", fontsize=9)
  return image


def distance_matrix(results: results_lib.Results) -> figure_style.Figure | None:
  """Returns all distances, ordered by cluster; None if no weights were kept."""
  client_ids, note = _thinned(results, _MAX_MATRIX_CLIENTS, _MATRIX_CLIENTS_OF_MORE)
  vectors = results.vectors(client_ids)
  if vectors is None or len(client_ids) < 2:
    return None
  distances = distance.squareform(distances_lib.METRICS["l2"](vectors))
  partitions = results.partitions
  num_panels = max(1, len(partitions))
  figure = figure_style.new_figure(1.5 + 3.1 * -(-num_panels // 2))
  panels = figure_style.panel_grid(figure, num_panels)
  for axes, (name, assignment) in zip(panels, partitions.items()):
    image = _draw_distances(axes, distances, client_ids, name, assignment)
  if not partitions:
    image = _image(panels[0], distances)
    panels[0].set_xlabel("client, in the order of clients.csv")
    panels[0].set_xticks([])
    panels[0].set_yticks([])
  for axes in panels:
    axes.spines[:].set_visible(False)
  unit = "" if results.representation == "normalized_update" else " (units of the parameters)"
  figure.colorbar(
      image, ax=panels, location="bottom", shrink=0.7, aspect=35,
      label=f"Euclidean distance between {_REPRESENTATIONS[results.representation]}{unit}",
  )
  title = "Distance between every two clients"
  if partitions:
    title += "; white lines separate the clusters"
  figure_style.set_title(figure, results.data_line, title, note)
  return figure


def _label_colors(num_labels: int) -> Sequence:
  if num_labels <= len(_LABEL_COLORS):
    return _LABEL_COLORS[:num_labels]
  return matplotlib.colormaps["viridis"](np.linspace(0, 1, num_labels))


def _draw_bars(axes: mpl_axes.Axes, counts: np.ndarray) -> None:
  """Draws stacked bars without gaps; `counts` of shape (num_clients, num_labels)."""
  edges = np.arange(len(counts) + 1) - 0.5
  # A step lasts until the next edge; the last bar needs its value once more there.
  tops = np.cumsum(np.concatenate([counts, counts[-1:]]), axis=1)
  bottom = np.zeros(len(edges))
  for label, color in enumerate(_label_colors(counts.shape[1])):
    axes.fill_between(edges, bottom, tops[:, label], step="post", color=color, linewidth=0,
                      antialiased=False)
    bottom = tops[:, label]
  axes.set_xlim(edges[0], edges[-1])
  axes.set_ylim(0, tops[:, -1].max() * 1.02)
  axes.set_xticks([])


def _draw_by_cluster(
    axes: mpl_axes.Axes, results: results_lib.Results, clients: Sequence[Mapping[str, Any]],
    name: str, assignment: cluster_assignment.ClusterAssignment,
) -> None:
  """Draws the shares of the labels, ordered by cluster."""
  main = results_lib.main_clusters(assignment)
  ordered = sorted(clients, key=lambda client: main[client["client_id"]])
  counts = np.array([results.label_counts(client) for client in ordered], float)
  _draw_bars(axes, counts / counts.sum(axis=1, keepdims=True))
  clusters = np.array([main[client["client_id"]] for client in ordered])
  is_separated = _separate(axes.xaxis, clusters, (axes.axvline,), "black", (1.4, 0.8))
  axes.set_ylim(0, 1)
  axes.set_ylabel("share of training examples")
  order = f"cluster of {method_names.method_label(name)}"
  if name == results_lib.TRUE_GROUPS:
    order = "true group"
  separation = " (black lines separate them)" if is_separated else ""
  axes.set_xlabel(f"client, by {order}{separation}")


def _has_legend(results: results_lib.Results) -> bool:
  """Returns whether every label has its place in the key; names need more than numbers."""
  named = results.dataset["class_names"] is not None
  return len(results.label_names) <= (_MAX_NAMED_LABELS if named else len(_LABEL_COLORS))


def _key_columns(names: Sequence[str]) -> int:
  """Returns how many labels of the key fit beside each other."""
  return max(1, min(len(_LABEL_COLORS), _KEY_WIDTH // (max(map(len, names)) + 4)))


def _draw_key(
    figure: figure_style.Figure, panels: Sequence[mpl_axes.Axes], results: results_lib.Results
) -> None:
  """Draws the legend of the labels, or a colour bar where they are too many."""
  names = [figure_style.shortened(name, _MAX_NAME) for name in results.label_names]
  title = figure_style.shortened(results.label_word, _KEY_WIDTH)
  if not _has_legend(results):
    scale = cm.ScalarMappable(mpl_colors.Normalize(0, len(names) - 1), "viridis")
    if results.dataset["class_names"] is not None:
      title += " (number in the list class_names of config.json)"
    bar = figure.colorbar(scale, ax=panels, location="bottom", shrink=0.7, aspect=35)
    bar.set_label(title, parse_math=False)
    return
  handles = [patches.Patch(color=color) for color in _label_colors(len(names))]
  legend = figure.legend(
      handles, names, loc="outside lower center", ncols=_key_columns(names), title=title,
      handlelength=1, columnspacing=1,
  )
  for text in (legend.get_title(), *legend.get_texts()):
    text.set_parse_math(False)


def label_mix(results: results_lib.Results) -> figure_style.Figure:
  """Returns the clients' training labels, by size and by cluster."""
  by_size = sorted(results.clients, key=lambda c: (-c["num_train"], c["client_id"]))
  shown = _at_most(by_size, _MAX_BARS, _BARS_OF_MORE)
  # A client in overlapping clusters has no single place in their order.
  by_cluster = [item for item in results.partitions.items() if not item[1].overlapping][:1]
  height = 6.4 if by_cluster else 3.9
  if _has_legend(results):
    names = [name[:_MAX_NAME] for name in results.label_names]
    height += _KEY_ROW * (-(-len(names) // _key_columns(names)) - 1)
  figure = figure_style.new_figure(height)
  panels = list(figure.subplots(1 + len(by_cluster), 1, squeeze=False)[:, 0])
  _draw_bars(panels[0], np.array([results.label_counts(client) for client in shown]))
  panels[0].set_ylabel("training examples")
  panels[0].set_xlabel("client, largest first")
  for axes, (name, assignment) in zip(panels[1:], by_cluster):
    _draw_by_cluster(axes, results, shown, name, assignment)
  _draw_key(figure, panels, results)
  note = ""
  if len(shown) < len(by_size):
    note = f"shown: {len(shown):,} of {len(by_size):,} clients, evenly spaced by size"
  figure_style.set_title(
      figure, results.data_line, "The labels that every client trains on, one bar per client", note
  )
  return figure
