"""Runs a Python script with this project and its packages.

  ./bazelw run tools:run_script -- my_script.py --flags_of_the_script
  python -m tools.run_script my_script.py --flags_of_the_script

It starts the interpreter that Bazel installed the packages for, or without Bazel the one that runs
it.  Without a script, that is an interactive Python.
"""

import os
import pathlib
import sys


def main() -> None:
  # Bazel starts a program in a folder of its own.
  os.chdir(os.environ.get("BUILD_WORKING_DIRECTORY", os.curdir))
  path = os.environ.get("BUILD_WORKSPACE_DIRECTORY")
  if path is None:  # Then the path is the user's, and not Bazel's own, which has its copies.
    own = str(pathlib.Path(__file__).absolute().parents[1])
    path = os.pathsep.join(filter(None, [own, os.environ.get("PYTHONPATH")]))
  environment = {**os.environ, "PYTHONPATH": path}
  os.execve(sys.executable, [sys.executable, *sys.argv[1:]], environment)


if __name__ == "__main__":
  main()
