"""The task of clients at sites, whose rows stay there.

It is the task that `files.py` makes of the same tables on one machine, but for rounding.  What
leaves a site beside what the site says of itself: sums over the training rows of its training
clients, of the features and of their squares about the mean.  Then each client's rows are scaled
and written, at the site, in the format of `engine/client_files.py`.
"""

import collections
import dataclasses
import functools
import hashlib
from typing import Mapping

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from clustering_basics import validate
from fl_clustering.distribution import site as site_lib
from fl_clustering.distribution import sites as sites_lib
from fl_clustering.tables import feature_encoding
from fl_clustering.tables import table_format
from fl_clustering.tasks import federated_task
from fl_clustering.tasks import files
from fl_clustering.tasks import own_clients

_DTYPE = "float32"
_PARTS = ("train", "test")


@dataclasses.dataclass(frozen=True, eq=False)
class _Rows:
  """Which rows of the clients at sites are for testing.

  Attributes:
    sites: The `Sites`.
    is_test: The rows by client id, bool of shape (n,), or of shape (0,) where a column says it.
    num_test: How many they are, by client id.
  """

  sites: sites_lib.Sites
  is_test: Mapping[str, np.ndarray]
  num_test: Mapping[str, int]

  @property
  def usable(self):
    """The ids of the clients that can be trained and tested, in order."""
    return files.usable(self.sites.num_rows, self.num_test)

  def num_of(self, client_id):
    """Returns a client's numbers of rows for training and for testing."""
    num_test = self.num_test[client_id]
    return self.sites.num_rows[client_id] - num_test, num_test

  def values(self, client_ids, **others):
    """Returns what clients are sent, a list of TFF values.

    Args:
      client_ids: The clients.
      **others: Further functions from a client id to a value, by name.
    """
    return [
        collections.OrderedDict(
            points=self.sites.path(client_id, site_lib.POINTS),
            labels=self.sites.path(client_id, site_lib.LABELS),
            is_test=self.is_test[client_id],
            **{name: value(client_id) for name, value in others.items()},
        )
        for client_id in client_ids
    ]


def _has_split(sites):
  """Returns whether a column says which rows are for testing."""
  return sites.format.options.split_column is not None


def _rows(sites, test_share, seed):
  """Returns the `_Rows`; arguments as of `num_clients`."""
  if _has_split(sites):
    num_test = {client_id: client.num_test for client_id, client in sites.clients.items()}
    return _Rows(sites, dict.fromkeys(num_test, np.zeros(0, bool)), num_test)
  is_test = {
      client_id: files.draw_tests(client_id, num_rows, test_share, seed)
      for client_id, num_rows in sites.num_rows.items()
  }
  return _Rows(sites, is_test, {client_id: int(rows.sum()) for client_id, rows in is_test.items()})


def _addresses(sites):
  return ",".join(dict.fromkeys(sites.addresses.values()))


def _check(sites):
  """Raises a ValueError unless the clients' tables have classes."""
  if not isinstance(sites.format, table_format.TableFormat):
    raise validate.error(
        "workers", "be sites whose clients have a table each, not views", _addresses(sites)
    )
  if sites.format.classes is None:
    raise validate.error(
        "workers", "be sites that were started with `label_column`", _addresses(sites)
    )
  files.check_classes(sites.format.classes)


def num_clients(sites, test_share, seed):
  """Returns the number of clients that have rows for training and for testing.

  Args:
    sites: The `Sites`.
    test_share: The share of every client's rows that is for testing, or None.
    seed: Decides which rows these are.

  Raises:
    ValueError: If there are less than two, they have no tables with classes, or a column says
      which rows are for testing and a share too.
  """
  _check(sites)
  files.check_options(sites.format.options, test_share)
  found = len(_rows(sites, test_share, seed).usable)
  files.check_num_clients(found, "workers", _addresses(sites))
  return found


