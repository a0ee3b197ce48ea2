import os

from absl import flags
from absl.testing import flagsaver
from absl.testing import parameterized

from experiment_shell import command_line
from experiment_shell import option_flags

flags.DEFINE_list("fruits", [], "A list.")
flags.DEFINE_integer("dozens", 0, "A number.")
flags.DEFINE_bool("nomad", False, "A switch whose name begins as if it were turned off.")
flags.DEFINE_bool("ripe", False, "A switch.")


class CommandLineTest(parameterized.TestCase):

  def _file(self, content, name="run.flags"):
    return self.create_tempfile(name, content, mode="wb").full_path

  def _parsed(self, *arguments):
    """Returns the flags' values as a program has them, and "others": the arguments beside them."""
    with flagsaver.flagsaver():
      others = command_line.parse(arguments)
      found = {name: flags.FLAGS[name].value for name in ("fruits", "dozens", "ripe")}
      return {**found, "others": others}

  @parameterized.parameters(
      (["--fruits=a", "--fruits=b"], "fruits"),
      (["--fruits", "a", "--dozens=1", "-fruits", "b"], "fruits"),
      (["--dozens=1", "--fruits=a", "--dozens=2"], "dozens"),
      (["--ripe", "--noripe"], "ripe"), (["--nomad", "--nonomad"], "nomad"),
  )
  def test_a_flag_is_given_once(self, arguments, name):
    path = self._file("\n".join(arguments).encode())
    for given, place in ((arguments, ""), ([f"--flagfile={path}", "--fruits=c"], path)):
      with self.assertRaisesRegex(ValueError, f"--{name}=.*{place}"):
        self._parsed(*given)

  def test_values_that_look_like_flags_are_none(self):
    parsed = self._parsed("--fruits", "--dozens", "--dozens=3", "x")
    self.assertEqual(
        (parsed["fruits"], parsed["dozens"], parsed["others"]),
        (["--dozens"], 3, ["x"]),
    )

  def test_no_before_what_is_no_switch_is_an_unknown_flag(self):
    with self.assertRaisesRegex(ValueError, "nodozens"):
      self._parsed("--dozens=3", "--nodozens", "--fruits=a")

  @parameterized.parameters(
      (["--flagfile={file}", "--fruits=mine"], ["mine"]),
      (["--fruits=mine", "--flagfile", "{file}"], ["mine"]),
      (["--flagfile={other}", "--flagfile={file}"], ["a", "b"]),
      (["--flagfile={file}", "--flagfile={other}"], ["other"]),
      (["--flagfile={includes}"], ["includes"]),
  )
  def test_the_command_line_takes_precedence(self, arguments, expected):
    paths = {"file": self._file(b"# A preset.\n\n  --fruits=a,b\n// As here.\n--dozens=7\n")}
    paths["other"] = self._file(b"--fruits=other\n", "other.flags")
    includes = f"--fruits=includes\n--flagfile={paths['file']}\n"
    paths["includes"] = self._file(includes.encode(), "includes.flags")
    parsed = self._parsed(*(text.format(**paths) for text in arguments))
    self.assertEqual((parsed["fruits"], parsed["dozens"]), (expected, 7))
    self.assertEmpty(parsed["others"])

  @parameterized.parameters("utf-8", "utf-8-sig")
  def test_files_with_a_byte_order_mark_are_read(self, encoding):
    path = self._file("--fruits=Größe,温度\r\n--ripe\r\n".encode(encoding))
    parsed = self._parsed(f"--flagfile={path}")
    self.assertEqual((parsed["fruits"], parsed["ripe"]), (["Größe", "温度"], True))

  def test_files_that_can_t_be_read_are_refused(self):
    folder = self.create_tempdir().full_path
    circle = os.path.join(folder, "circle.flags")
    with open(circle, "w", encoding="utf-8") as file:
      file.write(f"--flagfile={circle}\n")
    encoded = self._file("--fruits=ß\n".encode("latin-1"))
    for path in (circle, folder, os.path.join(folder, "none.flags"), "", encoded):
      with self.assertRaisesRegex(ValueError, f"`flagfile` .*{path}"):
        self._parsed(f"--flagfile={path}")

  def test_a_flag_of_a_file_counts_as_given(self):
    path = self._file(b"--ripe")
    with flagsaver.flagsaver():
      command_line.parse([f"--flagfile={path}", "--dozens=3"])
      option_flags.check_left_out(("fruits",), "here")
      for name in ("ripe", "dozens"):
        with self.assertRaisesRegex(ValueError, f"`{name}`"):
          option_flags.check_left_out((name,), "here")
