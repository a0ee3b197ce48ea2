"""The clients as the user gives them: one, several in a list, or several by id.

A client is a table, or a list of tables, its views, whose rows are the same points.  Results for
the clients have the same form as the clients.  Checks say whether their points can be clustered
together.
"""

from __future__ import annotations

import collections.abc
import dataclasses
import numbers
import re
from typing import Any, Callable, Iterable, Mapping, Sequence

import numpy as np

from clustering_basics import validate
from dp_clustering import clustering_params
from dp_clustering import data_frames

# The id of a client that is given alone.
ALONE = None
# Sums of squares of larger numbers could overflow.
LARGEST = 1e100


def num_dims(value: Any) -> int:
  """Returns how many dimensions nested lists, arrays or frames have; 2 are one table."""
  if data_frames.is_frame(value):
    return 2
  if hasattr(value, "__array__"):
    return np.asarray(value).ndim
  if isinstance(value, (str, bytes)) or not isinstance(value, collections.abc.Sequence):
    return 0
  return 1 + max(map(num_dims, value), default=0)


def is_table(value: Any) -> bool:
  """Returns whether a value is meant as one table: an array, a frame or a list of rows.

  A list of empty lists is no table: they are clients, or views, without rows.
  """
  is_frame = data_frames.is_frame(value) or data_frames.is_sparse(value)
  if is_frame or hasattr(value, "__array__"):
    return True
  return num_dims(value) == 2 and any(num_dims(row) == 1 and len(row) for row in value)


def _check_ids(ids: Iterable[Any], name: str) -> None:
  """Raises an error unless ids are integers or text, and no two look alike."""
  looks: dict[str, Any] = {}
  for client_id in ids:
    is_number = isinstance(client_id, numbers.Integral) and not isinstance(client_id, bool)
    if not is_number and not isinstance(client_id, str):
      raise TypeError(f"`{name}` must have integers or text as ids, got {client_id!r}.")
    other = looks.setdefault(str(client_id), client_id)
    if other is not client_id:
      raise ValueError(
          f"`{name}` must have ids that look different, got {other!r} and {client_id!r}."
      )


def sorted_by_id(clients: Mapping[Any, Any]) -> dict[Any, Any]:
  """Returns a mapping from client id in the order of the ids, `site_2` before `site_10`.

  The order of a sum affects its rounding, k-FED starts from the first client's means, and
  both can decide between two local optima.  Sorted, the user's order changes nothing.

  Raises:
    ValueError: If no file can hold an id, such as the name of a file that is not in UTF-8.
  """

  def key(client_id: Any) -> tuple[str, str]:
    text = str(client_id)
    validate.utf_8(client_id=text)
    return re.sub("[0-9]+", lambda digits: digits[0].zfill(20), text), text

  return {client_id: clients[client_id] for client_id in sorted(clients, key=key)}


@dataclasses.dataclass(frozen=True, eq=False)
class Clients:
  """What the user gave for every client.

  Attributes:
    by_id: A mapping from client id, in the order of the ids.
    given_ids: The ids in the user's order.
    is_list: Whether the user gave a list; its ids are "0", "1", and so on.
    name: What the messages call all of it.
    has_views: Whether the messages tell a client's tables apart.
  """

  by_id: Mapping[Any, Any]
  given_ids: tuple[Any, ...]
  is_list: bool
  name: str
  has_views: bool = False

  def label(self, client_id: Any, view: int | None = None) -> str:
    """Returns what messages call a client or one of its views: "`clients`['north'], view 0,"."""
    which = "" if client_id is ALONE else f"[{client_id!r}]"
    part = f", view {view}," if self.has_views and view is not None else ""
    return f"`{self.name}`{which}{part}"

  def replaced(self, by_id: Mapping[Any, Any]) -> Clients:
    """Returns clients of the same form, with other values by id."""
    return dataclasses.replace(self, by_id=by_id)

  def map(self, function: Callable[[Any], Any]) -> Any:
    """Returns a function's value for every client in the user's form: one, a list, or by id."""
    if self.given_ids == (ALONE,):
      return function(self.by_id[ALONE])
    values = {client_id: function(self.by_id[client_id]) for client_id in self.given_ids}
    return list(values.values()) if self.is_list else values

  def map_tables(self, function: Callable[[Any, str], Any]) -> Clients:
    """Returns the clients with a function's value for every table, of the table and its label."""
    return self.replaced({
        client_id: [
            function(table, self.label(client_id, view)) for view, table in enumerate(tables)
        ]
        for client_id, tables in self.by_id.items()
    })


