"""Files that a worker needs and that this machine has, sent once and kept by their content.

They travel as values of a TFF computation, which writes them to the worker's folder.  A
file's name there is the digest of its content: whoever asks for the same content again, in
this run or another, finds it.
"""

import hashlib
import os
from typing import Mapping, Sequence

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

# Of contents in one message.
_MESSAGE_BYTES = 64 * 2**20
_STRINGS = tff.TensorType(np.str_, [None])


class LocalFiles:
  """The names of this machine's files at workers."""

  def __init__(self) -> None:
    self._names: dict[tuple[str, int, int, int], str] = {}

  def name(self, path: str) -> str:
    """Returns the name that a file, of this absolute path, has at every worker."""
    status = os.stat(path)
    file_id = path, status.st_ino, status.st_size, status.st_mtime_ns
    if file_id not in self._names:
      with open(path, "rb") as file:
        digest = hashlib.sha256(file.read()).hexdigest()
      self._names[file_id] = f"{digest}.client"
    return self._names[file_id]


@tff.tensorflow.computation(_STRINGS)
def _sizes(names: tf.Tensor) -> tf.Tensor:
  def size(name: tf.Tensor) -> tf.Tensor:
    # A file that was being written when its worker ended is too short.
    return tf.cond(
        tf.size(tf.io.matching_files(name)) > 0,
        lambda: tf.strings.length(tf.io.read_file(name)),
        lambda: -1,
    )

  return tf.map_fn(size, names, fn_output_signature=tf.int32)


@tff.tensorflow.computation(_STRINGS, _STRINGS)
def _write(names: tf.Tensor, contents: tf.Tensor) -> tf.Tensor:
  def write(pair: tuple[tf.Tensor, tf.Tensor]) -> tf.Tensor:
    with tf.control_dependencies([tf.io.write_file(*pair)]):
      return tf.strings.length(pair[1])

  return tf.map_fn(write, (names, contents), fn_output_signature=tf.int32)


def _strings(values: Sequence[str | bytes]) -> np.ndarray:
  return np.array(values, np.object_)


class WorkerFiles:
  """The files that one worker has."""

  def __init__(self, context: tff.framework.SyncContext, local_files: LocalFiles):
    """Takes the context that computes at the worker; no file is known to be there."""
    self._context = context
    self._local_files = local_files
    self._present: set[str] = set()

  def send(self, paths: Sequence[str]) -> None:
    """Sends the files, of these absolute paths, that the worker does not have."""
    asked = {self._local_files.name(path): path for path in paths}
    asked = {name: path for name, path in asked.items() if name not in self._present}
    if not asked:
      return
    with tff.framework.get_context_stack().install(self._context):
      self._find(asked)
      self._send_missing(asked)

  def _find(self, asked: Mapping[str, str]) -> None:
    for (name, path), size in zip(asked.items(), _sizes(_strings(list(asked)))):
      if size == os.path.getsize(path):
        self._present.add(name)

  def _send_missing(self, asked: Mapping[str, str]) -> None:
    batch: dict[str, bytes] = {}
    for name in asked.keys() - self._present:
      with open(asked[name], "rb") as file:
        batch[name] = file.read()
      if sum(map(len, batch.values())) >= _MESSAGE_BYTES:
        self._send(batch)
        batch.clear()
    if batch:
      self._send(batch)

  def _send(self, contents: Mapping[str, bytes]) -> None:
    _write(_strings(list(contents)), _strings(list(contents.values())))
    self._present.update(contents)
