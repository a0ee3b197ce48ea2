import os

from absl.testing import absltest
from absl.testing import parameterized

from fl_clustering.distribution import token_file


class TokenFileTest(parameterized.TestCase):

  def _write(self, content, mode=0o600):
    path = self.create_tempfile(content=content, mode="wb").full_path
    os.chmod(path, mode)
    return path

  def test_white_space_around_the_secret_does_not_count(self):
    token = token_file.read(self._write(b"a secret"))
    self.assertLen(token, 32)
    self.assertEqual(token_file.read(self._write(b"\n a secret \r\n", 0o400)), token)
    self.assertNotEqual(token_file.read(self._write(b"asecret")), token)

  @parameterized.named_parameters(
      ("empty", b"", 0o600, r"hold a secret of 1 to 65536 bytes"),
      ("white_space", b" \n\t", 0o600, r"hold a secret of 1 to 65536 bytes"),
      ("large", b"x" * 65537, 0o600, r"hold a secret of 1 to 65536 bytes"),
      ("group", b"x", 0o640, r"be a file for its owner alone \(its mode is 640; chmod 600\)"),
      ("others", b"x", 0o604, r"be a file for its owner alone \(its mode is 604; chmod 600\)"),
      ("others_write", b"x", 0o602, r"be a file for its owner alone \(its mode is 602; chmod 600\)"),
  )
  def test_refused(self, content, mode, rule):
    path = self._write(content, mode)
    with self.assertRaisesRegex(ValueError, f"^`token_file` must {rule}, got '{path}'.$"):
      token_file.read(path)

  def test_no_file(self):
    for path, reason in (
        ("/none/at/all", "No such file or directory"), ("/", "Is a directory"),
    ):
      with self.assertRaisesRegex(
          ValueError, rf"^`token_file` must be a file that can be read \({reason}\), got '{path}'.$"
      ):
        token_file.read(path)


if __name__ == "__main__":
  absltest.main()
