"""Every preset is what its program takes."""

from absl.testing import parameterized

from tests.experiment_shell import run_folder
from tools import reference

# From a program that has presets to the class or function that makes settings of the flags.
_EXPERIMENTS = {
    "dp_benchmark": "config",
    "federated_kmeans": "config",
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
experiment = getattr(importlib.import_module(program), name)
config = experiment().config if isinstance(experiment, type) else experiment
for preset in presets:
  with flagsaver.flagsaver():
    command_line.parse([f"--flagfile={preset}"])
    # The settings of tables are completed from the files, which are not here.
    if getattr(flags.FLAGS, "dataset", None) != "files":
      config()
"""


class PresetsTest(parameterized.TestCase):

  @parameterized.named_parameters((program, program) for program in _EXPERIMENTS)
  def test_program_takes_its_presets(self, program):
    presets = reference.presets(program).values()
    self.assertNotEmpty(presets)
    module = reference.module_of(f"experiments.{program}")
    code, _, stderr = run_folder.ended("-c", _READ, module, _EXPERIMENTS[program], *presets)
    self.assertEqual(code, 0, stderr)
