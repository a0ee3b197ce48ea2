"""Every preset is what its program takes."""

import os
import subprocess
import sys

from absl.testing import absltest
from absl.testing import parameterized

from tools import reference

# From a program that has presets to the class or function that makes settings of the flags.
_EXPERIMENTS = {
    "dp_benchmark": "config",
    "federated_kmeans": "paper_config",
    "multi_view": "config",
    "private_clusters": "config",
    "study": "config",
    "three_phase_emnist": "config",
}

# The programs' flags share names, so each is read in a process of its own.
_READ = """
import importlib
import sys

from absl import flags
from absl.testing import flagsaver
from experiment_shell import command_line

_, program, name, *presets = sys.argv
experiment = getattr(importlib.import_module(f"experiments.{program}"), name)
config = experiment().config if isinstance(experiment, type) else experiment
for preset in presets:
  with flagsaver.flagsaver():
    flags.FLAGS(["program", *command_line.arguments([f"--flagfile={preset}"])])
    # The settings of tables are completed from the files, which are not here.
    if getattr(flags.FLAGS, "dataset", None) != "files":
      config()
"""


class PresetsTest(parameterized.TestCase):

  @parameterized.named_parameters((program, program) for program in _EXPERIMENTS)
  def test_program_takes_its_presets(self, program):
    presets = reference.presets(program).values()
    self.assertNotEmpty(presets)
    run = subprocess.run(
        [sys.executable, "-c", _READ, program, _EXPERIMENTS[program], *presets],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        capture_output=True, text=True, check=False,
    )
    self.assertEqual(run.returncode, 0, run.stderr)

  def test_only_one_study_of_published_tables_has_personal_models(self):
    found = []
    for name, path in reference.presets("study").items():
      with open(path, encoding="utf-8") as file:
        (chosen,) = (line for line in file.read().splitlines() if line.startswith("--personal="))
      found += [name] if chosen != "--personal=" else []
    self.assertEqual(found, ["study_digits_newer"])


if __name__ == "__main__":
  absltest.main()
