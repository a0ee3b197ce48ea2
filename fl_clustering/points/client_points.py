"""Checks that the clients' points, as the user gives them, can be clustered together."""

import numpy as np

from dp_clustering import clustering_params
from dp_clustering import data_frames
from fl_clustering.points import given_clients

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


def checked_clients(clients):
  """Returns the clients' points as float64 by client id.

  Args:
    clients: `given_clients.Clients`, or what they are made of: arrays of shape (n, d).

  Raises:
    TypeError: If a client's points are no real numbers.
    ValueError: If points can't be clustered together.
  """
  checked, num_columns, clients = {}, None, given_clients.clients_of(clients)
  for client_id, points in clients.by_id.items():
    checked[client_id] = checked_points(points, clients.label(client_id), num_columns)
    num_columns = checked[client_id].shape[1]
  return checked


def is_empty_list(points):
  """Returns whether points are a list without rows, which tells no number of columns."""
  return hasattr(points, "__len__") and len(points) == 0 and np.ndim(points) == 1


def private_clients(clients):
  """Returns the clients' points by client id, of whatever content.

  Only what is public is checked: types and numbers of columns.  An error that depends on the
  rows could tell whether a row is there.

  Args:
    clients: As for `checked_clients`; a client may have no rows.

  Raises:
    TypeError: If a client's points are no numbers.
    ValueError: If numbers of columns differ.
  """
  clients = given_clients.clients_of(clients)
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
