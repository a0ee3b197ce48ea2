"""Runs short programs, each in a fork of a process that has imported most of what they need."""

import importlib
import json
import os
import runpy
import sys
import traceback

# They define no flags, of which every program has its own.
_IMPORTED = (
    "cryptography.x509", "experiment_shell.tidy_report", "experiments.cluster_tables.at_sites",
    "fl_clustering.sites.coordinator", "fl_clustering.tables.read", "pandas",
)


def _serve():
  """Answers lines of JSON, (folder, environment, output, arguments), with the programs' codes."""
  for name in _IMPORTED:
    importlib.import_module(name)
  for folder, environment, output, arguments in map(json.loads, sys.stdin):
    pid = os.fork()
    if not pid:
      os.chdir(folder)
      os.environ.clear()
      os.environ.update(environment)
      file = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
      os.dup2(file, 1)
      os.dup2(file, 2)
      sys.argv = arguments
      code = 0
      try:
        runpy.run_module(arguments[0], run_name="__main__", alter_sys=True)
      except SystemExit as e:
        code = e.code or 0
        if isinstance(code, str):  # As Python does.
          print(code, file=sys.stderr)
          code = 1
      except BaseException:  # pylint: disable=broad-exception-caught
        traceback.print_exc()
        code = 1
      sys.stdout.flush()
      sys.stderr.flush()
      os._exit(code)  # To take all modules apart would take longer than the program.
    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)


if __name__ == "__main__":
  _serve()
