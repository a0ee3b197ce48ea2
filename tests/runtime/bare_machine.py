"""Runs a command as a container does: without `unshare`.

`bazel test --run_under=//tests/runtime:bare_machine TESTS` runs tests so.
"""

import ctypes
import os
import struct
import sys

# See prctl(2), seccomp(2) and unshare(2) of the Linux manual.
_PR_SET_SECCOMP, _PR_SET_NO_NEW_PRIVS = 22, 38
_SECCOMP_MODE_FILTER = 2
_LOAD, _JUMP_IF_EQUAL, _RETURN = 0x20, 0x15, 0x06
_ALLOW, _EPERM = 0x7FFF0000, 0x00050001
_UNSHARE_ON_X86_64 = 272

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


if __name__ == "__main__":
  refuse_unshare()
  os.execvp(sys.argv[1], sys.argv[1:])