def _client_type(num_columns, *others):
  """Returns the TFF type of what `_Rows.values` returns for a client."""
  kinds = {
      "shift": tff.TensorType(np.float64, [num_columns]),
      "factor": tff.TensorType(np.float64, [num_columns]),
      **dict.fromkeys(_PARTS, np.str_),
  }
  return tff.StructWithPythonType(
      [
          ("points", np.str_),
          ("labels", np.str_),
          ("is_test", tff.TensorType(np.bool_, [None])),
          *((name, kinds[name]) for name in others),
      ],
      collections.OrderedDict,
  )


def _read(client, num_columns, has_split):
  """Returns a client's features less `shift`, its labels, and which rows are for testing."""
  points = tf.io.decode_raw(tf.io.read_file(client["points"]), tf.float64)
  labels = tf.io.decode_raw(tf.io.read_file(client["labels"]), tf.int64)
  labels, splits = tf.unstack(tf.reshape(labels, [-1, 2]), axis=1)
  is_test = splits > 0 if has_split else client["is_test"]
  return tf.reshape(points, [-1, num_columns]) - client["shift"], labels, is_test


@functools.cache
def _build_power_sums(num_columns, has_split, power):
  """Returns `{client}@CLIENTS -> float64@SERVER`: sums over the training rows, (num_columns,).

  Args:
    num_columns: The number of features.
    has_split: Whether the sites have a column that says which rows are for testing.
    power: The power of the features less `shift` that is added up.
  """
  client_type = _client_type(num_columns, "shift")

  @tff.tensorflow.computation(client_type)
  def local_sums(client):
    points, _, is_test = _read(client, num_columns, has_split)
    return tf.reduce_sum(tf.boolean_mask(points, ~is_test) ** power, axis=0)

  @tff.federated_computation(tff.FederatedType(client_type, tff.CLIENTS))
  def power_sums(clients):
    return tff.federated_sum(tff.federated_map(local_sums, clients))

  return power_sums


def _standardized(rows, client_ids):
  """Returns the sites' `FeatureEncoding` with a scaling to mean zero and variance one.

  Args:
    rows: The `_Rows`.
    client_ids: The clients whose training rows count.
  """
  encoding = rows.sites.format.encoding
  num_columns = len(encoding.feature_names)
  count = sum(rows.num_of(client_id)[0] for client_id in client_ids)

  def mean_power(power, shift):
    sums = _build_power_sums(num_columns, _has_split(rows.sites), power)
    return sums(rows.values(client_ids, shift=lambda client_id: shift)) / count

  mean = mean_power(1, np.zeros(num_columns))
  deviation = np.sqrt(mean_power(2, mean))
  factor = feature_encoding.standardizing_factor(mean, deviation)
  return dataclasses.replace(encoding, shift=mean, factor=factor)


def _bytes(rows):
  """Returns a matrix of float32 as a string of its bytes; it has a row at least."""
  message = tf.io.serialize_tensor(rows)
  # A message of `TensorProto` ends with its `tensor_content`.
  num_bytes = rows.dtype.size * tf.size(rows)
  return tf.strings.substr(message, tf.strings.length(message) - num_bytes, num_bytes)


def _write_unless_there(path, content):
  """Writes a file unless it has as many bytes already; its name says what is in it."""

  def is_whole():
    return tf.equal(tf.strings.length(tf.io.read_file(path)), tf.strings.length(content))

  def write():
    with tf.control_dependencies([tf.io.write_file(path, content)]):
      return tf.constant(True)

  is_there = tf.cond(tf.size(tf.io.matching_files(path)) > 0, is_whole, lambda: False)
  return tf.cond(is_there, lambda: True, write)


