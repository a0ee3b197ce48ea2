"""Figures of the clusters: the clients' weights, distances and labels."""

import matplotlib
from matplotlib import cm
from matplotlib import colors as mpl_colors
from matplotlib import lines
from matplotlib import patches
import numpy as np
from scipy.spatial import distance
from sklearn import decomposition

from experiment_shell import figure_style
from experiments.three_phase import results as results_lib
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


def _at_most(items, limit, of_more):
  """Returns all items, or `of_more` evenly spaced ones if they are more than `limit`."""
  return items if len(items) <= limit else figure_style.evenly_spaced(items, of_more)


def _thinned(results, limit, of_more):
  """Returns all client ids, or `of_more` if they are more than `limit`, with a note of it."""
  client_ids = [client["client_id"] for client in results.clients]
  shown = _at_most(client_ids, limit, of_more)
  if len(shown) == len(client_ids):
    return shown, ""
  return shown, f"shown: {len(shown):,} of {len(client_ids):,} clients, evenly spaced"


def _cluster_word(name):
  return "group" if name == results_lib.TRUE_GROUPS else "cluster"


def _panel_title(name, assignment):
  num_clusters = len(assignment.clusters)
  if name == results_lib.TRUE_GROUPS:
    return f"{name}: {num_clusters}"
  label = results_lib.method_label(name)
  return f"{label}: {num_clusters} cluster{'' if num_clusters == 1 else 's'}"


