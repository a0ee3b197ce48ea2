"""The clients as the user gives them: one, several in a list, or several by id.

A client is a table: an array, a data frame (of pandas, polars or another library that narwhals
knows) or a list of rows; or a list of tables, its views, whose rows are the same points.  Results
for the clients have the same form as the clients.
"""

from __future__ import annotations

import collections.abc
import dataclasses
import numbers
import re
from typing import Any, Callable, Mapping, Sequence

import numpy as np

from clustering_basics import validate
from dp_clustering import clustering_params
from dp_clustering import data_frames

# The id of a client that is given alone.
ALONE = None
# Sums of squares of larger numbers could overflow.
LARGEST = 1e100


def _is_list(value: Any) -> bool:
  return isinstance(value, collections.abc.Sequence) and not isinstance(value, (str, bytes))


def _num_dims(value: Any) -> int:
  """Returns how many dimensions nested lists, arrays or frames have; 2 are one table."""
  if _is_list(value):
    return 1 + max(map(_num_dims, value), default=0)
  if hasattr(value, "ndim"):
    return value.ndim
  return np.asarray(value).ndim if hasattr(value, "__array__") else 0


def _has_no_rows(value: Any) -> bool:
  return not value if _is_list(value) else getattr(value, "shape", ())[:1] == (0,)


def is_table(value: Any) -> bool:
  """Returns whether a value is meant as one table: an array, a frame or a list of rows.

  A list of empty lists is no table: they are clients, or views, without rows.
  """
  if not _is_list(value):
    return _num_dims(value) > 0
  return _num_dims(value) == 2 and any(_num_dims(row) == 1 and len(row) for row in value)


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


def clients_of(given: Any, name: str = "clients", has_views: bool = False) -> Clients:
  """Returns the clients that the user gave: one, a list, or a mapping from integers or text.

  Args:
    name: What the messages call it.
    has_views: Whether a client is a list of tables, or a table that is its only view; else it is a
      table.

  Raises:
    TypeError: If it is none of these, or an id is neither an integer nor text.
    ValueError: If there is no client, or two ids look alike.
  """
  by_id: Mapping[Any, Any]
  is_list = False
  if is_table(given) or has_views and _is_list(given) and any(map(is_table, given)):
    by_id = {ALONE: given}
  elif isinstance(given, collections.abc.Mapping):
    by_id = given
    for own in by_id:
      if not isinstance(own, (str, numbers.Integral)) or isinstance(own, bool):
        raise TypeError(f"`{name}` must have integers or text as ids, got {own!r}.")
    if len(set(map(str, by_id))) < len(by_id):
      raise ValueError(f"`{name}` must have ids that look different, got {list(by_id)}.")
  elif _is_list(given):
    by_id, is_list = {str(index): one for index, one in enumerate(given)}, True
  else:
    raise TypeError(
        f"`{name}` must be one client, a list of clients or a mapping from client id, got "
        f"{type(given).__name__}."
    )
  if not by_id:
    raise ValueError(f"`{name}` must have at least one client, got none.")
  return Clients(sorted_by_id(by_id), tuple(by_id), is_list, name, has_views)


def tables_of(
    given: Any, name: str = "clients", has_views: bool = False, num_views: int | None = None
) -> Clients:
  """Returns the clients that the user gave, as `clients_of` does, as lists of as many tables each.

  Args:
    num_views: How many views a client must have; the same number as the others by default.

  Raises:
    TypeError: If it is something else.
    ValueError: If there is no client, or one has no view or another number of them.
  """
  clients = clients_of(given, name, has_views)
  found: dict[Any, Sequence[Any]] = {}
  for client_id, tables in clients.by_id.items():
    if not has_views or is_table(tables):
      tables = [tables]
    label = clients.label(client_id)
    if not _is_list(tables):
      raise TypeError(
          f"{label} must be a list of arrays, one per view, got {type(tables).__name__}."
      )
    num_views = num_views or max(len(tables), 1)
    if len(tables) != num_views:
      raise ValueError(f"{label} must have {num_views} views as the others, got {len(tables)}.")
    found[client_id] = tables
  return clients.replaced(found)