@functools.cache
def _build_write(num_columns, has_split):
  """Returns `{client}@CLIENTS -> {int32}@CLIENTS`: writes the scaled rows of each part.

  The result is each client's numbers of rows for training and for testing, of shape (2,).

  Args:
    num_columns: The number of features.
    has_split: Whether the sites have a column that says which rows are for testing.
  """
  client_type = _client_type(num_columns, "shift", "factor", *_PARTS)

  @tff.tensorflow.computation(client_type)
  def write(client):
    points, labels, is_test = _read(client, num_columns, has_split)
    rows = tf.concat(
        [tf.cast(points * client["factor"], _DTYPE), tf.cast(labels, _DTYPE)[:, tf.newaxis]],
        axis=1,
    )
    numbers = []
    for part, mask in zip(_PARTS, (~is_test, is_test)):
      of_part = tf.boolean_mask(rows, mask)
      with tf.control_dependencies([_write_unless_there(client[part], _bytes(of_part))]):
        numbers.append(tf.identity(tf.shape(of_part)[0]))
    return tf.stack(numbers)

  @tff.federated_computation(tff.FederatedType(client_type, tff.CLIENTS))
  def write_all(clients):
    return tff.federated_map(write, clients)

  return write_all


def _digest(rows, client_id, encoding):
  """Returns a digest of all that a client's files are made of and with, in hex."""
  digest = hashlib.sha256(repr((rows.sites.digest, client_id)).encode())
  for array in (rows.is_test[client_id], encoding.shift, encoding.factor):
    digest.update(array.tobytes())
  return digest.hexdigest()


def _write_files(rows, client_ids, encoding):
  """Has the sites write the files of clients; returns their `ClientData`, a tuple."""
  digests = {client_id: _digest(rows, client_id, encoding) for client_id in client_ids}

  def path_of(part):
    return lambda client_id: rows.sites.path(client_id, f".{digests[client_id][:32]}.{part}")

  num_columns = len(encoding.feature_names)
  found = _build_write(num_columns, _has_split(rows.sites))(rows.values(
      client_ids,
      shift=lambda client_id: encoding.shift,
      factor=lambda client_id: encoding.factor,
      **{part: path_of(part) for part in _PARTS},
  ))
  clients = []
  for client_id, numbers in zip(client_ids, found):
    if tuple(numbers) != rows.num_of(client_id):
      raise ValueError(
          f"the site at {rows.sites.addresses[client_id]} must have the rows that it says it has, "
          f"got {sum(numbers)} for client {client_id!r}."
      )
    parts = {
        part: federated_task.RemoteExamples(
            path_of(part)(client_id), number, (num_columns,), _DTYPE,
            len(rows.sites.format.classes), f"{part} of {digests[client_id]}",
        )
        for part, number in zip(_PARTS, rows.num_of(client_id))
    }
    clients.append(federated_task.ClientData(client_id, **parts))
  return tuple(clients)


def load_task(options, sites):
  """Returns the `FederatedTask` of the clients at sites.

  Call it where TFF computes at the sites.

  Args:
    options: `federated_task.TaskOptions`.
    sites: The `Sites`.

  Raises:
    ValueError: If the clients have no tables with classes, or too many of them can't be trained
      and tested.
    runtime.WorkerLost: If a site is lost and does not come back.
  """
  _check(sites)
  rows = _rows(sites, options.test_share, options.seed)
  usable = rows.usable
  warnings = own_clients.left_out_warnings(list(sites.clients), usable)
  training = files.training_ids(usable, options.num_new_clients, options.seed)
  encoding = _standardized(rows, [client_id for client_id in usable if client_id in training])
  clients = _write_files(rows, usable, encoding)
  classes = sites.format.classes
  return federated_task.FederatedTask(
      name=options.dataset,
      source=_source(sites),
      partition="natural",
      clients=clients,
      global_test=federated_task.PooledTests(tuple(client.test for client in clients)),
      global_test_source="the clients' pooled test data",
      num_classes=len(classes),
      model=options.build_model(clients[0].train, len(classes)),
      warnings=warnings,
      class_names=classes,
      feature_names=encoding.feature_names,
      table_format=dataclasses.replace(sites.format, encoding=encoding),
  )


def _source(sites):
  """Returns what the data are, in one line."""
  num_sites = len(set(sites.addresses.values()))
  return (
      f"{sum(sites.num_rows.values()):,} rows of tables at "
      f"{'1 site' if num_sites == 1 else f'{num_sites:,} sites'}: "
      f"{len(sites.format.encoding.feature_names)} features, and {len(sites.format.classes)} "
      f"classes in the column {sites.format.options.label_column}"
  )
