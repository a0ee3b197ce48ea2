"""Runs the script of docs/own_model.md and compares what it prints with what the page says."""

import contextlib
import io
import re

from absl.testing import absltest

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

_PAGE = "docs/own_model.md"


def _block(language):
  with open(_PAGE, encoding="utf-8") as page:
    return re.search(rf"^```{language}\n(.*?)^```$", page.read(), re.M | re.S)[1]


def _accuracies(text):
  return {name: float(value) for name, value in re.findall(r"^(\w+) +(\d\.\d+)$", text, re.M)}


class OwnModelDocTest(absltest.TestCase):

  def test_the_script_prints_what_the_page_says(self):
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
      exec(compile(_block("python"), _PAGE, "exec"), {"__name__": "__main__"})
    stated, found = _block("text"), printed.getvalue()
    self.assertEqual(re.findall("cluster: .*", found), re.findall("cluster: .*", stated))
    self.assertLen(_accuracies(stated), 5)
    self.assertEqual(set(_accuracies(found)), set(_accuracies(stated)))
    for name, accuracy in _accuracies(stated).items():
      # Another processor rounds otherwise.
      self.assertAlmostEqual(_accuracies(found)[name], accuracy, delta=0.03, msg=name)


if __name__ == "__main__":
  absltest.main()
