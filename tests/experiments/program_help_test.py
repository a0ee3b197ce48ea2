"""Tests of `--help` of every program that has topics."""

import json
import os
import subprocess
import sys

from absl.testing import absltest
from absl.testing import parameterized

_LINES_OF_A_SCREEN = 45
_SLOW = ("matplotlib", "pandas", "sklearn", "tensorflow", "tensorflow_federated")

# Prints the help, and then a line of JSON: the names of its flags that no topic has, and what was
# imported before it.
_SCRIPT = """
import importlib, json, sys
from absl import flags
from experiment_shell import program_help
module, help_ = (importlib.import_module("experiments." + name) for name in sys.argv[1:3])
help_ = help_.HELP
slow = [name for name in json.loads(sys.argv[3]) if name in sys.modules]
sys.modules["__main__"].__doc__ = module.__doc__
print(program_help.short_text(help_))
listed = {name for names in help_.names().values() for name in names}
own = {flag.name for flag in flags.FLAGS.get_key_flags_for_module(module.__name__)}
print(json.dumps({"slow": slow, "without": sorted(own - listed), "others": sorted(listed - own)}))
"""


class ProgramHelpTest(parameterized.TestCase):

  @parameterized.parameters(
      ("dp_benchmark", "dp_benchmark"), ("federated_kmeans", "federated_kmeans"),
      ("multi_view", "multi_view"), ("predict", "predict"),
      ("private_clusters", "private_clusters"), ("study", "study", "reuse"),
      ("three_phase_emnist", "three_phase.flags"),
  )
  def test_help_is_one_screen_and_quick_and_knows_all_flags(self, program, flags_module, *refused):
    printed = subprocess.run(
        [sys.executable, "-c", _SCRIPT, program, flags_module, json.dumps(_SLOW)],
        check=True, stdout=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    ).stdout.splitlines()
    *lines, found = printed
    self.assertLessEqual(len(lines), _LINES_OF_A_SCREEN)
    self.assertLessEqual(max(map(len, lines)), 80)
    self.assertEqual(json.loads(found), {"slow": [], "without": [*refused], "others": []})


if __name__ == "__main__":
  absltest.main()
