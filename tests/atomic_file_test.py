import os

from absl.testing import absltest

from fl_clustering import atomic_file


class AtomicFileTest(absltest.TestCase):

  def setUp(self):
    super().setUp()
    self.folder = self.create_tempdir().full_path
    self.path = os.path.join(self.folder, "result.txt")

  def _content(self):
    with open(self.path, encoding="utf-8") as file:
      return file.read()

  def test_writes_and_replaces(self):
    atomic_file.write_text(self.path, "first")
    atomic_file.write_text(self.path, "zweite Fassung: ä")

    self.assertEqual(self._content(), "zweite Fassung: ä")
    self.assertEqual(os.listdir(self.folder), ["result.txt"])

  def test_keeps_the_earlier_file_and_no_other_when_writing_fails(self):
    atomic_file.write_text(self.path, "first")

    with self.assertRaisesRegex(RuntimeError, "disk"):
      with atomic_file.atomic_path(self.path) as temporary:
        with open(temporary, "w", encoding="utf-8") as file:
          file.write("half")
        raise RuntimeError("disk is full")

    self.assertEqual(self._content(), "first")
    self.assertEqual(os.listdir(self.folder), ["result.txt"])

  def test_temporary_name_is_in_the_same_folder_with_the_same_ending(self):
    with atomic_file.atomic_path(self.path) as temporary:
      self.assertEqual(os.path.dirname(temporary), self.folder)
      self.assertEndsWith(temporary, ".txt")
      with open(temporary, "w", encoding="utf-8") as file:
        file.write("all")

    self.assertEqual(self._content(), "all")

  def test_takes_a_name_without_a_folder(self):
    os.chdir(self.folder)

    atomic_file.write_text("result.txt", "here")

    self.assertEqual(self._content(), "here")


if __name__ == "__main__":
  absltest.main()
