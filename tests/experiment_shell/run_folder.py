"""Reads and writes the files of a run's folder, and runs Python as a user does."""

import csv
import json
import os
import pathlib
import subprocess
import sys

import pandas as pd

from clustering_basics import file_format
from experiment_shell import finished_run


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


def written(folder, document, tables):
  """Writes invented tables and a `config.json`; returns the folder as a `FinishedRun`.

  Args:
    document: The content of `config.json` but for what is the same in all.
    tables: Frames or rows by name.
  """
  for name, rows in tables.items():
    pd.DataFrame(rows).to_csv(os.path.join(folder, f"{name}.csv"), index=False)
  document = {"inputs": {}, "versions": {"python": "3.11"}, **document}
  with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as file:
    json.dump(file_format.stamped(document), file)
  return finished_run.FinishedRun(folder)


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
