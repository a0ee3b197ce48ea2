"""Checks the types of the whole project with mypy, which has a Python of its own.

  ./bazelw run tools:check_types

What is checked stands in pyproject.toml.
"""

import os
import subprocess
import sys

from mypy_env import interpreter


def main() -> None:
  command = [interpreter.PATH, "-m", "mypy", "--python-executable", sys.executable, *sys.argv[1:]]
  sys.exit(subprocess.run(command, cwd=os.environ["BUILD_WORKSPACE_DIRECTORY"]).returncode)


if __name__ == "__main__":
  main()
