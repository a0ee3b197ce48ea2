"""Lends this machine as a worker until Ctrl-C: the flags, and what happens in which order."""

from experiment_shell import launch  # First, for Ctrl-C while the others are imported.

import os
import signal
import subprocess
import sys
import time
import types
from typing import Any, Callable

from absl import flags

from clustering_basics import validate
from experiment_shell import interrupts
from experiment_shell import path_flag
from experiments import token_flag
from fl_clustering.distribution import entrance as entrance_lib
from fl_clustering.distribution import worker_folder

_MAX_CORES = 1024
_POLL_SECONDS = 0.2

# The flags belong to the programs that adopt them, for `--help`.
flags.adopt_module_key_flags(token_flag)
flags.DEFINE_integer("port", None, "The port at which programs reach the worker.")
flags.DEFINE_string(
    "address", "127.0.0.1",
    "The address at which programs reach the worker. At any but this machine's own, others can "
    "use it too, with all the rights of this user.")
flags.DEFINE_bool(
    "allow_open_port", False,
    "Whether the worker's port may be open on all interfaces of this machine, without a token, "
    "where the system does not allow a network namespace, such as in most containers. The program "
    "refuses to run there otherwise.")
path_flag.define(
    "cache_dir", None,
    "Folder for the clients' files that the worker computes with. They stay there, to be used "
    "again.")
flags.DEFINE_integer(
    "num_cores", None, "How many clients are computed at a time. Default: the number of cores.")


def check_given(*names: str) -> None:
  """Raises a ValueError if one of these flags was not given."""
  for name in names:
    if flags.FLAGS[name].value is None:
      raise validate.error(name, "be given", None)


def _end(unused_signal: int, unused_frame: types.FrameType | None) -> None:
  # An exception would be lost in imports of extension modules, which drop it.  There is nothing
  # to clean up but files: the worker ends with this process.
  interrupts.leave(0)


def _handle_signals() -> None:
  for number in (signal.SIGINT, signal.SIGTERM):
    if signal.getsignal(number) != signal.SIG_IGN:
      signal.signal(number, _end)


def _code_at_end(process: subprocess.Popen) -> int:
  """Returns the exit code of a process, once it has ended."""
  # Not `process.wait()`: a signal between Python's last look and the system's call would be
  # handled when the process ends by itself.
  while process.poll() is None:
    time.sleep(_POLL_SECONDS)
  return process.returncode


def _run(
    entrance: entrance_lib.Entrance, folder: str, num_cores: int, open_site: Callable[[str], Any],
    line: Callable[[str, str, Any], str],
) -> None:
  from fl_clustering.distribution import serving  # pylint: disable=g-import-not-at-top; has threads.

  _handle_signals()
  site = open_site(folder)
  if entrance.warning is not None:  # After all bad input, which is one line.
    print(f"warning: {entrance.warning}", file=sys.stderr)
  document = None if site is None else site.to_json()
  cores = "1 core" if num_cores == 1 else f"{num_cores} cores"
  try:
    with serving.worker(entrance, folder, num_cores, document) as process:
      print(f"{line(entrance.address, cores, site)}; end it with Ctrl-C", flush=True)
      code = _code_at_end(process)
  except serving.WorkerNotStarted as e:
    raise launch.RunFailed(str(e)) from e
  raise launch.RunFailed(serving.end_text(code))


def run(
    line: Callable[[str, str, Any], str], open_site: Callable[[str], Any] = lambda folder: None
) -> None:
  """Runs a worker as the flags say.

  Args:
    line: A function from the worker's address, its cores in words and its site to the line that
      is printed once it answers.
    open_site: A function from the worker's folder to the `site.Site` of the clients that it
      owns, or None.  It is called when the process has left the network and may start threads.

  Raises:
    launch.InputError: If flags or files can't be used.
    launch.RunFailed: If the worker ends.
  """
  given = flags.FLAGS
  num_cores = given.num_cores
  if num_cores is None:
    num_cores = len(os.sched_getaffinity(0))
  with launch.input_errors():
    check_given("port", "cache_dir")
    validate.integer(minimum=1, maximum=_MAX_CORES, num_cores=num_cores)
    with worker_folder.claim(given.cache_dir):
      entrance = entrance_lib.take(
          given.address, given.port, given.allow_open_port, given.token_file
      )
      _run(entrance, given.cache_dir, num_cores, open_site, line)