def clients_of(
    given: Any, name: str = "clients", is_one: Callable[[Any], bool] = is_table
) -> Clients:
  """Returns the clients that the user gave: one, a list, or a mapping from integers or text.

  Args:
    name: What the messages call it.
    is_one: Returns whether a value is one client.

  Raises:
    TypeError: If it is none of these, or an id is neither an integer nor text.
    ValueError: If there is no client, or two ids look alike.
  """
  is_list = False
  by_id: Mapping[Any, Any]
  if is_one(given):
    by_id = {ALONE: given}
  elif isinstance(given, collections.abc.Mapping):
    _check_ids(given, name)
    by_id = given
  elif isinstance(given, collections.abc.Sequence) and not isinstance(given, (str, bytes)):
    by_id, is_list = {str(index): one for index, one in enumerate(given)}, True
  else:
    raise TypeError(
        f"`{name}` must be one client, a list of clients or a mapping from client id, got "
        f"{type(given).__name__}."
    )
  if not by_id:
    raise ValueError(f"`{name}` must have at least one client, got none.")
  return Clients(sorted_by_id(by_id), tuple(by_id), is_list, name)


def _is_client_of_views(value: Any) -> bool:
  """Returns whether a value is meant as one client: a table, which is a view, or a list of them."""
  if is_table(value):
    return True
  is_list = isinstance(value, collections.abc.Sequence) and not isinstance(value, str)
  return is_list and any(map(is_table, value))


def _is_empty_list(points: Any) -> bool:
  """Returns whether points are a list without rows, which tells no number of columns."""
  return hasattr(points, "__len__") and len(points) == 0 and np.ndim(points) == 1


def _check_is_table(table: Any, label: str) -> None:
  """Raises a ValueError that tells the forms apart if a client is no table."""
  if data_frames.is_sparse(table) or _is_empty_list(table):
    return
  dims = num_dims(table)
  if dims != 2:
    got = "1 dimension" if dims == 1 else f"{dims} dimensions"
  elif not hasattr(table, "__array__") and not data_frames.is_frame(table) and (
      len(set(map(len, table))) > 1
  ):
    got = "rows of several lengths"
  else:
    return
  raise ValueError(
      f"{label} must be a matrix of shape (num_points, num_columns), got {got}; one client is a "
      "table or a list of rows, and several clients are a list or a dict of tables."
  )


def _view_list(views: Any, label: str, num_views: int | None) -> Sequence[Any]:
  """Returns a client's views; raises an error if they are no list of so many."""
  if isinstance(views, str) or not isinstance(views, collections.abc.Sequence):
    raise TypeError(
        f"{label} must be a list of arrays, one per view, got {type(views).__name__}."
    )
  if not len(views):
    raise ValueError(f"{label} must have at least one view, got none.")
  if num_views is not None and len(views) != num_views:
    raise ValueError(f"{label} must have {num_views} views as the others, got {len(views)}.")
  for view, table in enumerate(views):
    if table is None:
      raise ValueError(
          f"{label}, view {view}, must be there: every client needs every view, clients without "
          "one are not supported, got None."
      )
  return views


def tables_of(
    given: Any, name: str = "clients", has_views: bool = False, num_views: int | None = None
) -> Clients:
  """Returns the clients that the user gave as lists of as many tables each.

  Args:
    name: What the messages call it.
    has_views: Whether a client is a list of tables, or a table that is its only view; else it is a
      table.
    num_views: How many views a client must have; the same number as the others by default.

  Raises:
    TypeError: If it is something else.
    ValueError: If there is no client, or one is no table, or has no view or another number of them.
  """
  clients = clients_of(given, name, _is_client_of_views if has_views else is_table)
  found: dict[Any, Sequence[Any]] = {}
  for client_id, tables in clients.by_id.items():
    label = clients.label(client_id)
    if not has_views:
      _check_is_table(tables, label)
    if not has_views or is_table(tables):
      tables = [tables]
    found[client_id] = _view_list(tables, label, num_views) if has_views else tables
    num_views = len(found[client_id])
  return dataclasses.replace(clients, by_id=found, has_views=has_views)


def _has_no_rows(table: Any) -> bool:
  is_array = not data_frames.is_frame(table) and hasattr(table, "__len__")
  return is_array and num_dims(table) > 0 and not len(table)


def aligned(clients: Clients) -> tuple[Clients, list[list[Any] | None]]:
  """Returns arrays with every view's columns in the order of its first frame, and their names.

  The names are None for a view without.

  Args:
    clients: Of `tables_of`.

  Raises:
    TypeError: If a table is sparse, or a column of a frame does not hold real numbers.
    ValueError: If the tables' columns don't have the same names.
  """
  firsts: dict[int, str] = {}
  names: list[list[Any] | None] = [None] * len(next(iter(clients.by_id.values())))
  arrays = dict(clients.map_tables(data_frames.numbers).by_id)
  for client_id, tables in clients.by_id.items():
    for view, table in enumerate(tables):
      if _has_no_rows(table):
        continue  # With `privacy` that is no error.
      label, expected = clients.label(client_id, view), names[view]
      own = data_frames.column_names(table, label)
      if view not in firsts:
        firsts[view], names[view] = label, own
      elif own is not None and expected is not None:
        data_frames.check_same_columns(own, expected, label, firsts[view])
        order = [own.index(column) for column in expected]
        arrays[client_id][view] = arrays[client_id][view][:, order]
      elif own is not expected:
        first = firsts[view]
        raise ValueError(
            f"{label} must have names of columns if {first} has, and none if not; the numbers 0, "
            "1, 2 and so on, in this order, are none."
        )
  return clients.replaced(arrays), names


