"""Figures of what was clustered: the clients' weights and the distances between them."""

from matplotlib import lines
import numpy as np
from sklearn import decomposition
from sklearn import metrics

from experiment_shell import figure_style
from experiments.three_phase import comparison
from experiments.three_phase import finished_run

_MAX_POINTS = 1000
_MAX_MATRIX_CLIENTS = 400
_MAX_LEGEND_CLUSTERS = 9
_MARKERS = "osD^vPX*"


def _thinned(run, limit):
  """Returns at most `limit` client ids and a note if these are not all."""
  client_ids = [client.client_id for client in run.clients]
  shown = figure_style.evenly_spaced(client_ids, limit)
  if len(shown) == len(client_ids):
    return shown, ""
  return shown, f"shown: {len(shown):,} of {len(client_ids):,} clients, evenly spaced"


def _partition_title(partition):
  num_clusters = len(partition.clusters)
  if partition.name == finished_run.TRUE_GROUPS:
    return f"{finished_run.TRUE_GROUPS}: {num_clusters}"
  label = comparison.method_label(partition.name)
  return f"{label}: {num_clusters} cluster{'' if num_clusters == 1 else 's'}"


def _category_marks(count):
  """Returns (colour, marker) for each of `count` clusters."""
  colors = figure_style.CATEGORY_COLORS
  return [
      (colors[i % len(colors)], _MARKERS[(i // len(colors)) % len(_MARKERS)])
      for i in range(count)
  ]


def _scatter(axes, points, client_ids, partition):
  """Draws one panel of `client_weights`."""
  main = partition.main_clusters()
  memberships = partition.num_memberships()
  of_clients = np.array([main[client_id] for client_id in client_ids])
  counts = np.array([memberships[client_id] for client_id in client_ids])
  marks = _category_marks(len(partition.clusters))
  base_size = 22 if len(client_ids) <= 200 else 10
  sizes = base_size * (1 + 2 * (counts - 1) / max(counts.max() - 1, 1))
  handles = []
  for index, (color, marker) in enumerate(marks):
    chosen = of_clients == index
    axes.scatter(
        points[chosen, 0], points[chosen, 1], s=sizes[chosen], color=color, marker=marker,
        edgecolors="white", linewidths=0.4, alpha=0.85,
    )
    size = len(partition.clusters[index])
    handles.append(lines.Line2D([], [], color=color, marker=marker, linestyle="", markersize=5,
                                label=f"{index} ({size:,})"))
  if len(marks) <= _MAX_LEGEND_CLUSTERS:
    groups = partition.name == finished_run.TRUE_GROUPS
    axes.legend(
        handles=handles, title=f"{'group' if groups else 'cluster'} (clients)",
        loc="upper center", bbox_to_anchor=(0.5, -0.08), ncols=3, handletextpad=0.1,
        columnspacing=0.9, fontsize=8, title_fontsize=8,
    )
  title = [_partition_title(partition)]
  if partition.overlapping:
    title.append("colour: a client's largest cluster")
    title.append(f"size: in how many it is ({counts.min()} to {counts.max()})")
  if len(marks) > _MAX_LEGEND_CLUSTERS:
    title.append("one colour and shape per cluster")
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


def client_weights(run):
  """Returns what was clustered, in two dimensions; None where no weights were kept."""
  client_ids, note = _thinned(run, _MAX_POINTS)
  vectors = run.load_representation(client_ids)
  if vectors is None:
    return None
  points, variance = _principal_components(vectors)
  partitions = run.partitions
  num_panels = max(1, len(partitions))
  figure = figure_style.new_figure(1.0 + 3.7 * -(-num_panels // 2))
  panels = figure_style.panel_grid(figure, num_panels)
  for axes, partition in zip(panels, partitions):
    _scatter(axes, points, client_ids, partition)
  if not partitions:
    panels[0].scatter(points[:, 0], points[:, 1], s=22, color=figure_style.QUIET)
  for axes in panels:
    axes.tick_params(labelbottom=False, labelleft=False, length=0)
    axes.spines[["top", "right"]].set_visible(True)
    axes.set_ylabel(f"component 2: {variance[1]:.0%} of variance", fontsize=8.5)
    axes.set_xlabel(f"component 1: {variance[0]:.0%} of variance", fontsize=8.5)
  figure_style.set_title(
      figure, run.data_line,
      f"The clients' {_representation_name(run)} in 2-D (principal components), one point "
      "per client",
      note,
  )
  return figure


def _representation_name(run):
  return {
      "weights": "weights",
      "update": "weight updates",
      "normalized_update": "weight updates scaled to length 1",
  }[run.representation]


def _draw_distances(axes, distances, client_ids, partition, limits):
  """Draws one panel of `distance_matrix`; returns the image."""
  main = partition.main_clusters()
  clusters = np.array([main[client_id] for client_id in client_ids])
  order = np.argsort(clusters, kind="stable")
  image = axes.imshow(
      distances[np.ix_(order, order)], cmap="viridis", vmin=limits[0], vmax=limits[1],
      interpolation="nearest",
  )
  stretches = figure_style.blocks(clusters[order])
  line_width = 0.9 if len(stretches) <= 12 else 0.5
  for start, _ in stretches[1:]:
    axes.axhline(start - 0.5, color="white", linewidth=line_width)
    axes.axvline(start - 0.5, color="white", linewidth=line_width)
  figure_style.set_block_ticks(axes.yaxis, clusters[order], stretches)
  axes.set_xticks([])
  axes.set_ylabel("group" if partition.name == finished_run.TRUE_GROUPS else "cluster")
  title = _partition_title(partition)
  if partition.overlapping:
    title += "\nby each client's largest cluster"
  axes.set_title(title, loc="left", fontsize=9)
  return image


def distance_matrix(run):
  """Returns all distances, ordered by cluster; None where no weights were kept."""
  client_ids, note = _thinned(run, _MAX_MATRIX_CLIENTS)
  vectors = run.load_representation(client_ids)
  if vectors is None or len(client_ids) < 2:
    return None
  distances = metrics.pairwise.euclidean_distances(vectors)
  # The zeros of the diagonal say nothing and would take up half of the colours.
  between = distances[~np.eye(len(distances), dtype=bool)]
  limits = between.min(), between.max()
  partitions = run.partitions
  num_panels = max(1, len(partitions))
  figure = figure_style.new_figure(1.5 + 3.1 * -(-num_panels // 2))
  panels = figure_style.panel_grid(figure, num_panels)
  for axes, partition in zip(panels, partitions):
    image = _draw_distances(axes, distances, client_ids, partition, limits)
  if not partitions:
    image = panels[0].imshow(
        distances, cmap="viridis", vmin=limits[0], vmax=limits[1], interpolation="nearest"
    )
    panels[0].set_xlabel("client, in the order of clients.csv")
    panels[0].set_xticks([])
    panels[0].set_yticks([])
  for axes in panels:
    axes.spines[:].set_visible(False)
  figure.colorbar(
      image, ax=panels, location="bottom", shrink=0.7, aspect=35,
      label=f"Euclidean distance between {_representation_name(run)} (units of the parameters)",
  )
  title = "Distance between every two clients"
  if partitions:
    title += "; white lines separate the clusters"
  figure_style.set_title(figure, run.data_line, title, note)
  return figure
