"""Runs the notebooks of the documentation, and compares what they give with what they show."""

import os
import re
from unittest import mock

from absl.testing import absltest
from absl.testing import parameterized
import nbclient
import nbformat

from tests import nightly
from tools import notebooks

_MOST_BYTES = 300_000
_FOUND = re.compile("adjusted Rand index:? 1.00")


def _texts(notebook):
  """Returns what a notebook's cells print, without numbers and lines that differ only in these.

  Numbers depend on the processor and on secure noise.
  """
  texts = []
  for cell in notebook.cells:
    for output in cell.get("outputs", ()):
      text = output.get("text") or "".join(output.get("data", {}).get("text/plain", ""))
      lines = re.sub(r"[-+ ]*\d[\d.e-]*", "#", text)
      texts.append(re.sub(r"^(.*\n)\1+", r"\1", lines, flags=re.M))
  return texts


class NotebooksTest(parameterized.TestCase):

  def setUp(self):
    super().setUp()
    # Where the home folder can't be written, Matplotlib would say so in every notebook.
    fonts = os.path.join(absltest.get_default_test_tmpdir(), "matplotlib")
    self.enter_context(mock.patch.dict(os.environ, {"MPLCONFIGDIR": fonts}))

  @parameterized.parameters("first_run", "my_tables", "own_method", "private_kmeans")
  @nightly.only  # By day, `own_docs_test` imports what they do.
  def test_gives_what_it_shows(self, name):
    path = notebooks.FOLDER / f"{name}.ipynb"
    shown = nbformat.read(path, as_version=4)
    self.assertLess(os.path.getsize(path), _MOST_BYTES)

    run = notebooks.run(path)

    self.assertEqual(_texts(run), _texts(shown))
    self.assertNotEmpty(_texts(run))
    for notebook in (shown, run):
      outputs = [output for cell in notebook.cells for output in cell.get("outputs", ())]
      self.assertNotIn("stderr", [output.get("name") for output in outputs])
      found = _FOUND.findall(nbformat.writes(notebook))
      self.assertLen(found, {"first_run": 1, "own_method": 2}.get(name, 0))

  def test_no_times_are_kept_and_cells_see_the_project(self):
    with mock.patch.object(nbclient.NotebookClient, "execute", autospec=True) as execute:
      notebooks.run(notebooks.FOLDER / "first_run.ipynb")
    self.assertFalse(execute.call_args.args[0].record_timing)
    root = os.path.abspath(os.path.join(notebooks.__file__, "..", ".."))
    self.assertIn(root, execute.call_args.kwargs["env"]["PYTHONPATH"].split(os.pathsep))

  def test_tests_all(self):
    self.assertLen(list(notebooks.FOLDER.glob("*.ipynb")), 4)
