"""Reads the files of a run's folder, and runs Python as a user does."""

import csv
import os
import pathlib
import subprocess
import sys


def files(folder):
  """Returns the content of all files by their path in the folder."""
  paths = [path for path in pathlib.Path(folder).rglob("*") if path.is_file()]
  return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


def times(folder):
  """Returns when what is in the folder was changed, by name."""
  return {name: os.stat(os.path.join(folder, name)).st_mtime_ns for name in os.listdir(folder)}


def read(folder, name):
  with open(os.path.join(folder, name), encoding="utf-8", newline="") as file:
    return file.read()


def rows(folder, name):
  """Returns the rows of a table as dicts of text."""
  return list(csv.DictReader(read(folder, name).splitlines()))


def started(*arguments, **options):
  """Starts Python in another process, with the modules of this one; returns its `Popen`."""
  path = os.pathsep.join(filter(None, sys.path))
  return subprocess.Popen(
      [sys.executable, *arguments], env={**os.environ, "PYTHONPATH": path}, text=True,
      **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options},
  )


def ended(*arguments, **options):
  """Runs Python likewise; returns its code, and what it printed."""
  with started(*arguments, **options) as process:
    stdout, stderr = process.communicate()
  return process.returncode, stdout, stderr
