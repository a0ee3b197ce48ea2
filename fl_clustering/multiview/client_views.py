"""Checks that the clients' views fit together, and puts them side by side."""

from __future__ import annotations

import collections.abc
import dataclasses
from typing import Any, Callable, Sequence

import numpy as np

from clustering_basics import validate
from dp_clustering import clustering_params
from fl_clustering.points import given_clients


@dataclasses.dataclass(frozen=True, eq=False)
class ClientViews:
  """Points of several clients, seen in the same views.

  Attributes:
    points: A mapping from client id to float64 of shape (n, D), the views' columns
      side by side, in the order of the ids.
    widths: The views' numbers of columns, which sum to D.
  """

  points: dict[Any, np.ndarray]
  widths: tuple[int, ...]

  @property
  def num_points(self) -> int:
    return sum(map(len, self.points.values()))


def _check_present(view: Any, name: str) -> None:
  if view is None:
    raise ValueError(
        f"{name} must be there: every client needs every view, clients without one are "
        "not supported, got None."
    )


def _view(view: Any, name: str, num_columns: int | None) -> np.ndarray:
  """Returns one view as float64 of shape (n, d)."""
  _check_present(view, name)
  return given_clients.checked_points(view, name, num_columns)


def is_client(value: Any) -> bool:
  """Returns whether a value is meant as one client: a table, which is a view, or a list of them."""
  if given_clients.is_table(value):
    return True
  is_list = isinstance(value, collections.abc.Sequence) and not isinstance(value, str)
  return is_list and any(map(given_clients.is_table, value))


def clients_of(
    given: Any, name: str = "clients", num_views: int | None = None
) -> given_clients.Clients:
  """Returns clients as lists of as many views each; see `given_clients.clients_of`.

  Args:
    num_views: How many views a client must have; the same number as the others by default.

  Raises:
    TypeError: If it is none of these.
    ValueError: If there is no client, or one has no view or another number of them.
  """
  if isinstance(given, given_clients.Clients):
    return given
  clients, by_id = given_clients.clients_of(given, name, is_client), {}
  for client_id, views in clients.by_id.items():
    views = [views] if given_clients.is_table(views) else views
    by_id[client_id] = _view_list(views, clients.label(client_id), num_views)
    num_views = len(by_id[client_id])
  return clients.replaced(by_id)


def of_view(clients: given_clients.Clients, view: int) -> given_clients.Clients:
  """Returns the clients' tables of one view."""
  return dataclasses.replace(
      clients, by_id={client_id: views[view] for client_id, views in clients.by_id.items()},
      part=f", view {view!r},",
  )


def _for_each_view(function: Callable[..., Any], clients: given_clients.Clients) -> list[Any]:
  """Returns a function's value for the clients' tables of every view."""
  views = range(len(next(iter(clients.by_id.values()))))
  return [function(of_view(clients, view)) for view in views]


def _from_views(
    clients: given_clients.Clients, views: Sequence[given_clients.Clients]
) -> given_clients.Clients:
  """Returns the clients with the views of which each has its own clients."""
  return clients.replaced({
      client_id: [view.by_id[client_id] for view in views] for client_id in clients.by_id
  })


def as_arrays(clients: given_clients.Clients) -> given_clients.Clients:
  """Does `given_clients.as_arrays` for every view of what `clients_of` returned."""
  return _from_views(clients, _for_each_view(given_clients.as_arrays, clients))


def aligned(
    clients: given_clients.Clients,
) -> tuple[given_clients.Clients, list[list[str] | None]]:
  """Does `given_clients.aligned` for every view of what `clients_of` returned."""
  views, names = zip(*_for_each_view(given_clients.aligned, clients))
  return _from_views(clients, views), list(names)


def _view_list(views: Any, name: str, num_views: int | None = None) -> Sequence[Any]:
  """Returns a client's views; raises an error if they are no list of so many."""
  if isinstance(views, str) or not isinstance(views, collections.abc.Sequence):
    raise TypeError(
        f"{name} must be a list of arrays, one per view, got {type(views).__name__}."
    )
  if not len(views):
    raise ValueError(f"{name} must have at least one view, got none.")
  if num_views is not None and len(views) != num_views:
    raise ValueError(f"{name} must have {num_views} views as the others, got {len(views)}.")
  return views


