"""The clients as the user gives them: one table, several in a list, or several by id.

Results for the clients have the same form.  Checks say whether their points can be clustered
together.
"""

from __future__ import annotations

import collections.abc
import dataclasses
import numbers
import re
from typing import Any, Callable, Iterable, Mapping

import numpy as np

from dp_clustering import clustering_params
from dp_clustering import data_frames

# The id of a table that is given alone.
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
  """

  def key(client_id: Any) -> tuple[str, str]:
    text = str(client_id)
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
    part: What they add for a part of every client, such as a view.
  """

  by_id: Mapping[Any, Any]
  given_ids: tuple[Any, ...]
  is_list: bool
  name: str
  part: str = ""

  def label(self, client_id: Any) -> str:
    """Returns what messages call a client: "`clients`['north']"."""
    which = "" if client_id is ALONE else f"[{client_id!r}]"
    return f"`{self.name}`{which}{self.part}"

  def replaced(self, by_id: Mapping[Any, Any]) -> Clients:
    """Returns clients of the same form, with other values by id."""
    return dataclasses.replace(self, by_id=by_id)

  def map(self, function: Callable[[Any], Any]) -> Any:
    """Returns a function's value for every client in the user's form: one, a list, or by id."""
    if self.given_ids == (ALONE,):
      return function(self.by_id[ALONE])
    values = {client_id: function(self.by_id[client_id]) for client_id in self.given_ids}
    return list(values.values()) if self.is_list else values


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
  if isinstance(given, Clients):
    return given
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


def as_arrays(clients: Clients) -> Clients:
  """Returns arrays where there were frames; see `data_frames.numbers`."""
  return clients.replaced({
      client_id: data_frames.numbers(table, clients.label(client_id))
      for client_id, table in clients.by_id.items()
  })


def _has_no_rows(table: Any) -> bool:
  is_array = not data_frames.is_frame(table) and hasattr(table, "__len__")
  return is_array and num_dims(table) > 0 and not len(table)


def aligned(clients: Clients) -> tuple[Clients, list[str] | None]:
  """Returns arrays with their columns in the order of the first frame, and the columns' names.

  The names are None for tables without.

  Raises:
    TypeError: If a table is sparse, or a column of a frame does not hold real numbers.
    ValueError: If the tables' columns don't have the same names.
  """
  first, names, arrays = None, None, dict(as_arrays(clients).by_id)
  for client_id, table in clients.by_id.items():
    if _has_no_rows(table):
      continue  # With `privacy` that is no error.
    label = clients.label(client_id)
    own = data_frames.column_names(table, label)
    if first is None:
      first, names = label, own
    elif own is not None and names is not None:
      data_frames.check_same_columns(own, names, label, first)
      arrays[client_id] = arrays[client_id][:, [own.index(column) for column in names]]
    elif own is not names:
      raise ValueError(f"{label} must have names of columns if {first} has, and none if not.")
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


def _check_are_tables(clients: Clients) -> None:
  """Raises a ValueError that tells the forms apart if a client is no table."""
  for client_id, table in clients.by_id.items():
    if data_frames.is_sparse(table) or is_empty_list(table):
      continue
    dims = num_dims(table)
    if dims != 2:
      got = "1 dimension" if dims == 1 else f"{dims} dimensions"
    elif not hasattr(table, "__array__") and not data_frames.is_frame(table) and (
        len(set(map(len, table))) > 1
    ):
      got = "rows of several lengths"
    else:
      continue
    raise ValueError(
        f"{clients.label(client_id)} must be a matrix of shape (num_points, num_columns), got "
        f"{got}; one client is a table or a list of rows, and several clients are a list or a dict "
        "of tables."
    )


def checked_clients(clients: Any) -> dict[Any, np.ndarray]:
  """Returns the `checked_points` of what `clients_of` takes, by client id."""
  checked: dict[Any, np.ndarray] = {}
  num_columns, clients = None, clients_of(clients)
  _check_are_tables(clients)
  for client_id, points in clients.by_id.items():
    checked[client_id] = checked_points(points, clients.label(client_id), num_columns)
    num_columns = checked[client_id].shape[1]
  return checked


def is_empty_list(points: Any) -> bool:
  """Returns whether points are a list without rows, which tells no number of columns."""
  return hasattr(points, "__len__") and len(points) == 0 and np.ndim(points) == 1


def private_clients(clients: Any) -> dict[Any, np.ndarray]:
  """Returns the clients' points by client id, of whatever content.

  Only what is public is checked: types and numbers of columns.  An error that depends on the
  rows could tell whether a row is there.  A client may have no rows.

  Raises:
    TypeError: If a client's points are no numbers.
    ValueError: If numbers of columns differ.
  """
  clients = clients_of(clients)
  _check_are_tables(clients)
  arrays = {
      client_id: None if is_empty_list(points)
      else data_frames.numeric_array(points, clients.label(client_id), 2)
      for client_id, points in clients.by_id.items()
  }
  widths = {array.shape[1] for array in arrays.values() if array is not None}
  if len(widths) != 1 or 0 in widths:
    raise ValueError(
        "`clients` must have the same number of columns, at least one, got "
        f"{sorted(widths) or 'none'}."
    )
  no_rows = np.zeros((0, *widths))
  return {client_id: no_rows if array is None else array for client_id, array in arrays.items()}
