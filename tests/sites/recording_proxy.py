"""Listens in between a site and the operator's server, with both sides' certificates."""

import asyncio
import contextlib
import ssl
import struct
import threading


def _contexts(server, client):
  """Returns TLS contexts from folders: that of a server's files, and that of a client's."""
  listening = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
  listening.load_cert_chain(f"{server}/server.crt", f"{server}/server.key")
  listening.load_verify_locations(f"{server}/rootCA.pem")
  listening.verify_mode = ssl.CERT_REQUIRED
  calling = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
  calling.load_cert_chain(f"{client}/client.crt", f"{client}/client.key")
  calling.load_verify_locations(f"{client}/rootCA.pem")
  return listening, calling


class RecordingProxy:
  """Passes on all connections of one site.

  Attributes:
    port: Where it listens.
    connections: What the site sent, a bytearray per connection.
  """

  def __init__(self, server, client, port):
    self.connections = []
    self._target = port
    listening, self._calling = _contexts(server, client)
    self._loop = asyncio.new_event_loop()
    self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
    self._thread.start()
    starting = asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=listening)
    self._server = asyncio.run_coroutine_threadsafe(starting, self._loop).result()
    self.port = self._server.sockets[0].getsockname()[1]

  def close(self):
    self._loop.call_soon_threadsafe(self._server.close)
    self._loop.call_soon_threadsafe(self._loop.stop)
    self._thread.join()

  async def _serve(self, reader, writer):
    try:
      from_server, to_server = await asyncio.open_connection(
          "127.0.0.1", self._target, ssl=self._calling
      )
    except OSError:  # It isn't there yet.
      writer.close()
      return
    sent = bytearray()
    self.connections.append(sent)
    await asyncio.gather(
        _pump(reader, to_server, sent), _pump(from_server, writer, bytearray())
    )


async def _pump(reader, writer, record):
  """Passes on what comes, and records it."""
  with contextlib.suppress(OSError):
    while data := await reader.read(2**16):
      record += data
      writer.write(data)
      await writer.drain()
  writer.close()


def payloads(sent):
  """Returns what a client's WebSocket connection carried, without masks, in order."""
  place, found = sent.index(b"\r\n\r\n") + 4, bytearray()
  while place + 2 <= len(sent):
    length, is_masked = sent[place + 1] & 127, sent[place + 1] & 128
    place += 2
    if length >= 126:
      form = ">H" if length == 126 else ">Q"
      (length,) = struct.unpack_from(form, sent, place)
      place += struct.calcsize(form)
    key = bytes(sent[place : place + 4]) if is_masked else bytes(4)
    place += 4 if is_masked else 0
    body = sent[place : place + length]
    whole = (key * (len(body) // 4 + 1))[: len(body)]
    found += (int.from_bytes(body, "big") ^ int.from_bytes(whole, "big")).to_bytes(len(body), "big")
    place += length
  return bytes(found)
