"""Runs one contestant in a process of its own, which `contestant_process.py` starts.

  python -m bench.contest.contestant_worker MODULE PARENT_PID

The process's working folder holds the job.  The module has a function `serve(job,
answer_requests)`.  It prepares itself and then calls `answer_requests(prepare)`, where
`prepare(number)` does what a round needs and nobody would time, and returns a function
without arguments that runs the round and returns the model after it, a float32 vector.

Requests come on standard input, one line of JSON each, and answers go to standard output.
Whatever else the contestant prints goes to standard error.
"""

import importlib
import json
import os
import sys
import time

import numpy as np

from bench.contest import job as job_lib
from experiment_shell import child_process


def _answer(file, document):
  file.write(json.dumps(document) + "\n")
  file.flush()


def main():
  module_name, parent_pid = sys.argv[1:]
  child_process.end_with_parent(int(parent_pid))
  answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
  os.dup2(2, 1)
  sys.stdout = sys.stderr  # Or else what was printed would come after the error, at the end.

  def answer_requests(prepare):
    _answer(answers, "ready")
    for line in sys.stdin:
      request = json.loads(line)
      run_round = prepare(request["round"])
      start = time.perf_counter()
      vector = run_round()
      seconds = time.perf_counter() - start
      np.save(request["save_to"], vector)
      _answer(answers, {"seconds": seconds})

  importlib.import_module(module_name).serve(job_lib.read("."), answer_requests)


if __name__ == "__main__":
  main()
