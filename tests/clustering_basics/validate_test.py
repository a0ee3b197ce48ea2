import os
import sys
from unittest import mock

from absl.testing import absltest
from absl.testing import parameterized
import numpy as np

from clustering_basics import validate


class ValidateTest(parameterized.TestCase):

  @parameterized.named_parameters(
      ("too_small", 0, r"`k` must be an integer in \[1, 3\], got 0\."),
      ("too_large", 4, r"`k` must be an integer in \[1, 3\], got 4\."),
      ("float", 2.0, r"`k` must be an integer in \[1, 3\], got 2\.0\."),
      ("bool", True, r"`k` must be an integer in \[1, 3\], got True\."),
      ("none", None, r"`k` must be an integer in \[1, 3\], got None\."),
  )
  def test_integer_refuses(self, value, message):
    with self.assertRaisesRegex(ValueError, message):
      validate.integer(1, 3, k=value)

  @parameterized.parameters(("utf-8", "UTF-8"), ("ascii", "PYTHONUTF8"))
  def test_text_that_no_file_can_hold(self, encoding, word):
    with mock.patch.object(sys, "getfilesystemencoding", return_value=encoding):
      validate.utf_8(path="größer 中文")
      with self.assertRaisesRegex(ValueError, f"`path` must be .*{word}.*, got 'caf.udce9'"):
        validate.utf_8(path=os.fsdecode(b"caf\xe9"))

  def test_integer_without_maximum(self):
    validate.integer(1, k=10**9)
    with self.assertRaisesRegex(ValueError, "`k` must be an integer >= 1, got 0"):
      validate.integer(1, k=0)

  def test_integer_accepts_the_bounds_and_numpy(self):
    validate.integer(1, 3, k=1)
    validate.integer(1, 3, k=np.int64(3))

  @parameterized.named_parameters(
      ("zero", 0.0), ("negative", -1), ("nan", float("nan")), ("inf", float("inf")),
      ("text", "1"), ("bool", True),
  )
  def test_positive_refuses(self, value):
    with self.assertRaisesRegex(ValueError, "`rate` must be a finite number > 0, got"):
      validate.positive(rate=value)

  @parameterized.named_parameters(
      ("negative", -1e-9), ("nan", float("nan")), ("inf", float("inf")), ("text", "1"),
      ("bool", True),
  )
  def test_not_negative_refuses(self, value):
    validate.not_negative(tol=0)
    with self.assertRaisesRegex(ValueError, "`tol` must be a finite number >= 0, got"):
      validate.not_negative(tol=value)

  @parameterized.named_parameters(
      ("low", 0.0), ("high", 1), ("nan", float("nan")), ("text", "0.5"),
  )
  def test_between_refuses(self, value):
    with self.assertRaisesRegex(ValueError, r"`delta` must be a number in \(0, 1\)"):
      validate.between(0, 1, delta=value)

  @parameterized.parameters(0, 1, None, "True")
  def test_boolean_refuses(self, value):
    validate.boolean(standardize=False)
    with self.assertRaisesRegex(ValueError, "`standardize` must be True or False, got"):
      validate.boolean(standardize=value)

  def test_instance(self):
    validate.instance(str, name="a")
    with self.assertRaisesRegex(TypeError, "`name` must be a str, got int"):
      validate.instance(str, name=1)

  def test_one_of(self):
    validate.one_of({"a": 1, "b": 2}, name="b")
    with self.assertRaisesRegex(ValueError, "`name` must be one of a, b, got 'c'"):
      validate.one_of({"a": 1, "b": 2}, name="c")

  def test_regular_files(self):
    folder = self.create_tempdir()
    folder.create_file("below/file")
    os.symlink("file", os.path.join(folder.full_path, "below", "link"))
    os.symlink("nowhere", os.path.join(folder.full_path, "dangling"))
    validate.regular_files(run=folder.full_path)
    validate.regular_files(run=os.path.join(folder.full_path, "nowhere"))
    pipe = os.path.join(folder.full_path, "below", "pipe")
    os.mkfifo(pipe)
    with self.assertRaisesRegex(ValueError, f"`run` must hold files and folders.*'{pipe}'"):
      validate.regular_files(run=folder.full_path)
    os.rename(os.path.join(folder.full_path, "below"), os.path.join(folder.full_path, "beside"))
    os.rename(os.path.join(folder.full_path, "beside", "pipe"), os.path.join(folder.full_path, "p"))
    os.symlink("../p", os.path.join(folder.full_path, "beside", "pipe"))
    with self.assertRaisesRegex(ValueError, "`run` must hold files and folders.*/p'"):
      validate.regular_files(run=folder.full_path)

  @parameterized.parameters(1e-9, 0.5, 1, 1.0)
  def test_up_to_accepts(self, value):
    validate.up_to(1, share=value)

  @parameterized.parameters(0, -0.1, 1.0000001, float("nan"), "1", True)
  def test_up_to_refuses(self, value):
    with self.assertRaisesRegex(ValueError, r"`share` must be a number in \(0, 1\], got"):
      validate.up_to(1, share=value)

  @parameterized.parameters(1e-3, 2, 1e6)
  def test_within_accepts(self, value):
    validate.within(1e-3, 1e6, noise=value)

  @parameterized.parameters(9e-4, 1e7, float("nan"), float("inf"), "1", True)
  def test_within_refuses(self, value):
    message = r"`noise` must be a number in \[0\.001, 1e\+06\], got"
    with self.assertRaisesRegex(ValueError, message):
      validate.within(1e-3, 1e6, noise=value)


if __name__ == "__main__":
  absltest.main()