def aligned(clients: Clients) -> tuple[Clients, list[list[Any] | None]]:
  """Returns tables with every view's columns in the order of its first frame, and their names.

  The names are None for a view without.

  Args:
    clients: Of `tables_of`.

  Raises:
    ValueError: If the tables' columns don't have the same names.
  """
  firsts: dict[int, str] = {}
  names: list[list[Any] | None] = [None] * len(next(iter(clients.by_id.values())))
  found = {client_id: list(tables) for client_id, tables in clients.by_id.items()}
  for client_id, tables in found.items():
    for view, table in enumerate(tables):
      label = clients.label(client_id, view)
      own = data_frames.column_names(table, label)
      if own is None and _has_no_rows(table):
        continue  # With `privacy` that is no error.
      if view not in firsts:
        firsts[view], names[view] = label, own
        continue
      expected, first = names[view], firsts[view]
      if (own is None) != (expected is None):
        raise ValueError(
            f"{label} must have names of columns if {first} has, and none if not; the numbers 0, "
            "1, 2 and so on, in this order, are none."
        )
      if own is not None and expected is not None:
        data_frames.check_same_columns(own, expected, label, first)
        places = {column: place for place, column in enumerate(own)}
        tables[view] = np.asarray(table)[:, [places[column] for column in expected]]
  return clients.replaced(found), names


def _checked_points(table: Any, label: str) -> np.ndarray:
  """Returns a table as float64 of shape (n, d), n > 0; scikit-learn's errors get the label."""
  # Programs that read files import this module, and need neither to answer at once.
  from scipy import sparse  # pylint: disable=g-import-not-at-top
  import sklearn  # pylint: disable=g-import-not-at-top
  from sklearn.utils import validation  # pylint: disable=g-import-not-at-top

  try:
    # scikit-learn would use what is masked, and refuses sparse tables by itself.
    array = table if sparse.issparse(table) else clustering_params.unmasked(table)
    with sklearn.config_context(assume_finite=False):
      array = validation.check_array(array).astype(np.float64)
  except (TypeError, ValueError, OverflowError) as e:  # The last: no float holds an integer.
    kind = TypeError if isinstance(e, TypeError) else ValueError
    raise kind(
        f"{label} must be a table of finite numbers (several clients are a list or a dict of "
        f"tables): {' '.join(str(e).split())}"
    ) from e
  if np.abs(array).max() > LARGEST:
    raise ValueError(f"{label} must hold numbers between {-LARGEST:g} and {LARGEST:g}.")
  return array


def _any_points(table: Any, label: str) -> np.ndarray | None:
  """Returns a table as float64 of shape (n, d), whatever rows hold; None for an empty list."""
  if _is_list(table) and not table:
    return None
  # In wider types, numbers may be too large for float64.  Signaling NaNs would warn.
  with np.errstate(over="ignore", invalid="ignore"):
    array = clustering_params.numeric_table(label.replace("`", ""), table)
    return array.astype(np.float64, copy=False)


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
    widths: What the views' numbers of columns must be; None for those of the first client.

  Raises:
    TypeError: If a table does not hold real numbers.
    ValueError: If the clients' points can't be clustered together.
  """
  convert = _any_points if is_private else _checked_points
  known: dict[int, int] = dict(enumerate(widths or ()))
  found: dict[Any, list[np.ndarray | None]] = {}
  for client_id, tables in clients.by_id.items():
    found[client_id] = []
    for view, table in enumerate(tables):
      label = clients.label(client_id, view)
      array = convert(table, label)
      found[client_id].append(array)
      if array is None:
        continue
      width = array.shape[1]
      if known.setdefault(view, width) != width or not width:
        rule = f"{known[view]} columns as the others" if known[view] else "at least one column"
        raise ValueError(f"{label} must have {rule}, got {width}.")
  points: dict[Any, np.ndarray] = {}
  for client_id, arrays in found.items():
    if len(known) < len(arrays):
      raise ValueError(f"`{clients.name}` must have columns, got no rows at any client.")
    own = [np.zeros((0, known[v])) if array is None else array for v, array in enumerate(arrays)]
    if len(set(map(len, own))) > 1:  # How many they are may be private.
      raise ValueError(
          f"{clients.label(client_id)} must have the same number of rows in every view."
      )
    points[client_id] = own[0] if len(own) == 1 else np.concatenate(own, axis=1)
  return clients.replaced(points), tuple(known[view] for view in range(len(known)))
