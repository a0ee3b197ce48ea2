"""Measurements as a study would have them, made up."""

from experiments.kmeans import cells
from experiments.kmeans import config
from experiments.kmeans import data

SEEDS = (0, 1)


def sample_rows(figures=config.FIGURES):
  """Returns rows in which a method's inertia grows with its place in its figure."""
  rows, places = [], {}
  for cell in cells.cells(figures, SEEDS):
    place = places.setdefault(cell["method"], len(places))
    rows.append({
        **cell,
        "ari": 0.9 - 0.05 * place + 0.01 * cell["seed"],
        "client_ari": 0.8 - 0.05 * place,
        "inertia": 1000.0 * (1 + 0.02 * place),
        "silhouette": 0.1 if cell["data"] == data.REAL else None,
        "simplified_silhouette": 0.2,
        "rounds": 3 if place else None,
        "bytes_down": 1_000_000 if place else None,
        "bytes_up": 1_500_000 if place else None,
        "local_clusters": None,
        "ari_by_round": "0.7" if cell["seed"] else "0.5 0.6 0.75",
    })
  return rows
