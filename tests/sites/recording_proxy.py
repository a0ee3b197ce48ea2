"""Listens in between a site and the operator's server, with both sides' certificates."""

import contextlib
import socket
import ssl
import struct
import threading


# For a server that does not answer yet.
_SECONDS = 5


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
    self._listening, self._calling = _contexts(server, client)
    self._socket = socket.create_server(("127.0.0.1", 0))
    self.port = self._socket.getsockname()[1]
    threading.Thread(target=self._accept, daemon=True).start()

  def close(self):
    self._socket.close()

  def _accept(self):
    while True:
      try:
        site, _ = self._socket.accept()
      except OSError:
        return
      threading.Thread(target=self._serve, args=(site,), daemon=True).start()

  def _serve(self, site):
    with contextlib.suppress(OSError), contextlib.ExitStack() as stack:
      stack.callback(site.close)
      address = "localhost", self._target
      target = stack.enter_context(socket.create_connection(address, timeout=_SECONDS))
      site.settimeout(_SECONDS)
      server = stack.enter_context(
          self._calling.wrap_socket(target, server_hostname="localhost")
      )
      site = stack.enter_context(self._listening.wrap_socket(site, server_side=True))
      for connection in (server, site):
        connection.settimeout(None)
      sent = bytearray()
      self.connections.append(sent)
      back = threading.Thread(target=_pump, args=(server, site, bytearray()), daemon=True)
      back.start()
      _pump(site, server, sent)
      back.join()


def _pump(source, target, record):
  """Passes on what comes, and records it."""
  with contextlib.suppress(OSError):
    while data := source.recv(2**16):
      record += data
      target.sendall(data)
  for one in (source, target):
    with contextlib.suppress(OSError):
      one.shutdown(socket.SHUT_RDWR)


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
