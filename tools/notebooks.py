"""Runs the notebooks of the documentation, and writes what they give into them.

  ./bazelw run tools:notebooks
"""

import json
import os
import pathlib
import sys
import tempfile
from typing import Any

import nbclient
import nbformat
from traitlets import config

FOLDER = pathlib.Path("docs", "notebooks")
_SECONDS_PER_CELL = 600


def run(path: pathlib.Path) -> Any:
  """Returns a notebook with the outputs of a new run; the file stays as it is.

  Raises:
    nbclient.exceptions.CellExecutionError: If a cell fails.
  """
  notebook = nbformat.read(path, as_version=4)
  with tempfile.TemporaryDirectory() as folder:
    # The kernel sees this program's modules, and nothing of the user's Jupyter.
    environment = {
        **os.environ, "PYTHONPATH": os.pathsep.join(map(os.path.abspath, filter(None, sys.path))),
        "IPYTHONDIR": folder, "TF_CPP_MIN_LOG_LEVEL": "3",  # TensorFlow's log depends on the machine.
    }
    connection = {"connection_file": os.path.join(folder, "kernel.json")}
    nbclient.NotebookClient(
        notebook, timeout=_SECONDS_PER_CELL, coalesce_streams=True, record_timing=False,
        resources={"metadata": {"path": folder}}, config=config.Config(KernelManager=connection),
    ).execute(env=environment)
  return notebook


def main() -> None:
  root = pathlib.Path(os.environ["BUILD_WORKSPACE_DIRECTORY"])
  for path in sorted((root / FOLDER).glob("*.ipynb")):
    finished = run(path)
    path.write_text(f"{json.dumps(finished, indent=1, ensure_ascii=False)}\n", encoding="utf-8")
    print(path.relative_to(root))


if __name__ == "__main__":
  main()
