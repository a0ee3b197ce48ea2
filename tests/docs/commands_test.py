"""Every command on a page runs a program that there is, with flags that it takes."""

import concurrent.futures
import json
import os
import subprocess
import sys

from absl.testing import absltest

from tests.docs import pages

# Of other programs: Docker and Slurm.
_FOREIGN = {"exclusive", "network"}
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

# Prints the program's flags, and what is wrong with each of its commands.
_PARSE = """
import importlib
import inspect
import json
import sys
from unittest import mock

from absl import flags
from absl.testing import flagsaver

problems = []
program = importlib.import_module(sys.argv[1])
if '\\nif __name__ == "__main__":\\n' not in inspect.getsource(program):
  problems.append("is no program")
# The files that flags name are not there.
mock.patch.object(flags.FlagValues, "validate_all_flags").start()
for arguments in json.load(sys.stdin):
  try:
    with flagsaver.flagsaver():
      left = flags.FLAGS(["program", *arguments])[1:]
      if left:
        problems.append(f"no flags: {left}")
  except flags.Error as e:
    problems.append(f"{' '.join(arguments)}: {e}")
print(json.dumps([list(flags.FLAGS), problems]))
"""


def _parse(module: str, commands: list[list[str]]) -> tuple[list[str], list[str]]:
  """Returns a program's flags, and what is wrong with its commands."""
  run = subprocess.run(
      [sys.executable, "-c", _PARSE, module], input=json.dumps(commands), text=True, check=False,
      capture_output=True, env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
  )
  if run.returncode:
    return [], [f"{module}: {run.stderr.strip().splitlines()[-1]}"]
  names, problems = json.loads(run.stdout.splitlines()[-1])
  return names, [f"{module}: {problem}" for problem in problems]


class CommandsTest(absltest.TestCase):

  @classmethod
  def setUpClass(cls):
    super().setUpClass()
    commands = {}
    for path in pages.paths():
      for module, arguments in pages.commands(pages.read(path)):
        commands.setdefault(module, []).append(arguments)
    cls.num_commands = sum(map(len, commands.values()))
    cls.without_flags = [module for module in _FILES if commands.pop(module, None)]
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
      cls.found = list(pool.map(_parse, commands, commands.values()))

  def test_programs_take_the_flags(self):
    self.assertGreater(self.num_commands, 50)
    self.assertEmpty([problem for _, problems in self.found for problem in problems])

  def test_programs_without_flags_exist(self):
    self.assertNotEmpty(self.without_flags)
    for module in self.without_flags:
      self.assertTrue(os.path.exists(_FILES[module]), module)

  def test_flags_in_the_text_exist(self):
    there = {name for names, _ in self.found for name in names} | _FOREIGN | _EVERYWHERE
    for path in pages.paths():
      unknown = {
          name for name in pages.named_flags(pages.read(path))
          if name not in there and name.removeprefix("no") not in there
      }
      self.assertEmpty(unknown, path)


if __name__ == "__main__":
  absltest.main()
