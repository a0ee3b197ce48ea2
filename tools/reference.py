"""The reference pages: what the code says of its flags, presets and output files.

A page of `docs/` has a line `<!-- generated: NAME -->` where the text of `GENERATED[NAME]` belongs.
"""

import glob
import importlib.util
import os
import re
import subprocess
import sys
from typing import Callable, Mapping

from experiments import registry

# Those of a user; what compares the project with others says in its page what it does.
PROGRAMS = (
    "experiments:cluster_tables", "experiments:dp_benchmark", "experiments:draft_schema",
    "experiments:federated_kmeans", "experiments:federation", "experiments:example_data",
    "experiments:multi_view", "experiments:predict", "experiments:private_clusters",
    "experiments:report", "experiments:site", "experiments:study",
    "experiments:three_phase_emnist", "dp_clustering/demo:clustering_demo",
)

# Each in a process of its own, as programs' flags share names.
_PRINT_FLAGS = """
import importlib
import sys

from absl import flags

importlib.import_module(sys.argv[1])
for name in sorted(flags.FLAGS.flags_by_module_dict()):
  if not name.startswith("absl"):
    print(flags.FLAGS.module_help(name).strip())
"""

# From how presets' names begin to their program; the first that fits.
PROGRAMS_OF_PRESETS = {
    "dp_benchmark": "dp_benchmark",
    "federated_kmeans": "federated_kmeans",
    "multi_view": "multi_view",
    "private": "private_clusters",
    "study": "study",
    "": "three_phase_emnist",
}


def _cell(text: str) -> str:
  return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")


def module_of(program: str) -> str:
  """Returns the module that `python -m PROGRAM` runs."""
  spec = importlib.util.find_spec(program)
  is_folder = spec is not None and spec.submodule_search_locations is not None
  return f"{program}.__main__" if is_folder else program


def flags_of(program: str) -> str:
  """Returns what absl prints of a program's flags but for its own, given its label."""
  return subprocess.run(
      [sys.executable, "-c", _PRINT_FLAGS, module_of(re.sub("[:/]", ".", program))],
      text=True, stdout=subprocess.PIPE, check=True,
      env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
  ).stdout


def _flags() -> str:
  """Returns a section for each program, with its flags."""
  return "".join(f"## {program}\n\n```text\n{flags_of(program)}```\n\n" for program in PROGRAMS)


def presets(program: str) -> dict[str, str]:
  """Returns the paths of a program's presets by their names."""
  found = {}
  for path in sorted(glob.glob("experiments/presets/*.flags")):
    name = os.path.basename(path).removesuffix(".flags")
    if program == next(PROGRAMS_OF_PRESETS[key] for key in PROGRAMS_OF_PRESETS if name.startswith(key)):
      found[name] = path
  return found


def _presets() -> str:
  """Returns a section for each program, with its presets: what they show, and their flags."""
  text = ""
  for program in sorted(PROGRAMS_OF_PRESETS.values()):
    text += f"## {program}\n\n"
    for name, path in presets(program).items():
      about, flags = _about_and_flags(path)
      text += f"### {name}\n\n{about}\n\n```text\n{flags}\n```\n\n"
  return text


def _about_and_flags(path: str) -> tuple[str, str]:
  """Returns what a preset shows, in one line, and the lines of its flags."""
  with open(path, encoding="utf-8") as file:
    lines = file.read().splitlines()
  about = " ".join(line.lstrip("# ") for line in lines if line.startswith("#"))
  return _cell(about), "\n".join(line for line in lines if line and not line.startswith("#"))


def _output_files() -> str:
  """Returns a table for each experiment, of the files that its report lists."""
  text = ""
  for experiment in map(registry.experiment, sorted(registry.MODULES)):
    files = {**experiment.all_files(), **experiment.all_folders()}
    rows = "".join(f"| `{name}` | {_cell(content)} |\n" for name, content in files.items())
    text += f"## {experiment.name}\n\n| file or folder | content |\n| --- | --- |\n{rows}\n"
  return text


def _first_run() -> str:
  """Returns the part of the README with the first command's output, with links as in `docs/`."""
  with open("README.md", encoding="utf-8") as file:
    text = file.read()
  return text.partition("<!-- first run -->")[2].partition("<!-- end of first run -->")[0].replace(
      "](docs/", "]("
  )


GENERATED: Mapping[str, Callable[[], str]] = {
    "first_run": _first_run,
    "flags": _flags,
    "output_files": _output_files,
    "presets": _presets,
}


def complete(page: str) -> str:
  """Returns a page's text with what is generated; the project's folder must be the current one."""
  return re.sub(r"^<!-- generated: (\w+) -->$", lambda match: GENERATED[match[1]](), page, flags=re.M)
