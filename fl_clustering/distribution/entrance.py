"""The address at which programs reach a worker, and who else can reach it there.

TFF's worker knows no password and no encryption, and listens at all addresses of its machine.
So it is taken off the network, and the address's connections are passed on to it: all of them, or
those that begin with a token.  Where the system does not allow that, the worker's port is open on
all interfaces, if the user says so.
"""

import dataclasses
import errno
import ipaddress
import socket

from clustering_basics import validate
from fl_clustering.distribution import isolation
from fl_clustering.distribution import relay
from fl_clustering.distribution import token_file as token_file_lib

_DANGER = (
    "can run any TensorFlow graph as this user, and so read and write the user's files; "
    "docs/workers.md, \"Reaching a worker\", says how to keep them out."
)


@dataclasses.dataclass(frozen=True)
class Entrance:
  """Where a worker can be reached.

  Attributes:
    address: The address and port, as a program is given them.
    port: The port that the worker must open.
    warning: What a stranger can do, in one line; `None` if the worker can be reached from
      this machine only.
    listener: The socket whose connections are passed on to the worker; `None` if the worker
      is on the network itself.
    token: What a connection must begin with; empty if anyone is let in.
  """

  address: str
  port: int
  warning: str | None
  listener: socket.socket | None
  token: bytes = b""

  def open(self) -> None:
    """Lets programs in; their connections wait until then."""
    if self.listener is not None:
      worker = "127.0.0.1", self.port
      relay.start(self.listener, lambda: socket.create_connection(worker), self.token)


def _listen(address: str, port: int) -> socket.socket:
  """Returns a socket that listens at an address.

  Raises:
    ValueError: If the port is in use or not allowed, or the address is no one's or another
      machine's.
  """
  try:
    family, _, _, _, where = socket.getaddrinfo(address, port, type=socket.SOCK_STREAM)[0]
    return socket.create_server(where, family=family)
  except OSError as e:
    if e.errno == errno.EADDRINUSE:
      raise validate.error("port", "be one that no other program uses", port) from e
    if e.errno == errno.EACCES:
      raise validate.error("port", "be one that this user may open", port) from e
    if e.errno == errno.EADDRNOTAVAIL or isinstance(e, socket.gaierror):
      raise validate.error("address", "be one of this machine's", address) from e
    raise


def _shown(listener: socket.socket) -> str:
  host, port = listener.getsockname()[:2]
  return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _take_open_port(
    port: int, reason: OSError, may_be_open: bool, token_file: str | None
) -> Entrance:
  """Returns the entrance of a worker on the network; raises ValueError if it must not be there."""
  system = f"this machine does not allow a network namespace ({reason.strerror})"
  if token_file is not None:
    rule = f"be left out where {system}: strangers would reach the worker's port without it"
    raise validate.error("token_file", rule, token_file)
  if not may_be_open:
    rule = f"be given where {system}, so port {port} would be open on all its interfaces"
    raise validate.error("allow_open_port", rule, may_be_open)
  with _listen("0.0.0.0", port) as everywhere:
    return Entrance(
        _shown(everywhere), port,
        f"{system}, so port {port} is open on all its interfaces. Whoever reaches it {_DANGER}",
        listener=None,
    )


def take(
    address: str, port: int, may_be_open: bool = False, token_file: str | None = None
) -> Entrance:
  """Takes an address for a worker, and this process off the network.

  Call it before the process starts threads, as imports of TensorFlow do.

  Args:
    address: One of this machine's addresses, or a name for it.
    port: The port at this address.
    may_be_open: Whether the worker may be on the network where the system allows nothing else.
    token_file: The file of the token, if connections must begin with one.

  Raises:
    ValueError: If there is no such address or token, the port can't be used, or the worker would
      have to be on the network.
  """
  validate.integer(minimum=1, maximum=65535, port=port)
  token = b"" if token_file is None else token_file_lib.read(token_file)
  listener = _listen(address, port)
  try:
    isolation.isolate()
  except OSError as e:
    listener.close()
    return _take_open_port(port, e, may_be_open, token_file)
  warning = None
  if not ipaddress.ip_address(listener.getsockname()[0]).is_loopback:
    who = "whoever reaches" if token_file is None else "whoever has the token and reaches"
    warning = f"{who} {_shown(listener)} {_DANGER}"
  return Entrance(_shown(listener), port, warning, listener, token)
