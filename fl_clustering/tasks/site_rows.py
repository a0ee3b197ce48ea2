"""The rows of clients at sites, which stay there.

What leaves a site beside what the site says of itself: sums over the training rows of its training
clients, of the features and of their squares about the mean.  Then each client's rows are scaled
and written, at the site, in the format of `engine/client_files.py`.
"""

import collections
import dataclasses
import functools
import hashlib
from typing import Any, Callable, Collection, Iterable, Mapping

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from clustering_basics import validate
from fl_clustering.distribution import site as site_lib
from fl_clustering.distribution import sites as sites_lib
from fl_clustering.tables import table_format
from fl_clustering.tasks import client_rows
from fl_clustering.tasks import examples as examples_lib
from fl_clustering.tasks import federated_task
from fl_clustering.tasks import files
from fl_clustering.tasks import held_out

_DTYPE = "float32"


@dataclasses.dataclass(frozen=True, eq=False)
class _SiteRows(client_rows.ClientRows):
  """Tables at sites."""

  sites: sites_lib.Sites

  @property
  def _has_split(self) -> bool:
    return self.format.options.split_column is not None

  @property
  def _num_columns(self) -> int:
    return len(self.format.encoding.feature_names)

  def told_tests(self) -> held_out.TestRows | None:
    if not self._has_split:
      return None
    counts = {
        client_id: client.num_test for client_id, client in self.sites.clients.items()
        if client.num_test is not None
    }
    return held_out.TestRows(dict.fromkeys(counts, np.zeros(0, bool)), counts)

  def make_clients(
      self, tests: held_out.TestRows, usable: Collection[str], training: Collection[str],
      validation: Mapping[str, np.ndarray],
  ) -> tuple[tuple[federated_task.ClientData, ...], table_format.TableFormat]:
    encoding = self._standardized(tests, [id_ for id_ in usable if id_ in training])
    clients = self._write_files(tests, usable, encoding, validation)
    return clients, dataclasses.replace(self.format, encoding=encoding)

  def _values(
      self, tests: held_out.TestRows, client_ids: Iterable[str], **others: Callable[[str], Any]
  ) -> list[collections.OrderedDict[str, Any]]:
    """Returns what clients are sent: TFF values, with more of them by functions of the id."""
    return [
        collections.OrderedDict(
            points=self.sites.path(client_id, site_lib.POINTS),
            labels=self.sites.path(client_id, site_lib.LABELS),
            is_test=tests.masks[client_id],
            **{name: value(client_id) for name, value in others.items()},
        )
        for client_id in client_ids
    ]

  def _standardized(
      self, tests: held_out.TestRows, client_ids: Collection[str]
  ) -> table_format.FeatureEncoding:
    """Returns the encoding scaled to mean zero and variance one over clients' training rows."""
    count = sum(self.num_rows[client_id] - tests.counts[client_id] for client_id in client_ids)

    def mean_power(power: int, shift: np.ndarray) -> np.ndarray:
      sums = _build_power_sums(self._num_columns, self._has_split, power)
      return sums(self._values(tests, client_ids, shift=lambda client_id: shift)) / count

    mean = mean_power(1, np.zeros(self._num_columns))
    deviation = np.sqrt(mean_power(2, mean))
    factor = table_format.standardizing_factor(mean, deviation)
    return dataclasses.replace(self.format.encoding, shift=mean, factor=factor)

  def _digest(
      self, tests: held_out.TestRows, client_id: str, encoding: table_format.FeatureEncoding,
      is_validation: np.ndarray,
  ) -> str:
    """Returns a digest of all that a client's files are made of and with, in hex."""
    # The name stands for the client's id, its features and the codes of its labels.
    name = self.sites.clients[client_id].name
    digest = hashlib.sha256(repr((self.sites.digest, name)).encode())
    for array in (tests.masks[client_id], encoding.shift, encoding.factor, is_validation):
      if array is not None:
        digest.update(array.tobytes())
    return digest.hexdigest()

  def _write_files(
      self, tests: held_out.TestRows, client_ids: Collection[str],
      encoding: table_format.FeatureEncoding, validation: Mapping[str, np.ndarray],
  ) -> tuple[federated_task.ClientData, ...]:
    """Has the sites write the files of clients."""
    masks = {
        c: validation.get(c, np.zeros(self.num_rows[c] - tests.counts[c], bool))
        for c in client_ids
    }
    digests = {c: self._digest(tests, c, encoding, masks[c]) for c in client_ids}

    def path_of(part: str) -> Callable[[str], str]:
      return lambda client_id: self.sites.path(client_id, f".{digests[client_id][:32]}.{part}")

    written = _build_write(self._num_columns, self._has_split)(self._values(
        tests,
        client_ids,
        shift=lambda client_id: encoding.shift,
        factor=lambda client_id: encoding.factor,
        is_validation=lambda client_id: masks[client_id],
        **{part: path_of(part) for part in site_lib.PARTS},
    ))
    clients = []
    for client_id, numbers in zip(client_ids, written):
      mask, num_test = masks[client_id], tests.counts[client_id]
      expected = int((~mask).sum()), int(mask.sum()), num_test
      if tuple(numbers) != expected:
        raise ValueError(
            f"the site at {self.sites.addresses[client_id]} must have the rows that it says it "
            f"has, got {sum(numbers)} for client {client_id!r}."
        )
      train, held, test = (
          examples_lib.RemoteExamples(
              path_of(part)(client_id), number, (self._num_columns,), _DTYPE,
              len(self.format.classes or ()), f"{part} of {digests[client_id]}",
          )
          for part, number in zip(site_lib.PARTS, expected)
      )
      clients.append(federated_task.ClientData(
          client_id, train, test, validation=held if len(held) else None
      ))
    return tuple(clients)


