"""What the measurements come to: scores over the seeds, `summary.json`, and the tables.

All functions take the `Scores` that `read` returns: by data and method, over the seeds.
The tables show the papers' numbers beside ours: pairs of header and rows.
"""

from __future__ import annotations

from typing import Any, Iterable, Mapping

import numpy as np

from experiment_shell import finished_run
from experiment_shell import scores as scores_lib
from experiments.kmeans import cells
from experiments.kmeans import config as config_lib
from experiments.kmeans import data
from experiments.kmeans import methods
from fl_clustering.kmeans import split_and_swap
from fl_clustering.kmeans import sum_kinds

# Garst and Reinders: mean adjusted Rand index of 200 runs, averaged over the clients, by
# (beta, noise); 50 points per cluster.  The central method does not depend on beta.
PUBLISHED_ARI: dict[str, dict[tuple[float, float], float]] = {
    "central": {(beta, noise): value for beta in data.BETAS
                for noise, value in ((1.0, 0.955), (1.5, 0.725))},
    "fkm": {
        (0.1, 1.0): 0.949, (0.1, 1.5): 0.697, (1.0, 1.0): 0.958, (1.0, 1.5): 0.707,
        (10.0, 1.0): 0.957, (10.0, 1.5): 0.709,
    },
    "kfed": {
        (0.1, 1.0): 0.690, (0.1, 1.5): 0.432, (1.0, 1.0): 0.729, (1.0, 1.5): 0.520,
        (10.0, 1.0): 0.852, (10.0, 1.5): 0.607,
    },
}
# The same for the extreme split, noise 1: mean and deviation.
PUBLISHED_EXTREME_ARI = {"fkm": (0.902, 0.053)}

# The child/parent document: sums of squared errors on its own data, eight studies, K = 3.
_CHILD_PARENT_SSE = 1498.2800508864195
_CENTRAL_SSE = 1362.1960103577223

# How far the inertia is above that of central k-means of the same data and seed.
EXCESS = "inertia_excess_percent"
# The inertia over that of the true centers.
LOSS = "inertia_over_true_centers"
_MEASURED = ("ari", "client_ari", "inertia", "silhouette", "simplified_silhouette")
_SUMMARIZED = (*_MEASURED, EXCESS, LOSS)

Table = tuple[list[str], list[list[str]]]


def read(finished: finished_run.FinishedRun) -> scores_lib.Scores:
  return of_rows(finished.rows(config_lib.MEASUREMENTS, text_columns=("ari_by_round",)))


def of_rows(rows: Iterable[Mapping[str, Any]]) -> scores_lib.Scores:
  """Returns the `Scores` of rows with the columns of `cells`, with `EXCESS` and `LOSS`."""
  columns = (*cells.KEYS, *_MEASURED, "bytes_down", "bytes_up", "ari_by_round")
  measured = scores_lib.table(rows, columns, "seed")

  def ratio(method: str) -> np.ndarray:
    of_method = measured[measured["method"] == method]
    inertia = dict(zip(zip(of_method["data"], of_method["seed"]), of_method["inertia"]))
    return measured["inertia"] / [
        inertia.get(pair, np.nan) for pair in zip(measured["data"], measured["seed"])
    ]

  measured[EXCESS] = 100 * (ratio(methods.CENTRAL) - 1)
  measured[LOSS] = ratio(methods.TRUE_CENTERS)
  return scores_lib.Scores(measured, ("data", "method"), "seed")


def ari_by_round(scores: scores_lib.Scores, name: str, method: str) -> list[float]:
  """Returns the mean after each round, up to the last of any seed; fits that ended stay."""
  paths = [
      list(map(float, text.split())) for text in scores.values("ari_by_round", name, method) if text
  ]
  longest = max(map(len, paths), default=0)
  return [
      float(np.mean([path[min(index, len(path) - 1)] for path in paths]))
      for index in range(longest)
  ]


def summary(scores: scores_lib.Scores) -> dict[str, Any]:
  """Returns all scores by data and method, as a dict for JSON."""
  found: dict[str, Any] = {}
  for setting in scores.settings:
    name, method = setting
    spreads = {column: scores.spread(column, *setting) for column in _SUMMARIZED}
    found.setdefault(name, {})[method] = {
        column: {"mean": spread.mean, "sd": spread.sd, "seeds": spread.count}
        for column, spread in spreads.items() if spread is not None
    }
  return found


def methods_of(scores: scores_lib.Scores, name: str) -> list[str]:
  """Returns the methods that were measured on some data, in the registry's order."""
  return [method for method in methods.METHODS if scores.has(name, method)]


def _published_text(value: float | tuple[float, float] | None) -> str:
  if value is None:
    return scores_lib.ABSENT
  return f"{value[0]:.3f} ± {value[1]:.3f}" if isinstance(value, tuple) else f"{value:.3f}"


def _label(method: str) -> str:
  entry = methods.METHODS[method]
  return f"{entry.label} ({entry.note})" if entry.note else entry.label


