"""Runs the scripts of docs/own_*.md and compares what they print with what the pages say."""

import contextlib
import io
import os
import re
import subprocess
import sys

from absl.testing import absltest
from absl.testing import parameterized

# What the script imports: Bazel must know it.
# pylint: disable=unused-import
from fl_clustering import config
from fl_clustering import local_run
from fl_clustering.engine import metrics
from fl_clustering.tasks import keras_model
from fl_clustering.tasks import own_clients
import numpy
import sklearn
import tensorflow
# pylint: enable=unused-import



def _block(page, language):
  with open(page, encoding="utf-8") as file:
    return re.search(rf"^```{language}\n(.*?)^```$", file.read(), re.M | re.S)[1]


def _in_this_process(page):
  printed = io.StringIO()
  with contextlib.redirect_stdout(printed):
    exec(compile(_block(page, "python"), page, "exec"), {"__name__": "__main__"})
  return printed.getvalue()


def _in_a_new_process(page):
  """For a script that must be the first to import the settings."""
  environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
  return subprocess.run(
      [sys.executable, "-c", _block(page, "python")], env=environment, check=True, text=True,
      stdout=subprocess.PIPE,
  ).stdout


def _accuracies(text):
  return {name: float(value) for name, value in re.findall(r"^(\w+) +(\d\.\d+)$", text, re.M)}


class OwnDocsTest(parameterized.TestCase):

  @parameterized.parameters(
      ("docs/own_model.md", _in_this_process, 5), ("docs/own_method.md", _in_a_new_process, 6)
  )
  def test_the_script_prints_what_the_page_says(self, page, run, num_accuracies):
    stated, found = _block(page, "text"), run(page)
    self.assertEqual(re.findall("cluster: .*", found), re.findall("cluster: .*", stated))
    self.assertLen(_accuracies(stated), num_accuracies)
    self.assertEqual(set(_accuracies(found)), set(_accuracies(stated)))
    for name, accuracy in _accuracies(stated).items():
      # Another processor rounds otherwise.
      self.assertAlmostEqual(_accuracies(found)[name], accuracy, delta=0.03, msg=name)


if __name__ == "__main__":
  absltest.main()
