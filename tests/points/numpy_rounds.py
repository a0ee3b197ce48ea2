"""Sums that this process computes, for tests of what is asked and of what comes of it.

TFF takes seconds for every shape that is new.  Here the clients' files are read as TFF's clients
read them, and NumPy answers `SumQuery`s: the same bits (`tests/kmeans/sum_kinds_test.py`,
`tests/points/federated_points_test.py`, `tests/multiview/sums_test.py`).
"""

from unittest import mock

import numpy as np

from fl_clustering.points import federated_points
from fl_clustering.points import grid_scaling


def _totals(points, query, draw_share=None, limits=None):
  """Stands in for `FederatedPoints.totals`."""
  num_groups, width = query.shape
  total = np.zeros((num_groups, width), np.int64)
  for client in points.files.clients():
    rows = np.rint(points.files.source.read(client).numpy())
    groups, values = query.kind.contributions(np, rows, query.arrays)
    own = np.zeros_like(total)
    np.add.at(own, groups, values.astype(np.int64))
    if limits is not None:
      own = federated_points.within_limits(own, query.by_column(limits)).numpy()
    total += own
    if draw_share is not None:
      total += draw_share()
  return total


def _grid_total(files, answer):
  """Stands in for `grid_scaling.total`."""
  return sum(answer(files.source.read(client)).numpy() for client in files.clients())


def install(add_cleanup):
  """Makes fits compute so, until what `add_cleanup` belongs to ends: a module, a class, a test."""
  for owner, name, stand_in in (
      (federated_points.FederatedPoints, "totals", _totals), (grid_scaling, "total", _grid_total)
  ):
    patch = mock.patch.object(owner, name, stand_in)
    patch.start()
    add_cleanup(patch.stop)
