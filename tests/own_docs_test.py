"""Runs the scripts of docs/own_*.md and of examples/, and compares what they print with the pages.

By day one has few rounds.  By night figures are compared, too.
"""

import ast
import contextlib
import glob
import io
import json
import os
import re
import subprocess
import sys
from unittest import mock

from absl.testing import parameterized
import tensorflow  # pylint: disable=unused-import  # Imported by a script, Keras builds no model.

from fl_clustering.engine import engines
from tests import nightly


def _read(path):
  with open(path, encoding="utf-8") as file:
    return file.read()


def _blocks(page, language):
  return re.findall(rf"^```{language}\n(.*?)^```$", _read(page), re.M | re.S)


def _code(notebook):
  cells = json.loads(_read(notebook))["cells"]
  return "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")


def _small(script):
  """Returns a script with few rounds and clients."""
  script = re.sub(r"\b(\w+_rounds|client_epochs_per_round)=\d+", r"\1=1", script)
  return re.sub(r"\bnum_clients=\d+", "num_clients=8", script)


def _in_this_process(script):
  printed = io.StringIO()
  with contextlib.redirect_stdout(printed):
    exec(compile(script, "script", "exec"), {"__name__": "__main__"})
  return printed.getvalue()


def _in_a_new_process(script):
  """For a script that must be the first to import the settings."""
  environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
  return subprocess.run(
      [sys.executable, "-c", script], env=environment, check=True, text=True,
      stdout=subprocess.PIPE,
  ).stdout


def _accuracies(text):
  return {name: float(value) for name, value in re.findall(r"^(\w+) +(\d\.\d+)$", text, re.M)}


_SCRIPTS = {
    "docs/own_model.md": 2 * ["examples/own_model.py"],
    "docs/own_method.md": ["examples/last_layer.py", "examples/simple_ditto.py"],
}


class OwnDocsTest(parameterized.TestCase):

  def _assert_same_names(self, found, stated, num_accuracies):
    self.assertLen(_accuracies(stated), num_accuracies)
    self.assertEqual(set(_accuracies(found)), set(_accuracies(stated)))
    self.assertEqual(found.count("cluster: "), stated.count("cluster: "))

  @parameterized.parameters(*engines.ENGINES)
  @nightly.only  # By day, `test_what_scripts_import_is_there` reads it.
  def test_the_script_prints_the_names_that_the_page_says(self, engine):
    with mock.patch.object(engines, "usual", return_value=engine):
      found = _in_this_process(_small(_read("examples/own_model.py")))
    self._assert_same_names(found, _blocks("docs/own_model.md", "text")[0], 5)

  @parameterized.parameters(
      ("docs/own_model.md", _in_this_process, 5), ("docs/own_method.md", _in_a_new_process, 6)
  )
  @nightly.only  # By day, `test_what_scripts_import_is_there` reads it.
  def test_the_script_prints_what_the_page_says(self, page, run, num_accuracies):
    stated, found = _blocks(page, "text")[-1], run(_read(_SCRIPTS[page][-1]))
    self._assert_same_names(found, stated, num_accuracies)
    self.assertEqual(re.findall("cluster: .*", found), re.findall("cluster: .*", stated))
    for name, accuracy in _accuracies(stated).items():
      # Another processor rounds otherwise.
      self.assertAlmostEqual(_accuracies(found)[name], accuracy, delta=0.03, msg=name)

  @parameterized.parameters("own_model", "simple_ditto")
  def test_a_script_without_an_engine_ends_with_one_line(self, name):
    with (
        mock.patch.object(engines, "is_installed", return_value=False),
        self.assertRaisesRegex(SystemExit, r"\Aerror: `engine`.*\Z"),
    ):
      _in_this_process(_read(f"examples/{name}.py"))

  def test_pages_show_what_stands_in_the_scripts(self):
    for page, paths in _SCRIPTS.items():
      blocks = _blocks(page, "python")
      self.assertGreaterEqual(len(blocks), len(paths), page)
      for path, shown in zip(paths, blocks):
        self.assertIn(shown, _read(path))

  def test_what_scripts_import_is_there(self):
    scripts = [_code(path) for path in glob.glob("docs/notebooks/*.ipynb")]
    scripts += [_read(path) for paths in _SCRIPTS.values() for path in paths]
    for page in glob.glob("docs/**/*.md", recursive=True):
      scripts += _blocks(page, "python")
    found = {}
    for script in scripts:
      for node in ast.walk(ast.parse(script)):
        if isinstance(node, (ast.Import, ast.ImportFrom)) and node.col_offset == 0:
          exec(ast.unparse(node), found)
    self.assertIn("FederatedMultiViewKMeans", found)
