"""Builds the site of the documentation into `site/`, with MkDocs, which has a Python of its own.

  ./bazelw run tools:docs

The pages are those of `docs/`, completed with what is generated from the code.  A warning, such as of
a link to nowhere, ends it with code 1.
"""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

from docs_env import interpreter

from tools import reference


def _copy_pages(folder: str) -> None:
  """Copies `docs/` and completes its pages."""
  shutil.copytree("docs", folder, dirs_exist_ok=True)
  for path in pathlib.Path(folder).rglob("*.md"):
    path.write_text(reference.complete(path.read_text("utf-8")), "utf-8")


def main() -> None:
  os.chdir(os.environ["BUILD_WORKSPACE_DIRECTORY"])
  with tempfile.TemporaryDirectory() as folder:
    _copy_pages(folder)
    command = [
        interpreter.PATH, "-I", "-m", "mkdocs", "build", "--strict",
        "--config-file=tools/mkdocs.yml", *sys.argv[1:],
    ]
    code = subprocess.run(command, env={**os.environ, "DOCS_DIR": folder}).returncode
  if not code:
    print(f"site: {os.path.abspath('site/index.html')}")
    print("Its search needs a server: python3 -m http.server --directory site")
  sys.exit(code)


if __name__ == "__main__":
  main()
