"""Every command on a page, and every preset, names a program that takes its flags."""

import json
import os
import subprocess
import sys
import tempfile

from absl.testing import absltest

from tests.docs import pages
from tools import reference

# Of other programs: Docker.
_FOREIGN = {"network"}
# Every program has them: those of absl.
_EVERYWHERE = {"flagfile", "help", "helpfull"}

# They have no flags, and two of them an environment of their own.
_FILES = {
    "tools.check_types": "tools/check_types.py",
    "tools.check_wheel": "tools/check_wheel.py",
    "tools.docs": "tools/docs.py",
    "tools.notebooks": "tools/notebooks.py",
    "tools.run_script": "tools/run_script.py",
}

# What makes settings of the flags.  That of cluster_tables reads the user's files, so its commands
# are only parsed.
_EXPERIMENTS = {
    "experiments.dp_benchmark": "config",
    "experiments.federated_kmeans": "config",
    "experiments.multi_view": "config",
    "experiments.private_clusters": "config",
    "experiments.study": "config",
    "experiments.three_phase_emnist": "config",
}

# Writes a line for each program: its flags, and what is wrong with its commands.  Every program has
# a process, since their flags have the same names; but what takes long is imported once for all.
_PARSE = """
import gc
import importlib
import inspect
import json
import os
import re
import sys
from unittest import mock

from absl import flags
from absl.testing import flagsaver
gc.disable()  # It would take a quarter of the time of the imports.
import matplotlib.pyplot
import pandas
import psutil
import scipy.stats
import sklearn.cluster

from experiment_shell import command_line


# Returns why flags don't fit each other; "" if they do, or for want of files and values.
def refused(experiment, arguments):
  if any("$" in one for one in arguments):
    return ""
  try:
    (experiment().config if isinstance(experiment, type) else experiment)()
  except ValueError as e:
    if not re.search("must (be a folder|be a file|name the folder)", str(e)):
      return str(e)
  return ""


def parse(module, experiment, commands):
  problems = []
  if module.startswith("bench."):  # They import what takes longest, and no flag needs it.
    sys.modules["tensorflow"] = sys.modules["tensorflow_federated"] = mock.MagicMock()
  program = importlib.import_module(module)
  if '\\nif __name__ == "__main__":\\n' not in inspect.getsource(program):
    problems.append(f"{module}: is no program")
  # The files that flags name are not there.
  mock.patch.object(flags.FlagValues, "validate_all_flags").start()
  for arguments in commands:
    try:
      with flagsaver.flagsaver():
        left = command_line.parse(arguments)
        if left:
          problems.append(f"{module}: no flags: {left}")
        if experiment:
          why = refused(getattr(program, experiment), arguments)
          if why:
            problems.append(f"{module}: {' '.join(arguments)}: {why}")
    except ValueError as e:
      problems.append(f"{module}: {' '.join(arguments)}: {e}")
  return list(flags.FLAGS), problems


for arguments in json.load(sys.stdin):
  if not os.fork():
    with open(sys.argv[1], "a", encoding="utf-8") as file:
      file.write(json.dumps(parse(*arguments)) + "\\n")
    os._exit(0)
  os.wait()
"""


def _parsed(commands: dict[str, list[list[str]]]) -> list[tuple[list[str], list[str]]]:
  """Returns, for each program, its flags, and what is wrong with its commands."""
  programs = [
      (reference.module_of(module), _EXPERIMENTS.get(module), own)
      for module, own in commands.items()
  ]
  with tempfile.NamedTemporaryFile("r", encoding="utf-8") as answers:
    subprocess.run(
        [sys.executable, "-c", _PARSE, answers.name], check=True, text=True,
        input=json.dumps(programs),
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    return [json.loads(line) for line in answers]


class CommandsTest(absltest.TestCase):

  @classmethod
  def setUpClass(cls):
    super().setUpClass()
    commands = {}
    for path in pages.paths():
      for module, arguments in pages.commands(pages.read(path)):
        commands.setdefault(module, []).append(arguments)
    cls.num_commands = sum(map(len, commands.values()))
    for program in reference.PROGRAMS_OF_PRESETS.values():
      commands[f"experiments.{program}"] += [
          [f"--flagfile={path}"] for path in reference.presets(program).values()
      ]
    cls.without_flags = [module for module in _FILES if commands.pop(module, None)]
    cls.programs, cls.found = list(commands), _parsed(commands)

  def test_programs_take_the_flags(self):
    self.assertGreater(self.num_commands, 50)
    self.assertLen(self.found, len(self.programs))  # One that can't be imported has no answer.
    self.assertEmpty([problem for _, problems in self.found for problem in problems])

  def test_programs_without_flags_exist(self):
    self.assertNotEmpty(self.without_flags)
    for module in self.without_flags:
      self.assertTrue(os.path.exists(_FILES[module]), module)

  def test_flags_in_the_text_exist(self):
    there = {name for names, _ in self.found for name in names} | _FOREIGN | _EVERYWHERE
    for path in set(pages.paths()) - {"docs/CHANGELOG.md"}:  # It tells of flags that are gone.
      unknown = {
          name for name in pages.named_flags(pages.read(path))
          if name not in there and name.removeprefix("no") not in there
      }
      self.assertEmpty(unknown, path)
