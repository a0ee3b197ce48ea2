"""Figure of the labels that the clients train on."""

import matplotlib
from matplotlib import cm
from matplotlib import colors as mpl_colors
from matplotlib import patches
import numpy as np

from experiment_shell import figure_style
from experiments.three_phase import comparison
from experiments.three_phase import finished_run

_MAX_BARS = 300
_LABEL_COLORS = (*figure_style.CATEGORY_COLORS, "#bbbbbb")


def _colors(num_labels):
  if num_labels <= len(_LABEL_COLORS):
    return _LABEL_COLORS[:num_labels]
  return matplotlib.colormaps["viridis"](np.linspace(0, 1, num_labels))


def _draw_bars(axes, counts):
  """Draws stacked bars without gaps; `counts` of shape (num_clients, num_labels)."""
  edges = np.arange(len(counts) + 1) - 0.5
  # A step lasts until the next edge; the last bar needs its value once more there.
  tops = np.cumsum(np.concatenate([counts, counts[-1:]]), axis=1)
  bottom = np.zeros(len(edges))
  for label, color in enumerate(_colors(counts.shape[1])):
    axes.fill_between(edges, bottom, tops[:, label], step="post", color=color, linewidth=0,
                      antialiased=False)
    bottom = tops[:, label]
  axes.set_xlim(edges[0], edges[-1])
  axes.set_ylim(0, tops[:, -1].max() * 1.02)
  axes.set_xticks([])


def _draw_by_cluster(axes, clients, partition):
  """Draws the shares of the labels, ordered by cluster."""
  main = partition.main_clusters()
  ordered = sorted(clients, key=lambda client: main[client.client_id])
  counts = np.array([client.train_label_counts for client in ordered], float)
  _draw_bars(axes, counts / counts.sum(axis=1, keepdims=True))
  clusters = np.array([main[client.client_id] for client in ordered])
  stretches = figure_style.blocks(clusters)
  line_width = 1.4 if len(stretches) <= 12 else 0.8
  for start, _ in stretches[1:]:
    axes.axvline(start - 0.5, color="black", linewidth=line_width)
  figure_style.set_block_ticks(axes.xaxis, clusters, stretches)
  axes.set_ylim(0, 1)
  axes.set_ylabel("share of training examples")
  if partition.name == finished_run.TRUE_GROUPS:
    order = "true group"
  else:
    order = f"cluster of {comparison.method_label(partition.name)}"
  axes.set_xlabel(f"client, by {order} (black lines separate them)")


def _draw_key(figure, panels, num_labels):
  """Draws the legend of the labels, or a colour bar where they are many."""
  if num_labels > len(_LABEL_COLORS):
    scale = cm.ScalarMappable(mpl_colors.Normalize(0, num_labels - 1), "viridis")
    figure.colorbar(scale, ax=panels, location="bottom", shrink=0.7, aspect=35, label="label")
    return
  handles = [
      patches.Patch(color=color, label=str(label))
      for label, color in enumerate(_colors(num_labels))
  ]
  figure.legend(handles=handles, loc="outside lower center", ncols=10, title="label",
                handlelength=1, columnspacing=1)


def label_mix(run):
  """Returns the clients' training labels, by size and by cluster."""
  by_size = sorted(run.clients, key=lambda client: (-client.num_train, client.client_id))
  shown = figure_style.evenly_spaced(by_size, _MAX_BARS)
  # A client of overlapping clusters has no one place among them.
  partition = next((p for p in run.partitions if not p.overlapping), None)
  figure = figure_style.new_figure(6.4 if partition else 3.9)
  panels = figure.subplots(2 if partition else 1, 1, squeeze=False)[:, 0]
  _draw_bars(panels[0], np.array([client.train_label_counts for client in shown]))
  panels[0].set_ylabel("training examples")
  panels[0].set_xlabel("client, largest first")
  if partition:
    _draw_by_cluster(panels[1], shown, partition)
  _draw_key(figure, panels, run.dataset["num_classes"])
  note = ""
  if len(shown) < len(by_size):
    note = f"shown: {len(shown):,} of {len(by_size):,} clients, evenly spaced by size"
  figure_style.set_title(
      figure, run.data_line, "The labels that every client trains on, one bar per client", note
  )
  return figure
