"""A relay before a worker that records what leaves it, byte by byte, and can be cut."""

import collections
import dataclasses
import socket
import struct
import threading

import numpy as np
import tensorflow_federated as tff
from tensorflow_federated.proto.v0 import executor_pb2
from tensorflow_federated.python.core.impl.executors import value_serialization

_FRAME_HEADER_BYTES = 9
_DATA_FRAME = 0
_PADDED = 0x8
# gRPC's flag of compression and the length of a message.
_MESSAGE_HEADER = struct.Struct(">BI")


@dataclasses.dataclass(frozen=True)
class Sent:
  """What left a worker.

  Attributes:
    values: All arrays, numbers and texts that programs were told, a list of arrays.
    num_bytes: Number of all bytes, the protocol's included.
    num_messages: Number of gRPC's messages.
  """

  values: list
  num_bytes: int
  num_messages: int


def _messages(stream):
  """Yields the messages of gRPC in what one side of a connection sent, by HTTP/2 (RFC 9113)."""
  data, start = collections.defaultdict(bytearray), 0
  while start + _FRAME_HEADER_BYTES <= len(stream):
    length = int.from_bytes(stream[start : start + 3])
    kind, flags = stream[start + 3 : start + 5]
    stream_id = int.from_bytes(stream[start + 5 : start + 9])
    start += _FRAME_HEADER_BYTES
    if kind == _DATA_FRAME:
      assert not flags & _PADDED
      data[stream_id] += stream[start : start + length]
    start += length
  for of_stream in data.values():
    place = 0
    while place < len(of_stream):
      compressed, length = _MESSAGE_HEADER.unpack_from(of_stream, place)
      assert not compressed
      place += _MESSAGE_HEADER.size
      yield bytes(of_stream[place : place + length])
      place += length


def _values(message):
  """Returns the arrays that a message tells a program; most messages tell it none."""
  response = executor_pb2.ComputeResponse.FromString(message)
  if response.value.WhichOneof("value") is None:
    return []
  value, _ = value_serialization.deserialize_value(response.value)
  leaves = tff.structure.flatten(tff.structure.from_container([value], recursive=True))
  return [np.asarray(leaf) for leaf in leaves]


class RecordingRelay:
  """Passes on connections to a worker at an address of its own.

  Attributes:
    address: Where programs reach the worker through the relay.
  """

  def __init__(self, test, worker_address):
    """Starts the relay, which ends with the test.

    Args:
      test: The test case.
      worker_address: The worker's host and port.
    """
    host, _, port = worker_address.rpartition(":")
    self._worker = host, int(port)
    self._recorded = []
    self._is_whole = threading.Event()
    self._is_whole.set()
    self._listener = socket.create_server(("127.0.0.1", 0))
    test.addCleanup(self._listener.close)
    self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
    threading.Thread(target=self._accept, daemon=True).start()

  def _accept(self):
    while True:
      try:
        program, _ = self._listener.accept()
      except OSError:  # It was closed.
        return
      try:
        worker = socket.create_connection(self._worker)
      except ConnectionRefusedError:  # It has not started yet, or has ended.
        program.close()
        continue
      recorded = bytearray()
      self._recorded.append(recorded)
      for ends in ((program, worker, bytearray()), (worker, program, recorded)):
        threading.Thread(target=self._copy, args=ends, daemon=True).start()

  def _copy(self, source, sink, recorded):
    try:
      while piece := source.recv(2**16):
        self._is_whole.wait()
        recorded += piece
        sink.sendall(piece)
      sink.shutdown(socket.SHUT_WR)
    except OSError:
      source.close()
      sink.close()

  def cut(self):
    """Lets nothing through from now on; both sides keep their connections."""
    self._is_whole.clear()

  def mend(self):
    """Lets everything through again, also what came meanwhile."""
    self._is_whole.set()

  def streams(self):
    """Returns what the worker sent in each connection, bytes."""
    return [bytes(recorded) for recorded in self._recorded]

  def sent(self):
    """Returns what left the worker so far, as `Sent`."""
    streams = self.streams()
    messages = [message for stream in streams for message in _messages(stream)]
    return Sent(
        [value for message in messages for value in _values(message)],
        sum(map(len, streams)),
        len(messages),
    )
