import contextlib
import gc
import os
import sys
from unittest import mock
import zipfile

from absl.testing import parameterized
import numpy as np

from clustering_basics import atomic_file


class AtomicFileTest(parameterized.TestCase):

  def setUp(self):
    super().setUp()
    self.folder = self.create_tempdir().full_path
    self.path = os.path.join(self.folder, "result.txt")

  def _assert_only(self, content):
    with open(self.path, encoding="utf-8") as file:
      self.assertEqual(file.read(), content)
    self.assertEqual(os.listdir(self.folder), ["result.txt"])

  def test_writes_and_replaces(self):
    atomic_file.write_text(self.path, "first")
    atomic_file.write_text(self.path, "zweite Fassung: ä")
    self._assert_only("zweite Fassung: ä")
    self.addCleanup(os.chdir, os.getcwd())
    os.chdir(self.folder)
    atomic_file.write_text("result.txt", "here")
    self._assert_only("here")

  def test_keeps_the_earlier_file_and_no_other_when_writing_fails(self):
    atomic_file.write_text(self.path, "first")
    with self.assertRaisesRegex(RuntimeError, "disk"):
      with atomic_file.atomic_path(self.path) as temporary:
        with open(temporary, "w", encoding="utf-8") as file:
          file.write("half")
        raise RuntimeError("disk is full")
    self._assert_only("first")
    with mock.patch.object(os, "fsync", side_effect=OSError(5, "Input/output error")):
      with self.assertRaisesRegex(OSError, "Input/output error"):
        atomic_file.write_text(self.path, "second")
    self._assert_only("first")

  def test_a_file_is_on_disk_before_it_has_its_name_and_then_its_name_is(self):
    done = []
    def sync(descriptor):
      done.append(os.readlink(f"/proc/self/fd/{descriptor}"))
    replace = os.replace
    def replaced(source, target):
      done.append("replaced")
      replace(source, target)
    with mock.patch.object(os, "fsync", sync), mock.patch.object(os, "replace", replaced):
      with atomic_file.atomic_path(self.path) as temporary:
        with open(temporary, "w", encoding="utf-8") as file:
          file.write("all")
    folder = os.path.realpath(self.folder)
    self.assertEndsWith(temporary, ".txt")
    self.assertEqual(
        done, [os.path.join(folder, os.path.basename(temporary)), "replaced", folder]
    )

  def test_a_link_is_followed(self):
    target = os.path.join(self.create_tempdir().full_path, "target.txt")
    os.symlink(target, self.path)
    for text in ("to a file that is not there yet", "and to one that is"):
      atomic_file.write_text(self.path, text)
      self.assertTrue(os.path.islink(self.path))
      with open(self.path, encoding="utf-8") as file:
        self.assertEqual(file.read(), text)
      for path in (self.path, target):
        self.assertEqual(os.listdir(os.path.dirname(path)), [os.path.basename(path)])

  @parameterized.parameters("pipe", "folder", "link", "circle", "stdout")
  def test_what_is_no_regular_file_stays(self, kind):
    pipe = os.path.join(self.folder, "pipe")
    os.mkfifo(pipe)
    {
        "pipe": lambda: os.rename(pipe, self.path),
        "folder": lambda: os.mkdir(self.path),
        "link": lambda: os.symlink(pipe, self.path),
        "circle": lambda: os.symlink(self.path, self.path),
        # Of a pipe, it has no path that there is.
        "stdout": lambda: os.symlink(f"/dev/fd/{os.pipe()[1]}", self.path),
    }[kind]()

    def what_it_is():
      found = os.lstat(self.path)  # When it was read may change.
      return found.st_ino, found.st_mode, found.st_mtime_ns

    before = what_it_is()
    with self.assertRaisesRegex(OSError, self.path):
      atomic_file.write_text(self.path, "text")
    self.assertEqual(what_it_is(), before)

  def test_an_array_in_a_file_outlives_the_next_one(self):
    path = os.path.join(self.folder, "array.npy")
    values = np.arange(6, dtype=np.float32).reshape(2, 3)
    first = atomic_file.array_in_file(path, values)
    second = atomic_file.array_in_file(path, values[:1] + 1)
    self.assertIsInstance(first, np.memmap)
    self.assertFalse(first.flags.writeable)
    np.testing.assert_array_equal(first, values)
    np.testing.assert_array_equal(second, [[1, 2, 3]])
    self.assertEqual(os.listdir(self.folder), ["array.npy"])

  def test_arrays_are_those_of_numpys_format(self):
    path = os.path.join(self.folder, "arrays.npz")
    arrays = {"a": np.arange(6, dtype=np.float32).reshape(2, 3), "b": np.array("text")}
    atomic_file.write_arrays(path, arrays)
    with np.load(path, allow_pickle=False) as file:
      of_numpy = dict(file)
    for found in (of_numpy, atomic_file.read_arrays(path)):
      self.assertCountEqual(found, arrays)
      for name, array in arrays.items():
        np.testing.assert_array_equal(found[name], array)
        self.assertEqual(found[name].dtype, array.dtype)

  def test_arrays_beyond_two_gigabytes(self):
    path = os.path.join(self.folder, "arrays.npz")
    with mock.patch.object(zipfile, "ZIP64_LIMIT", 1000):  # As if that were 2 GB.
      atomic_file.write_arrays(path, {"a": np.arange(1000), "b": np.zeros(3)})
    np.testing.assert_array_equal(atomic_file.read_arrays(path)["a"], np.arange(1000))

  def test_what_is_no_array_is_an_error(self):
    path = os.path.join(self.folder, "arrays.npz")
    for content in (b"", b"no array"):
      with self.subTest(content):
        with zipfile.ZipFile(path, "w") as archive:
          archive.writestr("a.npy", content)
        with self.assertRaisesRegex(ValueError, "'a'"):
          atomic_file.read_arrays(path)

  @parameterized.parameters(4, 255)
  def test_whichever_byte_is_damaged_no_array_is_another(self, bits):
    path = os.path.join(self.folder, "arrays.npz")
    array = np.arange(6).reshape(2, 3)
    atomic_file.write_arrays(path, {"a": array})
    with open(path, "rb") as file:
      whole = file.read()
    num_refused = 0
    for place in range(len(whole)):
      content = bytearray(whole)
      content[place] ^= bits
      with open(path, "wb") as file:
        file.write(content)
      try:
        found = atomic_file.read_arrays(path)
      except ValueError:
        num_refused += 1
      else:
        np.testing.assert_array_equal(found.get("a", array), array, f"byte {place}")
    self.assertGreater(num_refused, len(whole) / 2)

  def test_a_full_disk_is_one_error(self):
    # Every write to this device fails as on a full disk.
    with mock.patch.object(
        atomic_file, "atomic_path", lambda path: contextlib.nullcontext("/dev/full")
    ), mock.patch.object(sys, "unraisablehook") as ignored:
      with self.assertRaisesRegex(OSError, "No space left on device"):
        atomic_file.write_arrays(self.path, {"a": np.zeros(100_000)})
      gc.collect()
    ignored.assert_not_called()
