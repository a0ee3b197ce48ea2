"""Takes a process off the network, into a network namespace where it is alone.

Others may join it there.  A worker listens at all addresses, but these are the namespace's own:
nobody else can connect to it, and it can connect to nobody else.

See unshare(2), user_namespaces(7) and network_namespaces(7) of the Linux manual.
"""

import ctypes
import fcntl
import os
import socket
import struct

_CLONE_NEWUSER = 0x10000000
_CLONE_NEWNET = 0x40000000
_SIOCSIFFLAGS = 0x8914
_IFF_UP = 1

_libc = ctypes.CDLL(None, use_errno=True)


def _check(code: int) -> None:
  if code:
    raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def _unshare(namespaces: int) -> None:
  _check(_libc.unshare(namespaces))


def _write(path: str, text: str) -> None:
  with open(path, "w", encoding="ascii") as file:
    file.write(text)


def _enter_as_a_user() -> None:
  """Enters the namespace without privileges, with the same user and group as before."""
  user, group = os.geteuid(), os.getegid()
  _unshare(_CLONE_NEWUSER | _CLONE_NEWNET)
  _write("/proc/self/setgroups", "deny")  # Or else the kernel refuses the map of groups.
  _write("/proc/self/uid_map", f"{user} {user} 1")
  _write("/proc/self/gid_map", f"{group} {group} 1")


def _start_loopback() -> None:
  with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
    # A `struct ifreq`: the interface's name, its flags, padding.
    fcntl.ioctl(any_socket, _SIOCSIFFLAGS, struct.pack("16sh22x", b"lo", _IFF_UP))


def isolate() -> None:
  """Moves this process, without other threads, into a namespace with a loopback alone.

  Raises:
    OSError: If this machine does not allow it.  The process may then be halfway, and can only end.
  """
  try:
    # Root keeps its rights to other users' files only if it keeps its user namespace.
    _unshare(_CLONE_NEWNET)
  except PermissionError:
    _enter_as_a_user()
  _start_loopback()


def join(pid: int) -> None:
  """Moves this process, without other threads, into the namespace of an isolated process.

  Raises:
    OSError: If this machine does not allow it, or the other process has ended.
  """
  for kind in ("user", "net"):  # The first gives the right to enter the second.
    theirs = os.open(f"/proc/{pid}/ns/{kind}", os.O_RDONLY)
    if kind == "net" or not os.path.samestat(os.fstat(theirs), os.stat(f"/proc/self/ns/{kind}")):
      _check(_libc.setns(theirs, 0))
    os.close(theirs)