def checked_points(points: Any, name: str, num_columns: int | None = None) -> np.ndarray:
  """Returns one client's points as float64 of shape (n, d), n > 0.

  Args:
    points: Anything that NumPy can turn into an array.
    name: What the messages call it.
    num_columns: What d must be, if that is known.

  Raises:
    TypeError: If it does not hold real numbers.
    ValueError: If its shape is wrong, or a number is masked, not finite or too large.
  """
  try:
    array = clustering_params.unmasked(points)
  except ValueError as e:  # Rows of different lengths.
    raise ValueError(f"{name} must be a matrix of shape (num_points, num_columns): {e}") from e
  if array.dtype == object:
    array = data_frames.numeric_array(array, name, 2)
  if array.ndim != 2 or array.shape[1] == 0:
    raise ValueError(
        f"{name} must be a matrix of shape (num_points, num_columns), got shape {array.shape}."
    )
  if array.dtype.kind not in "biuf":
    raise TypeError(f"{name} must hold real numbers, got dtype {array.dtype}.")
  if not len(array):
    raise ValueError(f"{name} must have at least one row, got none.")
  if num_columns is not None and array.shape[1] != num_columns:
    raise ValueError(
        f"{name} must have {num_columns} columns as the others, got {array.shape[1]}."
    )
  array = array.astype(np.float64)
  for bad, rule in (
      (~np.isfinite(array), "finite numbers"),
      (np.abs(array) > LARGEST, f"numbers between {-LARGEST:g} and {LARGEST:g}"),
  ):
    if bad.any():
      row, column = map(int, np.argwhere(bad)[0])
      raise ValueError(
          f"{name} must hold {rule}, got {array[row, column]:g} in row {row}, column {column}."
      )
  return array


def _any_points(table: Any, label: str) -> np.ndarray | None:
  """Returns a table as float64 of shape (n, d), whatever rows hold; None for an empty list."""
  if _is_empty_list(table):
    return None
  array = data_frames.numeric_array(table, label, 2)
  # In wider types, numbers may be too large for float64.  Signaling NaNs would warn.
  with np.errstate(over="ignore", invalid="ignore"):
    return array.astype(np.float64, copy=False)


def _private_tables(clients: Clients) -> dict[Any, list[np.ndarray]]:
  """Returns every client's tables; without rows, they have as many columns as those of others."""
  found = clients.map_tables(_any_points).by_id
  widths: list[int] = []
  for view, arrays in enumerate(zip(*found.values())):
    own = {array.shape[1] for array in arrays if array is not None}
    if len(own) != 1 or 0 in own:
      part = f", view {view}," if clients.has_views else ""
      raise ValueError(
          f"`{clients.name}`{part} must have the same number of columns, at least one, at every "
          f"client, got {sorted(own) or 'none'}."
      )
    widths += own
  return {
      client_id: [
          np.zeros((0, width)) if array is None else array for width, array in zip(widths, arrays)
      ]
      for client_id, arrays in found.items()
  }


def _checked_tables(
    clients: Clients, widths: Sequence[int] | None
) -> dict[Any, list[np.ndarray]]:
  """Returns the `checked_points` of every client's tables."""
  found: dict[Any, list[np.ndarray]] = {}
  for client_id, tables in clients.by_id.items():
    found[client_id] = [
        checked_points(
            table, clients.label(client_id, view), None if widths is None else widths[view]
        )
        for view, table in enumerate(tables)
    ]
    widths = widths or [table.shape[1] for table in found[client_id]]
  return found


def points_of(
    clients: Clients, is_private: bool, widths: Sequence[int] | None = None
) -> tuple[Clients, tuple[int, ...]]:
  """Returns the clients' points, float64 of shape (n, D), and the views' numbers of columns.

  The D columns are those of all views side by side.  If the points are private, only what is
  public is checked: types, and numbers of views and columns.  An error that depends on the rows
  could tell whether a row is there.  A client may then have no rows.

  Args:
    clients: Of `tables_of`.
    is_private: Whether the points are private.
    widths: What the views' numbers of columns must be, unless points are private; None for those
      of the first client.

  Raises:
    TypeError: If a table holds no real numbers.
    ValueError: If the clients' points can't be clustered together.
  """
  found = _private_tables(clients) if is_private else _checked_tables(clients, widths)
  points: dict[Any, np.ndarray] = {}
  for client_id, arrays in found.items():
    for view, array in enumerate(arrays):
      if len(array) == len(arrays[0]):
        continue
      if is_private:  # How many is private.
        raise ValueError(
            f"{clients.label(client_id)} must have the same number of rows in every view."
        )
      raise ValueError(
          f"{clients.label(client_id, view)} must have {len(arrays[0])} rows as view 0 has, got "
          f"{len(array)}."
      )
    widths = [array.shape[1] for array in arrays]
    points[client_id] = arrays[0] if len(arrays) == 1 else np.concatenate(arrays, axis=1)
  return clients.replaced(points), tuple(widths or ())