def open_rows(sites: sites_lib.Sites) -> client_rows.ClientRows:
  """Returns the rows of the clients at sites.

  Raises:
    ValueError: If the clients have no tables, or these have less than two classes.
  """
  places = list(dict.fromkeys(sites.addresses.values()))
  addresses = ",".join(places)
  if not isinstance(sites.format, table_format.TableFormat):
    raise validate.error(
        "workers", "be sites whose clients have a table each, not views", addresses
    )
  if sites.format.classes is None:
    raise validate.error(
        "workers", "be sites that were started with `label_column`", addresses
    )
  files.check_classes(sites.format)
  where = "at 1 site" if len(places) == 1 else f"at {len(places):,} sites"
  return _SiteRows("workers", addresses, where, sites.format, sites.num_rows, sites)


def _client_type(num_columns: int, *others: str) -> Any:
  """Returns the TFF type of what `_SiteRows._values` returns for a client."""
  kinds = {
      "shift": tff.TensorType(np.float64, [num_columns]),
      "factor": tff.TensorType(np.float64, [num_columns]),
      "is_validation": tff.TensorType(np.bool_, [None]),
      **dict.fromkeys(site_lib.PARTS, np.str_),
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


def _read(client: Mapping[str, Any], num_columns: int, has_split: bool) -> tuple[Any, Any, Any]:
  """Returns a client's features less `shift`, its labels, and which rows are for testing."""
  points = tf.io.decode_raw(tf.io.read_file(client["points"]), tf.float64)
  labels = tf.io.decode_raw(tf.io.read_file(client["labels"]), tf.int64)
  labels, splits = tf.unstack(tf.reshape(labels, [-1, 2]), axis=1)
  is_test = splits > 0 if has_split else client["is_test"]
  return tf.reshape(points, [-1, num_columns]) - client["shift"], labels, is_test


@functools.cache
def _build_power_sums(num_columns: int, has_split: bool, power: int) -> Any:
  """Returns `{client}@CLIENTS -> float64@SERVER`: sums over the training rows, (num_columns,).

  What is added up is a power of the features less `shift`.
  """
  client_type = _client_type(num_columns, "shift")

  @tff.tensorflow.computation(client_type)
  def local_sums(client: Any) -> Any:
    points, _, is_test = _read(client, num_columns, has_split)
    return tf.reduce_sum(tf.boolean_mask(points, ~is_test) ** power, axis=0)

  @tff.federated_computation(tff.FederatedType(client_type, tff.CLIENTS))
  def power_sums(clients: Any) -> Any:
    return tff.federated_sum(tff.federated_map(local_sums, clients))

  return power_sums


def _bytes(rows: tf.Tensor) -> tf.Tensor:
  """Returns a matrix of float32 as a string of its bytes."""
  message = tf.io.serialize_tensor(rows)
  # A message of `TensorProto` ends with its `tensor_content`.
  num_bytes = rows.dtype.size * tf.size(rows)
  return tf.strings.substr(message, tf.strings.length(message) - num_bytes, num_bytes)


def _write_unless_there(path: tf.Tensor, content: tf.Tensor) -> tf.Tensor:
  """Writes a file unless it has as many bytes already; its name says what is in it."""

  def is_whole() -> tf.Tensor:
    return tf.equal(tf.strings.length(tf.io.read_file(path)), tf.strings.length(content))

  def write() -> tf.Tensor:
    with tf.control_dependencies([tf.io.write_file(path, content)]):
      return tf.constant(True)

  is_there = tf.cond(tf.size(tf.io.matching_files(path)) > 0, is_whole, lambda: False)
  return tf.cond(is_there, lambda: True, write)


@functools.cache
def _build_write(num_columns: int, has_split: bool) -> Any:
  """Returns `{client}@CLIENTS -> {int32}@CLIENTS`: writes the scaled rows of each part.

  The result is each client's numbers of rows for training, validation and testing, of shape (3,).
  """
  client_type = _client_type(num_columns, "shift", "factor", "is_validation", *site_lib.PARTS)

  @tff.tensorflow.computation(client_type)
  def write(client: Any) -> Any:
    points, labels, is_test = _read(client, num_columns, has_split)
    rows = tf.concat(
        [tf.cast(points * client["factor"], _DTYPE), tf.cast(labels, _DTYPE)[:, tf.newaxis]],
        axis=1,
    )
    train, test = tf.boolean_mask(rows, ~is_test), tf.boolean_mask(rows, is_test)
    # A site that has other rows than it says is told by the numbers below.
    is_validation = tf.cond(
        tf.equal(tf.size(client["is_validation"]), tf.shape(train)[0]),
        lambda: client["is_validation"], lambda: tf.zeros(tf.shape(train)[:1], tf.bool),
    )
    parts = tf.boolean_mask(train, ~is_validation), tf.boolean_mask(train, is_validation), test
    numbers = []
    for part, of_part in zip(site_lib.PARTS, parts):
      with tf.control_dependencies([_write_unless_there(client[part], _bytes(of_part))]):
        numbers.append(tf.identity(tf.shape(of_part)[0]))
    return tf.stack(numbers)

  @tff.federated_computation(tff.FederatedType(client_type, tff.CLIENTS))
  def write_all(clients: Any) -> Any:
    return tff.federated_map(write, clients)

  return write_all
