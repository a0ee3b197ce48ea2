"""Checks that the clients' views fit together, and puts them side by side."""

import collections.abc
import dataclasses

import numpy as np

from clustering_basics import validate
from dp_clustering import clustering_params
from fl_clustering.points import client_points


@dataclasses.dataclass(frozen=True, eq=False)
class ClientViews:
  """Points of several clients, seen in the same views.

  Attributes:
    points: A mapping from client id to float64 of shape (n, D), the views' columns
      side by side, in the order of the ids.
    widths: The views' numbers of columns, which sum to D.
  """

  points: dict[str, np.ndarray]
  widths: tuple[int, ...]

  @property
  def num_points(self):
    return sum(map(len, self.points.values()))


def _check_present(view, name):
  if view is None:
    raise ValueError(
        f"{name} must be there: every client needs every view, clients without one are "
        "not supported, got None."
    )


def _view(view, name, num_columns):
  """Returns one view as float64 of shape (n, d)."""
  _check_present(view, name)
  return client_points.checked_points(view, name, num_columns)


def _view_list(views, name):
  """Returns a client's views, or raises an error if they are no list of them."""
  if isinstance(views, np.ndarray) or not isinstance(views, collections.abc.Sequence):
    raise TypeError(
        f"{name} must be a list of arrays, one per view, got {type(views).__name__}."
    )
  if not len(views):
    raise ValueError(f"{name} must have at least one view, got none.")
  return views


def joined_views(views, name, widths=None, view_names=None):
  """Returns one client's views side by side, and their widths.

  Args:
    views: A sequence of arrays of shape (n, d_h).
    name: What the messages call it.
    widths: What the widths must be, if that is known.
    view_names: What the messages call the views; their positions by default.

  Returns:
    float64 of shape (n, D), and a tuple of widths.

  Raises:
    TypeError: If `views` is no sequence of arrays of real numbers.
    ValueError: If the views don't fit together, or to `widths`.
  """
  _view_list(views, name)
  if widths is not None and len(views) != len(widths):
    raise ValueError(f"{name} must have {len(widths)} views as the others, got {len(views)}.")
  called = list(range(len(views)) if view_names is None else view_names)
  where = [f"{name}, view {view!r}," for view in called]
  arrays = list(map(_view, views, where, widths or [None] * len(views)))
  for index, array in enumerate(arrays):
    if len(array) != len(arrays[0]):
      raise ValueError(
          f"{where[index]} must have {len(arrays[0])} rows as view {called[0]!r} has, got "
          f"{len(array)}."
      )
  return np.concatenate(arrays, axis=1), tuple(array.shape[1] for array in arrays)


def _checked_mapping(clients):
  """Returns the clients in the order of their ids, or raises an error."""
  if not isinstance(clients, collections.abc.Mapping):
    raise TypeError(
        "`clients` must be a mapping from client id to a list of views, got "
        f"{type(clients).__name__}."
    )
  if not clients:
    raise ValueError("`clients` must have at least one client, got none.")
  for client_id in clients:
    client_points.check_id(client_id)
  return client_points.sorted_by_id(clients)


def check_clients(clients, num_clusters, view_names=None):
  """Returns `ClientViews` of what the user gave.

  Args:
    clients: A mapping from client id to a list of arrays of shape (n, d_h), one per
      view; n may differ between clients, the views must not.
    num_clusters: The number of clusters, at most the number of all points.
    view_names: What the messages call the views; their positions by default.

  Raises:
    TypeError: If it is not such a mapping, or an id is no string.
    ValueError: If the clients' views don't fit together, or there are too few points.
  """
  points, widths = {}, None
  for client_id, views in _checked_mapping(clients).items():
    name = f"`clients`[{client_id!r}]"
    points[client_id], widths = joined_views(views, name, widths, view_names)
  client_views = ClientViews(points, widths)
  if client_views.num_points < num_clusters:
    raise validate.error(
        "n_clusters", f"be at most the {client_views.num_points} points of all clients",
        num_clusters,
    )
  return client_views


def _private_view(view, name, width):
  """Returns one view as float64 of shape (n, d), with whatever its rows hold."""
  _check_present(view, f"`{name}`")
  array = clustering_params.numeric_array(name, view, 2)
  if array.shape[1] != width or not width:
    raise ValueError(
        f"`{name}` must have the same number of columns at every client, at least one, got "
        f"{array.shape[1]} and {width}."
    )
  with np.errstate(over="ignore"):  # In wider types, numbers may be too large for float64.
    return array.astype(np.float64)


def check_private_clients(clients):
  """Returns `ClientViews` of what the user gave, of whatever content.

  Only what is public is checked: types, and numbers of views and columns.  An error that
  depends on the rows could tell whether a row is there.

  Args:
    clients: As for `check_clients`; a client may have no rows.

  Raises:
    TypeError: If it is not such a mapping of numbers, or an id is no string.
    ValueError: If the clients' views don't fit together.
  """
  clients = _checked_mapping(clients)
  first_id = next(iter(clients))
  first = map(clustering_params.unmasked, _view_list(clients[first_id], f"`clients`[{first_id!r}]"))
  widths = tuple(view.shape[-1] if view.ndim == 2 else 0 for view in first)
  points = {}
  for client_id, views in clients.items():
    name = f"`clients`[{client_id!r}]"
    if len(_view_list(views, name)) != len(widths):
      raise ValueError(f"{name} must have {len(widths)} views as the others, got {len(views)}.")
    arrays = [
        _private_view(view, f"clients[{client_id!r}][{index}]", width)
        for index, (view, width) in enumerate(zip(views, widths))
    ]
    if len(set(map(len, arrays))) > 1:  # How many is private.
      raise ValueError(f"{name} must have the same number of rows in every view.")
    points[client_id] = np.concatenate(arrays, axis=1)
  return ClientViews(points, widths)
