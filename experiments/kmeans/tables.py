"""The tables of the report: ours beside what the sources print."""

from experiments.kmeans import cells
from experiments.kmeans import methods
from experiments.kmeans import published
from experiments.kmeans import real_data

_ABSENT = "–"


def _text(score, form=".3f"):
  return _ABSENT if score is None else score.text(form)


def _printed(value):
  if value is None:
    return _ABSENT
  return f"{value[0]:.3f} ± {value[1]:.3f}" if isinstance(value, tuple) else f"{value:.3f}"


def _label(method):
  entry = methods.METHODS[method]
  return f"{entry.label} ({entry.note})" if entry.note else entry.label


def _shown_methods(results, data):
  return [method for method in methods.METHODS if results.has(data, method)]


def ari_rows(results, data, paper):
  """Returns header and rows of one data set's scores.

  Args:
    results: `Results`.
    data: Name of the data.
    paper: A mapping from method to what the paper reports.
  """
  header = ["method", "paper (per client)", "per client", "pooled", "inertia over central, %"]
  rows = [
      [
          _label(method),
          _printed(paper.get(method)),
          _text(results.score(data, method, "client_ari")),
          _text(results.score(data, method, "ari")),
          _text(results.excess(data, method), ".2f"),
      ]
      for method in _shown_methods(results, data)
  ]
  return header, rows


def regular_paper(beta):
  """Returns what the paper reports for the regular grid, by method."""
  return {method: values.get((beta, 1.0)) for method, values in published.ARI.items()}


def extreme_paper(noise):
  """Returns what the paper reports for the extreme split, by method."""
  return published.EXTREME_ARI if noise == 1.0 else {}


def noise_rows(results, points):
  """Returns header and rows of the pooled ARI over noise, for one number of points."""
  header = ["beta, method", *(f"{noise:g}" for noise in cells.NOISES), "paper at 1, 1.5"]
  rows = []
  for beta in cells.BETAS:
    for method in ("central", "fkm_lloyd", "fkm", "kfed"):
      printed = [
          _printed(published.ARI.get(method, {}).get((beta, noise))) for noise in (1.0, 1.5)
      ]
      scores = [
          results.score(cells.grid_name(beta, points, noise), method, "ari")
          for noise in cells.NOISES
      ]
      rows.append([
          f"{beta:g}, {methods.METHODS[method].label}", *map(_text, scores), ", ".join(printed)
      ])
  return header, rows


def real_rows(results):
  """Returns header and rows of the real data's scores."""
  header = [
      "method", "silhouette", "simplified silhouette", "inertia over central, %", "ARI",
      "MB down per client", "MB up per client",
  ]
  rows = []
  for method in _shown_methods(results, cells.REAL):
    sent = [results.score(cells.REAL, method, f"bytes_{way}") for way in ("down", "up")]
    rows.append([
        _label(method),
        *(_text(results.score(cells.REAL, method, name), ".4f")
          for name in ("silhouette", "simplified_silhouette")),
        _text(results.excess(cells.REAL, method), ".2f"),
        _text(results.score(cells.REAL, method, "ari")),
        *(_ABSENT if one is None else f"{one.mean / 1e6:.2f}" for one in sent),
    ])
  return header, rows


def sse_rows(results):
  """Returns header and rows of the child/parent table: percent over the central SSE."""
  names = list(real_data.TABLES)
  excess = 100 * (published.CHILD_PARENT_SSE / published.CENTRAL_SSE - 1)
  rows = [["child/parent, in the source, on its own data", *[_ABSENT] * len(names),
           f"{excess:.1f}"]]
  for method in cells.TABLE_METHODS:
    if method == methods.CENTRAL:
      continue
    scores = [results.excess(cells.table_name(name), method) for name in names]
    rows.append([_label(method), *(_text(score, ".2f") for score in scores), _ABSENT])
  central = [
      results.score(cells.table_name(name), methods.CENTRAL, "inertia") for name in names
  ]
  rows.append([
      "central SSE", *(_text(score, ".1f") for score in central), f"{published.CENTRAL_SSE:.1f}"
  ])
  return ["method", *names, "source"], rows


def message_rows(num_clusters, num_columns):
  """Returns header and rows of the bytes of one round, one restart and one client."""
  down, up = 4 * num_clusters * num_columns, 4 * num_clusters * (num_columns + 1)
  return (
      ["message", "bytes"],
      [
          ["centroids to a client, 4 K d", f"{down:,}"],
          ["means or sums with counts from a client, 4 K (d + 1)", f"{up:,}"],
          ["for comparison: one point, 4 d", f"{4 * num_columns:,}"],
      ],
  )
