"""How a client of a TFF computation gets at its points.

A computation is built for a source: for clients whose value is the matrix of their
points, or for clients that read a file of their own and then send nothing but results
(see `fl_clustering/engine/client_files.py`).

A file holds the rows one after another as float64.  They become small numbers near zero
before anything else is done (`scaling.py`), which takes float64 where the numbers are
far from zero.
"""

import collections
import dataclasses
import os
from typing import Callable

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff


@dataclasses.dataclass(frozen=True)
class PointSource:
  """Where a client's points are.

  Attributes:
    client_type: TFF type of the client's value.
    num_columns: The points' number of columns, d.
    read: A TensorFlow function from the client's value to points of shape (n, d),
      float32 or float64.
  """

  client_type: tff.Type
  num_columns: int
  read: Callable[..., tf.Tensor]


def matrices(num_columns):
  """Returns the source for clients whose value is float32 of shape (n, d)."""
  return PointSource(
      tff.TensorType(np.float32, [None, num_columns]), num_columns, lambda points: points
  )


def scaled_files(num_columns):
  """Returns the source for clients that know a path, and the scaling they were told."""
  client_type = tff.StructWithPythonType(
      [
          ("path", np.str_),
          ("shift", tff.TensorType(np.float64, [num_columns])),
          ("factor", tff.TensorType(np.float64, [num_columns])),
      ],
      collections.OrderedDict,
  )

  def read(client):
    points = tf.io.decode_raw(tf.io.read_file(client["path"]), tf.float64)
    points = tf.reshape(points, [-1, num_columns])
    return (points - client["shift"]) * client["factor"]

  return PointSource(client_type, num_columns, read)


def write_files(clients, directory):
  """Writes every client's points to a file of its own.

  Args:
    clients: A mapping from client id to an array of shape (n, d).
    directory: An existing folder.

  Returns:
    The paths by client id.  Files are named by position, as ids may hold any character.
  """
  paths = {}
  for index, (client_id, points) in enumerate(clients.items()):
    path = os.path.join(os.path.abspath(directory), f"client_{index:05d}.points")
    with open(path, "wb") as file:
      file.write(np.ascontiguousarray(points, "<f8").data)
    paths[client_id] = path
  return paths
