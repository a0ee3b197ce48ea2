"""Runs a Python script with this project and its packages.

  ./bazelw run tools:run_script -- my_script.py --flags_of_the_script

It starts the interpreter that Bazel installed the packages for.  Without a script, that is
an interactive Python.
"""

import os
import sys


def main() -> None:
  # Bazel starts a program in a folder of its own.
  os.chdir(os.environ["BUILD_WORKING_DIRECTORY"])
  environment = {**os.environ, "PYTHONPATH": os.environ["BUILD_WORKSPACE_DIRECTORY"]}
  os.execve(sys.executable, [sys.executable, *sys.argv[1:]], environment)


if __name__ == "__main__":
  main()
