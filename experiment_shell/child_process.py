"""Runs functions of this project in processes, or Python environments, of their own.

A process runs a module's function `serve(requests, answer)`.  It reads requests from standard
input and writes answers to standard output, one line of JSON each.  Whatever else it prints goes
to standard error, of which the last line is kept for messages.

A process imports this module too, maybe in an environment without this project's packages.  So
only the standard library is imported here, and what the program alone needs where it needs it.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from typing import Any, BinaryIO, Sequence

_FILE = os.path.abspath(__file__)
# From where this project is imported.
PROJECT_FOLDER = os.path.dirname(os.path.dirname(_FILE))
_SECONDS_TO_END = 10
_PR_SET_PDEATHSIG = 1


class Failed(Exception):
  """A process ended or does not answer as it should; the message says why."""


def end_with_parent(parent_pid: int) -> None:
  """Has the kernel end this process when its parent ends, `kill -9` included.

  If the parent has ended already, so does this process.
  """
  ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
  if os.getppid() != parent_pid:
    sys.exit(1)


def last_line(errors: BinaryIO) -> str:
  """Returns the last line with text in it of a process's standard error, "" if there is none.

  If that is an exception, it says where it was raised.
  """
  errors.seek(0)
  text = errors.read().decode(errors="replace")
  lines = map(str.strip, text.split("\n"))
  last = next(filter(None, reversed(list(lines))), "")
  raised = re.search(r'\n  File "(.+)", line ([0-9]+).*\n(?:    .*\n)*\S.*\s*\Z', text)
  return f"{last} ({raised[1]}, line {raised[2]})" if raised else last


def serving(module: str, python: str) -> list[str]:
  """Returns the command of a process that runs a module's `serve`.

  Args:
    python: Path of a Python that has the packages that the module imports, and that shall see no
      others.
  """
  return [python, "-I", _FILE, str(os.getpid()), module]


class ChildProcess:
  """A process that answers requests; a context manager that ends it."""

  def __init__(self, command: Sequence[str]) -> None:
    """Starts the process; OSError if it can't be started."""
    self._errors = tempfile.TemporaryFile()
    try:
      self._process = subprocess.Popen(
          command,
          stdin=subprocess.PIPE,
          stdout=subprocess.PIPE,
          stderr=self._errors,
          # Ctrl-C is for the program, which ends its processes.
          start_new_session=True,
      )
    except OSError:
      self._errors.close()
      raise
    assert self._process.stdin and self._process.stdout  # As types can't say.
    self._requests, self._answers = self._process.stdin, self._process.stdout
    self.pid = self._process.pid

  def __enter__(self) -> ChildProcess:
    return self

  def __exit__(self, *unused_exception: object) -> None:
    self.close()

  def send(self, request: Any) -> None:
    """Sends a request, a value for JSON."""
    # If the process has ended, whoever reads its answer is told.
    with contextlib.suppress(BrokenPipeError):
      self._requests.write(json.dumps(request).encode() + b"\n")
      self._requests.flush()

  def answer(self) -> Any:
    """Returns the next answer; `Failed` if there is none."""
    line = self._answers.readline()
    if not line.endswith(b"\n"):
      ending = self.ending()
      raise Failed("it closed its output" if ending is None else f"it ended with {ending}")
    try:
      return json.loads(line)
    except ValueError as e:
      raise Failed(f"its answer is no JSON: {line[:80]!r}") from e

  def ending(self) -> str | None:
    """Returns the exit code and the last words as text; None if the process does not end."""
    try:
      code = self._process.wait(timeout=_SECONDS_TO_END)
    except subprocess.TimeoutExpired:
      return None
    return ": ".join(filter(None, (f"code {code}", last_line(self._errors))))

  def close(self) -> None:
    """Ends the process and all that it has started."""
    import psutil  # pylint: disable=g-import-not-at-top

    if self._errors.closed:
      return
    family = []
    if self._process.poll() is None:  # Or else its number may be that of another process by now.
      root = psutil.Process(self.pid)
      family = [root, *root.children(recursive=True)]
    for process in family:
      with contextlib.suppress(psutil.NoSuchProcess):
        process.kill()
    self._process.kill()
    self._process.communicate()
    psutil.wait_procs(family, timeout=_SECONDS_TO_END)
    self._errors.close()


def _main() -> None:
  """Runs a module's `serve` in this process."""
  parent_pid, module = sys.argv[1:]
  end_with_parent(int(parent_pid))
  # Whatever else prints must not be taken for an answer.
  answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
  os.dup2(2, 1)
  sys.stdout = sys.stderr  # Or else what was printed would come after the error, at the end.

  def answer(value: Any) -> None:
    answers.write(json.dumps(value) + "\n")
    answers.flush()

  # Last: where this project is installed, packages for its own Python lie beside it.
  sys.path.append(PROJECT_FOLDER)
  importlib.import_module(module).serve(map(json.loads, sys.stdin), answer)


if __name__ == "__main__":
  _main()
