import functools
import os
import sys
from unittest import mock

from absl.testing import parameterized
import numpy as np

from clustering_basics import validate

_NAN, _INF = float("nan"), float("inf")


class ValidateTest(parameterized.TestCase):

  @parameterized.named_parameters(
      ("integer", functools.partial(validate.integer, 1, 3), [1, 3, np.int64(3)],
       [0, 4, 2.0, True, None], r"an integer in \[1, 3\]"),
      ("integer_without_maximum", functools.partial(validate.integer, 1), [1, 10**9], [0], ">= 1"),
      ("integer_beyond_floats", functools.partial(validate.integer, 1), [10**300],
       [10**309], r"\[1, .*\]"),
      ("positive", validate.positive, [1e-9, 2], [0.0, -1, _NAN, _INF, "1", True, 10**309], "> 0"),
      ("not_negative", validate.not_negative, [0], [-1e-9, _NAN, _INF, "1", True, 10**309], ">= 0"),
      ("between", functools.partial(validate.between, 0, 1), [0.5], [0.0, 1, _NAN, "0.5"],
       r"\(0, 1\)"),
      ("up_to", functools.partial(validate.up_to, 1), [1e-9, 0.5, 1, 1.0],
       [0, -0.1, 1.0000001, _NAN, "1", True], r"\(0, 1\]"),
      ("within", functools.partial(validate.within, 1e-3, 1e6), [1e-3, 2, 1e6],
       [9e-4, 1e7, _NAN, _INF, "1", True], r"\[0\.001, 1e\+06\]"),
      ("boolean", validate.boolean, [False, True], [0, 1, None, "True"], "True or False"),
      ("one_of", functools.partial(validate.one_of, {"a": 1, "b": 2}), ["a", "b"], ["c"], "a, b"),
      ("instance", functools.partial(validate.instance, str), ["a"], [1], "str"),
  )
  def test_takes_what_is_right_and_tells_name_rule_and_value(self, check, right, wrong, rule):
    for value in right:
      check(rate=value)
    for value in wrong:
      with self.assertRaisesRegex((TypeError, ValueError), f"`rate` must be .*{rule}.*, got "):
        check(rate=value)

  @parameterized.parameters("utf-8", "ascii")
  def test_text_that_no_file_can_hold(self, encoding):
    with mock.patch.object(sys, "getfilesystemencoding", return_value=encoding):
      validate.utf_8(path="größer 中文")
      with self.assertRaisesRegex(ValueError, "`path`"):
        validate.utf_8(path=os.fsdecode(b"caf\xe9"))

  def test_a_long_value_is_shown_in_part(self):
    message = f"{validate.error('name', 'be short', 'x' * 10**5)}"
    self.assertStartsWith(message, "`name` must be short, got 'xxx")
    self.assertLess(len(message), 1100)
    # Python makes no text of it.
    self.assertStartsWith(f"{validate.error('name', 'be short', 10**5000)}", "`name` must be short")

  def test_regular_files(self):
    folder = self.create_tempdir()
    folder.create_file("below/file")
    below = os.path.join(folder.full_path, "below")
    os.symlink("file", os.path.join(below, "link"))
    os.symlink("nowhere", os.path.join(folder.full_path, "dangling"))
    validate.regular_files(run=folder.full_path)
    validate.regular_files(run=os.path.join(folder.full_path, "nowhere"))
    pipe = os.path.join(self.create_tempdir().full_path, "pipe")
    os.mkfifo(pipe)
    os.symlink(pipe, os.path.join(below, "to a pipe"))
    with self.assertRaisesRegex(ValueError, "`run`.*/to a pipe'"):
      validate.regular_files(run=folder.full_path)
    os.rename(pipe, os.path.join(below, "to a pipe"))
    with self.assertRaisesRegex(ValueError, "`run`.*/to a pipe'"):
      validate.regular_files(run=folder.full_path)
