"""Lends this machine to programs that compute on several, until Ctrl-C.

  ./bazelw run tools:worker -- --port=8000 --cache_dir=folder

A program uses it with `--workers=HOST:PORT`.  Whoever reaches the port can do what this user
can, so it is open at this machine's own address by default; docs/scaling.md says how programs
on other machines get there.
"""

from experiment_shell import launch  # First, for Ctrl-C while the others are imported.

import os
import signal
import sys

from absl import flags

from clustering_basics import validate
from experiment_shell import path_flag
from fl_clustering.workers import entrance as entrance_lib
from fl_clustering.workers import worker_folder

_MAX_CORES = 1024

flags.DEFINE_integer("port", None, "The port at which programs reach the worker.")
flags.DEFINE_string(
    "address", "127.0.0.1",
    "The address at which programs reach the worker. At any but this machine's own, others can "
    "use it too, with all the rights of this user.")
path_flag.define(
    "cache_dir", None,
    "Folder for the clients' files that programs send. They stay there, to be used again.")
flags.DEFINE_integer(
    "num_cores", None, "How many clients are computed at a time. Default: the number of cores.")


def _end(unused_signal, unused_frame):
  sys.exit(0)


def _handle_signals():
  for number in (signal.SIGINT, signal.SIGTERM):
    if signal.getsignal(number) != signal.SIG_IGN:
      signal.signal(number, _end)


def _run(entrance, folder, num_cores):
  from fl_clustering.workers import serving  # pylint: disable=g-import-not-at-top; has threads.

  _handle_signals()
  cores = "1 core" if num_cores == 1 else f"{num_cores} cores"
  try:
    with launch.input_errors(), serving.worker(entrance, folder, num_cores) as process:
      print(
          f"worker at {entrance.address}, {cores}, files in {folder}; end it with Ctrl-C",
          flush=True,
      )
      code = process.wait()
  except serving.WorkerNotStarted as e:
    raise launch.RunFailed(str(e)) from e
  raise launch.RunFailed(serving.end_text(code))


def main():
  given = flags.FLAGS
  num_cores = given.num_cores
  if num_cores is None:
    num_cores = len(os.sched_getaffinity(0))
  with launch.input_errors():
    for name in ("port", "cache_dir"):
      if given[name].value is None:
        raise validate.error(name, "be given", None)
    validate.integer(minimum=1, maximum=_MAX_CORES, num_cores=num_cores)
    with worker_folder.claim(given.cache_dir):
      entrance = entrance_lib.take(given.address, given.port)
      if entrance.warning is not None:
        print(f"warning: {entrance.warning}", file=sys.stderr)
      _run(entrance, given.cache_dir, num_cores)


if __name__ == "__main__":
  launch.run(main)
