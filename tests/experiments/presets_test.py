"""Every preset is what its program takes, and the README lists it."""

import glob
import os
import re
import subprocess
import sys

from absl.testing import absltest
from absl.testing import parameterized

_FOLDER = "experiments/presets"

# From how presets' names begin to the program and its experiment.
_PROGRAMS = {
    "dp_benchmark": ("dp_benchmark", "DpBenchmark"),
    "federated_kmeans": ("federated_kmeans", "Paper"),
    "multi_view": ("multi_view", "MultiView"),
    "private": ("private_clusters", "PrivateClusters"),
    "study": ("study", "Study"),
    "": ("three_phase_emnist", "ThreePhase"),
}

# The programs' flags share names, so each is read in a process of its own.
_READ = """
import importlib
import sys

from absl import flags
from absl.testing import flagsaver

_, program, name, *presets = sys.argv
experiment = getattr(importlib.import_module(f"experiments.{program}"), name)()
for preset in presets:
  with flagsaver.flagsaver():
    flags.FLAGS(["program", f"--flagfile={preset}"])
    # The settings of tables are completed from the files, which are not here.
    if getattr(flags.FLAGS, "dataset", None) != "files":
      experiment.config()
"""


def _presets():
  """Returns the paths of the presets by the beginning in `_PROGRAMS`."""
  found = {start: [] for start in _PROGRAMS}
  for path in sorted(glob.glob(f"{_FOLDER}/*.flags")):
    start = next(start for start in _PROGRAMS if os.path.basename(path).startswith(start))
    found[start].append(path)
  return found


class PresetsTest(parameterized.TestCase):

  @parameterized.named_parameters(
      (program, start, program, name) for start, (program, name) in _PROGRAMS.items()
  )
  def test_program_takes_its_presets(self, start, program, name):
    presets = _presets()[start]
    self.assertNotEmpty(presets)
    run = subprocess.run(
        [sys.executable, "-c", _READ, program, name, *presets],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        capture_output=True, text=True, check=False,
    )
    self.assertEqual(run.returncode, 0, run.stderr)

  def test_studies_of_published_tables_have_no_personal_models(self):
    for path in _presets()["study"]:
      with open(path, encoding="utf-8") as file:
        self.assertIn("--personal=", file.read().splitlines(), path)

  def test_readme_lists_every_preset_with_its_program(self):
    with open("README.md", encoding="utf-8") as file:
      section = file.read().partition("Presets are files of flags")[2].partition("\n## ")[0]
    listed = {
        name: program
        for names, program in re.findall(r"^\| (.+?) \| `(\w+)` \| .+ \|$", section, re.MULTILINE)
        for name in re.findall(r"`(\w+)`", names)
    }
    self.assertEqual(listed, {
        os.path.basename(path).removesuffix(".flags"): _PROGRAMS[start][0]
        for start, paths in _presets().items()
        for path in paths
    })


if __name__ == "__main__":
  absltest.main()
