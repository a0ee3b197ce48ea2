"""The address at which programs reach a worker, and who else can reach it there.

TFF's worker knows no password and no encryption, and listens at all addresses of its machine.
So it is taken off the network where that is allowed, and the address's connections are passed
on to it.
"""

import dataclasses
import errno
import ipaddress
import socket

from clustering_basics import validate
from fl_clustering.distribution import isolation
from fl_clustering.distribution import relay

_DANGER = (
    "can run any TensorFlow graph as this user, and so read and write the user's files; "
    "docs/scaling.md, \"Reaching a worker\", says how to keep them out."
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
  """

  address: str
  port: int
  warning: str | None
  listener: socket.socket | None

  def open(self) -> None:
    """Lets programs in; their connections wait until then."""
    if self.listener is not None:
      relay.start(self.listener, self.port)


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


def take(address: str, port: int) -> Entrance:
  """Takes an address for a worker, and this process off the network where that is allowed.

  Call it before the process starts threads, as imports of TensorFlow do.

  Args:
    address: One of this machine's addresses, or a name for it.
    port: The port at this address.

  Raises:
    ValueError: If there is no such address, or the port can't be used.
  """
  validate.integer(minimum=1, maximum=65535, port=port)
  listener = _listen(address, port)
  try:
    isolation.isolate()
  except OSError as e:
    listener.close()
    with _listen("0.0.0.0", port) as everywhere:
      return Entrance(
          _shown(everywhere), port,
          f"this machine does not allow a network namespace ({e.strerror}), so port {port} is "
          f"open on all its interfaces. Whoever reaches it {_DANGER}",
          listener=None,
      )
  warning = None
  if not ipaddress.ip_address(listener.getsockname()[0]).is_loopback:
    warning = f"whoever reaches {_shown(listener)} {_DANGER}"
  return Entrance(_shown(listener), port, warning, listener)
