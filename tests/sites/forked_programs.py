"""Runs short programs, each in a fork of a process that has imported most of what they need."""

import os
import runpy
import sys
import traceback

# None of these defines flags, of which every program has its own.  pylint: disable=unused-import
from cryptography import x509
import pandas

from experiment_shell import tidy_report
from experiments.sites import fit
from fl_clustering.sites import coordinator
from fl_clustering.tables import read


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
      code = 0
      try:
        runpy.run_module(arguments[0], run_name="__main__", alter_sys=True)
      except SystemExit as e:
        code = e.code or 0
      except BaseException:  # pylint: disable=broad-exception-caught
        traceback.print_exc()
        code = 1
      sys.stderr.flush()
      os._exit(code)  # To take all modules apart would take longer than the program.
    answer(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