def joined_views(
    views: Any, name: str, widths: tuple[int, ...] | None = None
) -> tuple[np.ndarray, tuple[int, ...]]:
  """Returns one client's views side by side, float64 of shape (n, D), and their widths.

  Args:
    views: Arrays of shape (n, d_h).
    name: What the messages call them.
    widths: What the widths must be, if that is known.
  """
  views = _view_list(views, name, None if widths is None else len(widths))
  where = [f"{name}, view {view!r}," for view in range(len(views))]
  arrays = list(map(_view, views, where, widths or [None] * len(views)))
  for index, array in enumerate(arrays):
    if len(array) != len(arrays[0]):
      raise ValueError(
          f"{where[index]} must have {len(arrays[0])} rows as view 0 has, got {len(array)}."
      )
  return np.concatenate(arrays, axis=1), tuple(array.shape[1] for array in arrays)


def check_clients(clients: Any, num_clusters: int) -> ClientViews:
  """Returns the clients' views side by side.

  Args:
    clients: What `clients_of` returned or takes.

  Raises:
    TypeError: If it is something else, or a view holds no real numbers.
    ValueError: If the clients' views don't fit together, or there are too few points.
  """
  points: dict[Any, np.ndarray] = {}
  widths: tuple[int, ...] = ()
  clients = clients_of(clients)
  for client_id, views in clients.by_id.items():
    points[client_id], widths = joined_views(views, clients.label(client_id), widths or None)
  client_views = ClientViews(points, widths)
  if client_views.num_points < num_clusters:
    raise validate.error(
        "n_clusters", f"be at most the {client_views.num_points} points of all clients",
        num_clusters,
    )
  return client_views


def _private_view(view: Any, name: str) -> np.ndarray | None:
  """Returns one view as float64 of shape (n, d), whatever its rows hold; None for an empty list."""
  _check_present(view, f"`{name}`")
  if given_clients.is_empty_list(view):
    return None
  array = clustering_params.numeric_array(name, view, 2)
  # In wider types, numbers may be too large for float64.  Signaling NaNs would warn.
  with np.errstate(over="ignore", invalid="ignore"):
    return array.astype(np.float64)


def _filled(array: np.ndarray | None, name: str, width: int) -> np.ndarray:
  """Returns one view of `width` columns, where an empty list was None."""
  array = np.zeros((0, width)) if array is None else array
  if array.shape[1] != width or not width:
    raise ValueError(
        f"`{name}` must have the same number of columns at every client, at least one, got "
        f"{array.shape[1]} and {width}."
    )
  return array


def check_private_clients(clients: Any) -> ClientViews:
  """Returns the clients' views side by side, of whatever content; a client may have no rows.

  Only what is public is checked: types, and numbers of views and columns.  An error that
  depends on the rows could tell whether a row is there.

  Raises:
    TypeError: If it is something else, or a view holds no numbers.
    ValueError: If the clients' views don't fit together.
  """
  clients = clients_of(clients)

  def called(client_id: Any, index: int) -> str:
    return f"{clients.label(client_id).replace('`', '')}[{index}]"

  found = {
      client_id: [_private_view(v, called(client_id, index)) for index, v in enumerate(views)]
      for client_id, views in clients.by_id.items()
  }
  widths = tuple(
      next((array.shape[1] for array in arrays if array is not None), 0)
      for arrays in zip(*found.values())
  )
  points = {}
  for client_id, views in found.items():
    arrays = [
        _filled(array, called(client_id, index), width)
        for index, (array, width) in enumerate(zip(views, widths))
    ]
    if len(set(map(len, arrays))) > 1:  # How many is private.
      raise ValueError(
          f"{clients.label(client_id)} must have the same number of rows in every view."
      )
    points[client_id] = np.concatenate(arrays, axis=1)
  return ClientViews(points, widths)
