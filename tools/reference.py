"""The reference pages: what the code says of its flags, presets, output files and classes.

A page of `docs/` has a line `<!-- generated: NAME -->` where the text of `GENERATED[NAME]` belongs.
"""

import glob
import importlib
import json
import os
import re
import subprocess
import sys
from typing import Any, Callable, Iterable, Mapping

from experiments import reports
from tools import leaderboard

# Those of a user; what compares the project with others says in its page what it does.
PROGRAMS = (
    "experiments:dp_benchmark", "experiments:draft_schema", "experiments:federated_kmeans",
    "experiments:get_clients", "experiments:multi_view", "experiments:predict",
    "experiments:private_clusters", "experiments:report", "experiments:study",
    "experiments:three_phase_emnist", "dp_clustering/demo:clustering_demo",
)

# From how presets' names begin to their program; the first that fits.
PROGRAMS_OF_PRESETS = {
    "dp_benchmark": "dp_benchmark",
    "federated_kmeans": "federated_kmeans",
    "multi_view": "multi_view",
    "private": "private_clusters",
    "study": "study",
    "": "three_phase_emnist",
}

# Each in a process of its own, as programs' flags share names.
_READ_FLAGS = """
import importlib
import json
import sys

from absl import flags

program = importlib.import_module(sys.argv[1])
topics = {}
if "experiments.three_phase.flags" in sys.modules:
  from experiments.three_phase import flags as three_phase_flags
  topics = {name: topic for topic, names in three_phase_flags.HELP.names().items() for name in names}
found = {}
for flag in flags.FLAGS.get_key_flags_for_module(program.__name__):
  found[flag.name] = {
      "module": flags.FLAGS.find_module_defining_flag(flag.name),
      "topic": topics.get(flag.name),
      "help": flag.help,
      "default": flag.default_as_str,
      "is_bool": flag.boolean,
  }
print(json.dumps(found))
"""

# Modules whose flags belong to several programs.
_TOPICS = {
    "experiment_shell.run_flags": "The run's folder",
    "experiments.own_tables.table_flags": "Tables",
}

CLASSES = {
    "Private k-means": (
        "dp_clustering.private_kmeans.PrivateKMeans",
        "dp_clustering.private_methods.private_clustering",
        "dp_clustering.private_methods.private_lsh_clustering",
        "dp_clustering.private_methods.ClusteringResult",
        "dp_clustering.clustering_params",
    ),
    "Federated k-means": (
        "fl_clustering.kmeans.estimator.FederatedKMeans",
        "fl_clustering.kmeans.kmeans_config",
        "fl_clustering.points.privacy.PointPrivacy",
        "fl_clustering.points.privacy.ClientPrivacy",
    ),
    "Multi-view k-means": (
        "fl_clustering.multiview.estimator.FederatedMultiViewKMeans",
        "fl_clustering.multiview.multiview_config.PointPrivacy",
    ),
    "Three phases": (
        "fl_clustering.three_phase.config.ThreePhaseConfig",
        "fl_clustering.local_run",
        "fl_clustering.tasks.own_clients",
        "fl_clustering.tasks.keras_model",
        "fl_clustering.three_phase.summary",
    ),
    "A method of your own": ("fl_clustering.methods.method", "clustering_basics.options.option"),
    "Saved models": ("fl_clustering.load_model",),
    "Where TFF computes": ("fl_clustering.runtime.local_runtime.LocalRuntime",),
}


def flags_of(program: str) -> dict[str, Any]:
  """Returns what a program's `--help` lists, by the flag's name.

  Args:
    program: A label, such as `experiments:study`.
  """
  module = program.replace(":", ".").replace("/", ".")
  answer = subprocess.run(
      [sys.executable, "-c", _READ_FLAGS, module], check=True, text=True, stdout=subprocess.PIPE,
      env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
  ).stdout
  return json.loads(answer.splitlines()[-1])


def _table(header: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
  header = tuple(header)
  lines = (header, ("---",) * len(header), *rows)
  return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _cell(text: str) -> str:
  return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")


def _flag_row(name: str, flag: Mapping[str, Any]) -> tuple[str, str, str]:
  default = flag["default"]
  shown = "" if default is None or default == "''" else f"`{default.strip(chr(39))}`"
  return f"`--{'[no]' if flag['is_bool'] else ''}{name}`", _cell(flag["help"]), shown


def _topic(program: str, flag: Mapping[str, Any]) -> str:
  if flag["module"] == "experiments.three_phase.flags":
    return f"Three phases: {flag['topic']}"
  return _TOPICS.get(flag["module"], program)


def _flags() -> str:
  """Returns the topics of every program, and a table of flags for each topic."""
  by_topic: dict[str, dict[str, Any]] = {}
  topics_of: dict[str, dict[str, None]] = {}
  for program in PROGRAMS:
    topics = topics_of.setdefault(program, {})
    for name, flag in flags_of(program).items():
      topic = _topic(program, flag)
      topics[topic] = None
      by_topic.setdefault(topic, {})[name] = flag
  links = {topic: f"[{topic}](#{_anchor(topic)})" for topic in by_topic}
  text = "## Programs and topics\n\n" + _table(("program", "topics"), (
      (f"`{program}`", ", ".join(links[topic] for topic in sorted(topics)))
      for program, topics in topics_of.items()
  ))
  for topic, found in sorted(by_topic.items()):
    rows = (_flag_row(name, flag) for name, flag in sorted(found.items()))
    text += f"\n## {topic} {{ #{_anchor(topic)} }}\n\n{_table(('flag', 'what', 'default'), rows)}"
  return text


def _anchor(topic: str) -> str:
  return "flags-" + "-".join(re.findall("[a-z0-9]+", topic.lower()))


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


def _leaderboard() -> str:
  """Returns tables of what the studies in `docs/` found."""
  return leaderboard.text({
      name: _about_and_flags(path)[0] for name, path in presets("study").items()
  })


def _output_files() -> str:
  """Returns a table for each experiment, of the files that its report lists."""
  text = ""
  for experiment, module in sorted(reports.MODULES.items()):
    files = importlib.import_module(module).FILES
    rows = ((f"`{name}`", _cell(content)) for name, content in files.items())
    text += f"## {experiment}\n\n{_table(('file or folder', 'content'), rows)}\n"
  return text


def _classes() -> str:
  """Returns what mkdocstrings needs to show the classes and functions."""
  return "".join(
      f"## {title}\n\n" + "".join(f"::: {name}\n\n" for name in names)
      for title, names in CLASSES.items()
  )


def _first_run() -> str:
  """Returns the part of the README with the first command's output, with links as in `docs/`."""
  with open("README.md", encoding="utf-8") as file:
    text = file.read()
  return text.partition("<!-- first run -->")[2].partition("<!-- end of first run -->")[0].replace(
      "](docs/", "]("
  )


GENERATED: Mapping[str, Callable[[], str]] = {
    "classes": _classes,
    "first_run": _first_run,
    "flags": _flags,
    "leaderboard": _leaderboard,
    "output_files": _output_files,
    "presets": _presets,
}


def complete(page: str) -> str:
  """Returns a page's text with what is generated; the project's folder must be the current one."""
  return re.sub(r"^<!-- generated: (\w+) -->$", lambda match: GENERATED[match[1]](), page, flags=re.M)
