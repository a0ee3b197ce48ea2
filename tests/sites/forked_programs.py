"""Runs short programs, each in a fork of a process that has imported most of what they need."""

import os
import runpy
import sys

# Without flags, of which every program has its own.
from experiments.sites import fit  # pylint: disable=unused-import


def serve(requests, answer):
  """Answers with the codes of programs; a request is (folder, environment, output, arguments)."""
  for folder, environment, output, arguments in requests:
    pid = os.fork()
    if not pid:
      os.chdir(folder)
      os.environ.clear()
      os.environ.update(environment)
      file = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
      os.dup2(file, 1)
      os.dup2(file, 2)
      sys.argv = arguments
      runpy.run_module(arguments[0], run_name="__main__", alter_sys=True)
      sys.exit()
    answer(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
