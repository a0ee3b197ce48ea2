"""Checks that the clients' points, as the user gives them, can be clustered together."""

import collections.abc
import re

import numpy as np

from dp_clustering import clustering_params

# Sums of squares of larger numbers could overflow.
LARGEST = 1e100


def checked_points(points, name, num_columns=None):
  """Returns one client's points as float64 of shape (n, d).

  Args:
    points: An array of shape (n, d), n > 0, or anything that NumPy can turn into one.
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
  bad = np.argwhere(~np.isfinite(array))
  if len(bad):
    row, column = map(int, bad[0])
    raise ValueError(
        f"{name} must hold finite numbers, got {array[row, column]} in row {row}, column "
        f"{column}."
    )
  large = np.argwhere(np.abs(array) > LARGEST)
  if len(large):
    row, column = map(int, large[0])
    raise ValueError(
        f"{name} must hold numbers between {-LARGEST:g} and {LARGEST:g}, got "
        f"{array[row, column]:g} in row {row}, column {column}."
    )
  return array


def check_id(client_id):
  """Raises a TypeError unless a client's id is text, so that no two look alike."""
  if not isinstance(client_id, str):
    raise TypeError(f"`clients` must have strings as ids, got {client_id!r}.")


def sorted_by_id(clients):
  """Returns a mapping from client id in the order of the ids, `site_2` before `site_10`.

  The order of a sum affects its rounding, k-FED starts from the first client's means, and
  both can decide between two local optima.  Sorted, the user's order changes nothing.
  """

  def key(client_id):
    name = str(client_id)
    return re.sub("[0-9]+", lambda digits: digits[0].zfill(20), name), name

  return {client_id: clients[client_id] for client_id in sorted(clients, key=key)}


def _by_id(clients):
  """Returns the clients by id, in the order of the ids; a list's ids are "0", "1", and so on.

  Raises:
    TypeError: If it is no mapping or list, or an id is no text.
    ValueError: If there is no client.
  """
  if isinstance(clients, np.ndarray) or not isinstance(
      clients, (collections.abc.Mapping, collections.abc.Sequence)
  ):
    raise TypeError(
        "`clients` must be a list of arrays or a mapping from client id to an array, got "
        f"{type(clients).__name__}."
    )
  if not isinstance(clients, collections.abc.Mapping):
    clients = {str(index): points for index, points in enumerate(clients)}
  if not clients:
    raise ValueError("`clients` must have at least one client, got none.")
  for client_id in clients:
    check_id(client_id)
  return sorted_by_id(clients)


def checked_clients(clients):
  """Returns the clients' points as float64 by client id, in the order of the ids.

  Args:
    clients: A mapping from client id to an array of shape (n, d), or a list of arrays,
      whose ids are "0", "1", and so on.

  Raises:
    TypeError: If it is neither, or a client's points are no real numbers.
    ValueError: If there is no client, or points can't be clustered together.
  """
  checked, num_columns = {}, None
  for client_id, points in _by_id(clients).items():
    checked[client_id] = checked_points(points, f"`clients`[{client_id!r}]", num_columns)
    num_columns = checked[client_id].shape[1]
  return checked


def _is_empty_list(points):
  return hasattr(points, "__len__") and len(points) == 0 and np.ndim(points) == 1


def private_clients(clients):
  """Returns the clients' points by client id, of whatever content.

  Only what is public is checked: types and numbers of columns.  An error that depends on the
  rows could tell whether a row is there.

  Args:
    clients: As for `checked_clients`; a client may have no rows.

  Raises:
    TypeError: If it is neither a mapping nor a list, or a client's points are no numbers.
    ValueError: If there is no client, or numbers of columns differ.
  """
  arrays = {
      client_id: None if _is_empty_list(points)
      else clustering_params.numeric_array(f"clients[{client_id!r}]", points, 2)
      for client_id, points in _by_id(clients).items()
  }
  widths = {array.shape[1] for array in arrays.values() if array is not None}
  if len(widths) != 1 or 0 in widths:
    raise ValueError(
        "`clients` must have the same number of columns, at least one, got "
        f"{sorted(widths) or 'none'}."
    )
  no_rows = np.zeros((0, *widths))
  return {client_id: no_rows if array is None else array for client_id, array in arrays.items()}
