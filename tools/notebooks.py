"""Runs the notebooks of the documentation, and writes what they give into them.

  ./bazelw run tools:notebooks
"""

import json
import os
import pathlib
import sys
import tempfile
from typing import Any

FOLDER = pathlib.Path("docs", "notebooks")
_SECONDS_PER_CELL = 600


class Unavailable(Exception):
  """What runs notebooks is not installed; the message says what helps."""


def run(path: pathlib.Path) -> Any:
  """Returns a notebook with the outputs of a new run; the file stays as it is.

  Raises:
    Unavailable: If a package or the kernel for Python is missing.
    nbclient.exceptions.CellExecutionError: If a cell fails.
  """
  try:
    # pylint: disable=g-import-not-at-top
    import ipykernel  # The kernel.  pylint: disable=unused-import
    from jupyter_client import kernelspec
    import nbclient
    import nbformat
    from traitlets import config
    # pylint: enable=g-import-not-at-top
  except ModuleNotFoundError as e:
    raise Unavailable(
        f"{e.name} must be installed to run notebooks, and isn't; in the project's folder: "
        'pip install ".[notebooks]"'
    ) from e
  notebook = nbformat.read(path, as_version=4)
  with tempfile.TemporaryDirectory() as folder:
    # The kernel sees this program's modules, and nothing of the user's Jupyter.
    environment = {
        **os.environ, "PYTHONPATH": os.pathsep.join(map(os.path.abspath, filter(None, sys.path))),
        "IPYTHONDIR": folder, "TF_CPP_MIN_LOG_LEVEL": "3",  # TensorFlow's log depends on the machine.
    }
    connection = {"connection_file": os.path.join(folder, "kernel.json")}
    client = nbclient.NotebookClient(
        notebook, timeout=_SECONDS_PER_CELL, coalesce_streams=True,
        resources={"metadata": {"path": folder}}, config=config.Config(KernelManager=connection),
    )
    try:
      client.execute(env=environment)
    except kernelspec.NoSuchKernel as e:
      raise Unavailable(
          f"the kernel {e.name} must be installed to run notebooks, and isn't: "
          "python -m ipykernel install --sys-prefix"
      ) from e
  for cell in notebook.cells:
    cell.metadata.pop("execution", None)  # The times.
  return notebook


def main() -> None:
  root = pathlib.Path(os.environ["BUILD_WORKSPACE_DIRECTORY"])
  for path in sorted((root / FOLDER).glob("*.ipynb")):
    try:
      finished = run(path)
    except Unavailable as e:
      sys.exit(f"error: {e}")
    path.write_text(f"{json.dumps(finished, indent=1, ensure_ascii=False)}\n", encoding="utf-8")
    print(path.relative_to(root))


if __name__ == "__main__":
  main()