def _category_marks(count):
  """Returns (colour, marker) for each of `count` clusters."""
  colors = figure_style.CATEGORY_COLORS
  return [
      (colors[i % len(colors)], _MARKERS[(i // len(colors)) % len(_MARKERS)])
      for i in range(count)
  ]


def _colored_clusters(assignment):
  """Returns the clusters that have a mark of their own: all, or the largest of very many."""
  clusters = assignment.clusters
  if len(clusters) <= len(figure_style.CATEGORY_COLORS) * len(_MARKERS):
    return range(len(clusters))
  largest = sorted(range(len(clusters)), key=lambda k: -len(clusters[k]))
  return sorted(largest[:_MAX_LEGEND_CLUSTERS])


def _scatter(axes, points, client_ids, name, assignment):
  """Draws one panel of `client_weights`."""
  main = results_lib.main_clusters(assignment)
  of_clients = np.array([main[client_id] for client_id in client_ids])
  counts = np.array([len(assignment.clusters_of(client_id)) for client_id in client_ids])
  colored = _colored_clusters(assignment)
  marks = _category_marks(len(colored))
  base_size = 22 if len(client_ids) <= 200 else 10
  sizes = base_size * (1 + 2 * (counts - 1) / max(counts.max() - 1, 1))
  others = ~np.isin(of_clients, colored)
  axes.scatter(
      points[others, 0], points[others, 1], s=sizes[others], color=figure_style.QUIET,
      linewidths=0, alpha=0.35,
  )
  handles = []
  for index, (color, marker) in zip(colored, marks):
    chosen = of_clients == index
    axes.scatter(
        points[chosen, 0], points[chosen, 1], s=sizes[chosen], color=color, marker=marker,
        edgecolors="white", linewidths=0.4, alpha=0.85,
    )
    size = len(assignment.clusters[index])
    handles.append(lines.Line2D([], [], color=color, marker=marker, linestyle="", markersize=5,
                                label=f"{index} ({size:,})"))
  if len(marks) <= _MAX_LEGEND_CLUSTERS:
    axes.legend(
        handles=handles, title=f"{_cluster_word(name)} (clients)",
        loc="upper center", bbox_to_anchor=(0.5, -0.08), ncols=3, handletextpad=0.1,
        columnspacing=0.9, fontsize=8, title_fontsize=8,
    )
  title = [_panel_title(name, assignment)]
  if assignment.overlapping:
    title.append("colour: a client's largest cluster")
    title.append(f"size: in how many it is ({counts.min()} to {counts.max()})")
  if len(marks) > _MAX_LEGEND_CLUSTERS:
    title.append("one colour and shape per cluster")
  if len(colored) < len(assignment.clusters):
    title.append(f"coloured: the {len(colored)} largest clusters")
  axes.set_title("\n".join(title), loc="left", fontsize=9)


def _principal_components(vectors):
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


def client_weights(results):
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
      f"The clients' {_representation_name(results)} in 2-D (principal components), one point "
      "per client",
      note,
  )
  return figure


def _representation_name(results):
  return {
      "weights": "weights",
      "update": "weight updates",
      "normalized_update": "weight updates scaled to length 1",
  }[results.representation]


def _draw_distances(axes, distances, client_ids, name, assignment, limits):
  """Draws one panel of `distance_matrix`; returns the image."""
  main = results_lib.main_clusters(assignment)
  clusters = np.array([main[client_id] for client_id in client_ids])
  order = np.argsort(clusters, kind="stable")
  image = axes.imshow(
      distances[np.ix_(order, order)], cmap="viridis", vmin=limits[0], vmax=limits[1],
      interpolation="nearest",
  )
  stretches = figure_style.blocks(clusters[order])
  line_width = 0.9 if len(stretches) <= 12 else 0.5
  # More lines would hide what is between them.
  is_separated = len(stretches) <= _MAX_SEPARATED_CLUSTERS
  for start, _ in stretches[1:] if is_separated else ():
    axes.axhline(start - 0.5, color="white", linewidth=line_width)
    axes.axvline(start - 0.5, color="white", linewidth=line_width)
  figure_style.set_block_ticks(axes.yaxis, clusters[order], stretches)
  axes.set_xticks([])
  axes.set_ylabel(_cluster_word(name))
  title = _panel_title(name, assignment)
  if assignment.overlapping:
    title += "\nby each client's largest cluster"
  if not is_separated:
    title += "\ntoo many clusters for lines between them"
  axes.set_title(title, loc="left", fontsize=9)
  return image


def distance_matrix(results):
  """Returns all distances, ordered by cluster; None if no weights were kept."""
  client_ids, note = _thinned(results, _MAX_MATRIX_CLIENTS, _MATRIX_CLIENTS_OF_MORE)
  vectors = results.vectors(client_ids)
  if vectors is None or len(client_ids) < 2:
    return None
  distances = distance.squareform(distances_lib.METRICS["l2"](vectors))
  # The diagonal's zeros mean nothing, and would take up half of the colours.
  between = distances[~np.eye(len(distances), dtype=bool)]
  limits = between.min(), between.max()
  partitions = results.partitions
  num_panels = max(1, len(partitions))
  figure = figure_style.new_figure(1.5 + 3.1 * -(-num_panels // 2))
  panels = figure_style.panel_grid(figure, num_panels)
  for axes, (name, assignment) in zip(panels, partitions.items()):
    image = _draw_distances(axes, distances, client_ids, name, assignment, limits)
  if not partitions:
    image = panels[0].imshow(
        distances, cmap="viridis", vmin=limits[0], vmax=limits[1], interpolation="nearest"
    )
    panels[0].set_xlabel("client, in the order of clients.csv")
    panels[0].set_xticks([])
    panels[0].set_yticks([])
  for axes in panels:
    axes.spines[:].set_visible(False)
  unit = "" if results.representation == "normalized_update" else " (units of the parameters)"
  figure.colorbar(
      image, ax=panels, location="bottom", shrink=0.7, aspect=35,
      label=f"Euclidean distance between {_representation_name(results)}{unit}",
  )
  title = "Distance between every two clients"
  if partitions:
    title += "; white lines separate the clusters"
  figure_style.set_title(figure, results.data_line, title, note)
  return figure


def _label_colors(num_labels):
  if num_labels <= len(_LABEL_COLORS):
    return _LABEL_COLORS[:num_labels]
  return matplotlib.colormaps["viridis"](np.linspace(0, 1, num_labels))


def _draw_bars(axes, counts):
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


def _draw_by_cluster(axes, results, clients, name, assignment):
  """Draws the shares of the labels, ordered by cluster."""
  main = results_lib.main_clusters(assignment)
  ordered = sorted(clients, key=lambda client: main[client["client_id"]])
  counts = np.array([results.label_counts(client) for client in ordered], float)
  _draw_bars(axes, counts / counts.sum(axis=1, keepdims=True))
  clusters = np.array([main[client["client_id"]] for client in ordered])
  stretches = figure_style.blocks(clusters)
  line_width = 1.4 if len(stretches) <= 12 else 0.8
  is_separated = len(stretches) <= _MAX_SEPARATED_CLUSTERS
  for start, _ in stretches[1:] if is_separated else ():
    axes.axvline(start - 0.5, color="black", linewidth=line_width)
  figure_style.set_block_ticks(axes.xaxis, clusters, stretches)
  axes.set_ylim(0, 1)
  axes.set_ylabel("share of training examples")
  order = f"cluster of {results_lib.method_label(name)}"
  if name == results_lib.TRUE_GROUPS:
    order = "true group"
  separation = " (black lines separate them)" if is_separated else ""
  axes.set_xlabel(f"client, by {order}{separation}")


def _has_legend(results):
  """Returns whether every label has its place in the key; names need more than numbers."""
  named = results.dataset["class_names"] is not None
  return len(results.label_names) <= (_MAX_NAMED_LABELS if named else len(_LABEL_COLORS))


def _key_columns(names):
  """Returns how many labels of the key fit beside each other."""
  return max(1, min(len(_LABEL_COLORS), _KEY_WIDTH // (max(map(len, names)) + 4)))


def _draw_key(figure, panels, results):
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


def label_mix(results):
  """Returns the clients' training labels, by size and by cluster; None if sites have them."""
  if results.num_sites:
    return None
  by_size = sorted(results.clients, key=lambda c: (-c["num_train"], c["client_id"]))
  shown = _at_most(by_size, _MAX_BARS, _BARS_OF_MORE)
  # A client in overlapping clusters has no single place in their order.
  by_cluster = [item for item in results.partitions.items() if not item[1].overlapping][:1]
  height = 6.4 if by_cluster else 3.9
  if _has_legend(results):
    names = [name[:_MAX_NAME] for name in results.label_names]
    height += _KEY_ROW * (-(-len(names) // _key_columns(names)) - 1)
  figure = figure_style.new_figure(height)
  panels = figure.subplots(1 + len(by_cluster), 1, squeeze=False)[:, 0]
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
