"""Runs a command as a container does: no `unshare`, and no hosts file where that can be hidden.

`bazel test --run_under=//tests/distribution:bare_machine TESTS` runs tests so.
"""

import ctypes
import os
import struct
import sys

# See prctl(2), seccomp(2), unshare(2) and mount(2) of the Linux manual.
_PR_SET_SECCOMP, _PR_SET_NO_NEW_PRIVS = 22, 38
_SECCOMP_MODE_FILTER = 2
_LOAD, _JUMP_IF_EQUAL, _RETURN = 0x20, 0x15, 0x06
_ALLOW, _EPERM = 0x7FFF0000, 0x00050001
_UNSHARE_ON_X86_64 = 272
_CLONE_NEWNS, _CLONE_NEWUSER = 0x00020000, 0x10000000
_MS_BIND = 4096

_libc = ctypes.CDLL(None, use_errno=True)


def _check(code):
  if code:
    raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def refuse_unshare():
  """Has the kernel refuse `unshare` to this thread and to all processes that it starts."""
  instructions = (
      (_LOAD, 0, 0, 0),  # The system call's number.
      (_JUMP_IF_EQUAL, 0, 1, _UNSHARE_ON_X86_64),
      (_RETURN, 0, 0, _EPERM),
      (_RETURN, 0, 0, _ALLOW),
  )
  code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *each) for each in instructions))
  program = struct.pack("HxxxxxxP", len(instructions), ctypes.addressof(code))
  _check(_libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
  _check(_libc.prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, program))


def _hide_hosts_file():
  user, group = os.geteuid(), os.getegid()
  _check(_libc.unshare(_CLONE_NEWNS | _CLONE_NEWUSER))
  for name, text in (
      ("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")
  ):
    with open(f"/proc/self/{name}", "w", encoding="ascii") as file:
      file.write(text)
  _check(_libc.mount(b"/dev/null", b"/etc/hosts", None, _MS_BIND, None))


def _error_of(action):
  """Returns the number of an action's OSError, or 0; tried in a process that ends at once."""
  child = os.fork()
  if not child:
    try:
      action()
      os._exit(0)
    except OSError as e:
      os._exit(e.errno)
  return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def main():
  error = _error_of(_hide_hosts_file)
  if error:
    print(f"bare_machine: /etc/hosts stays ({os.strerror(error)}).", file=sys.stderr)
  else:
    _hide_hosts_file()
  refuse_unshare()
  os.execvp(sys.argv[1], sys.argv[1:])


if __name__ == "__main__":
  main()