def published_regular(beta: float) -> dict[str, float | None]:
  """Returns what the paper reports for the regular grid, by method."""
  return {method: values.get((beta, 1.0)) for method, values in PUBLISHED_ARI.items()}


def published_extreme(noise: float) -> dict[str, tuple[float, float]]:
  """Returns what the paper reports for the extreme split, by method."""
  return PUBLISHED_EXTREME_ARI if noise == 1.0 else {}


def ari_rows(scores: scores_lib.Scores, name: str, published: Mapping[str, Any]) -> Table:
  """Returns the scores of some data, and by method what the paper reports."""
  header = ["method", "paper (per client)", "per client", "pooled", "inertia over central, %"]
  rows = [
      [
          _label(method), _published_text(published.get(method)),
          scores.text("client_ari", name, method), scores.text("ari", name, method),
          scores.text(EXCESS, name, method, form=".2f"),
      ]
      for method in methods_of(scores, name)
  ]
  return header, rows


def noise_rows(scores: scores_lib.Scores, points: int) -> Table:
  """Returns the pooled ARI over noise, for one number of points."""
  header = ["beta, method", *(f"{noise:g}" for noise in data.NOISES), "paper at 1, 1.5"]
  rows = []
  for beta in data.BETAS:
    for method in cells.COMPARED:
      published = [PUBLISHED_ARI.get(method, {}).get((beta, noise)) for noise in (1.0, 1.5)]
      names = [data.grid_name(beta, points, noise) for noise in data.NOISES]
      rows.append([
          f"{beta:g}, {methods.METHODS[method].label}",
          *(scores.text("ari", name, method) for name in names),
          ", ".join(map(_published_text, published)),
      ])
  return header, rows


def real_rows(scores: scores_lib.Scores) -> Table:
  header = [
      "method", "silhouette", "simplified silhouette", "inertia over central, %", "ARI",
      "MB down per client", "MB up per client",
  ]
  rows = []
  for method in methods_of(scores, data.REAL):
    sent = [scores.spread(f"bytes_{way}", data.REAL, method) for way in ("down", "up")]
    rows.append([
        _label(method),
        *(scores.text(column, data.REAL, method, form=".4f")
          for column in ("silhouette", "simplified_silhouette")),
        scores.text(EXCESS, data.REAL, method, form=".2f"),
        scores.text("ari", data.REAL, method),
        *(scores_lib.ABSENT if one is None else f"{one.mean / 1e6:.2f}" for one in sent),
    ])
  return header, rows


def sse_rows(scores: scores_lib.Scores) -> Table:
  """Returns the child/parent table: percent over the central SSE."""
  absent = scores_lib.ABSENT

  def texts(method: str, column: str, form: str) -> list[str]:
    return [
        scores.text(column, data.table_name(name), method, form=form) for name in data.TABLES
    ]

  published = 100 * (_CHILD_PARENT_SSE / _CENTRAL_SSE - 1)
  rows = [
      ["child/parent, in the source, on its own data", *[absent] * len(data.TABLES),
       f"{published:.1f}"],
      *([_label(method), *texts(method, EXCESS, ".2f"), absent]
        for method in cells.TABLE_METHODS if method != methods.CENTRAL),
      ["central SSE", *texts(methods.CENTRAL, "inertia", ".1f"), f"{_CENTRAL_SSE:.1f}"],
  ]
  return ["method", *data.TABLES, "source"], rows


def privacy_rows(scores: scores_lib.Scores, noise: float) -> Table:
  """Returns what private fits cost on the grid of some noise, over epsilon."""
  name = data.private_grid_name(noise)
  rows = [
      [kind.label, *(
          scores.text(LOSS, name, methods.private_name(key, epsilon), form=".4f")
          for epsilon in methods.EPSILONS
      )]
      for key, kind in methods.PRIVATE.items()
  ]
  for method in (methods.CENTRAL, methods.DEFAULT):
    text = scores.text(LOSS, name, method, form=".4f")
    rows.append([f"{methods.METHODS[method].label}, no privacy"] + [text] * len(methods.EPSILONS))
  return ["epsilon", *(f"{epsilon:g}" for epsilon in methods.EPSILONS)], rows


def message_rows(num_clusters: int, num_columns: int) -> Table:
  """Returns the bytes of one round, one restart and one client."""
  num_centers = split_and_swap.largest_num_centers(num_clusters)
  sums = 8 * num_centers * sum(sum_kinds.ChildSums(False).widths(num_columns).values())
  return (
      ["message", "bytes"],
      [
          ["sums: centers with directions to a client, 8 M (2 d + 1)",
           f"{8 * num_centers * (2 * num_columns + 1):,}"],
          ["sums: counts and sums of both halves from a client, 8 M (2 d + 2)", f"{sums:,}"],
          ["the others: centroids to a client, 4 K d", f"{4 * num_clusters * num_columns:,}"],
          ["the others: means or sums with counts from a client, 4 K (d + 1)",
           f"{4 * num_clusters * (num_columns + 1):,}"],
          ["for comparison: one point, 4 d", f"{4 * num_columns:,}"],
      ],
  )
