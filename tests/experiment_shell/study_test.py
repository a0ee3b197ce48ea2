import io
import math
import os
import subprocess
import sys
from unittest import mock

from absl.testing import absltest
from absl.testing import parameterized
import numpy as np

from experiment_shell import launch
from experiment_shell import output_folder
from experiment_shell import study

# What a CSV file can trip over: quotes, commas, digits, line separators that are none,
# letters of several bytes.
_NOTE = "große,\u2028 \"ja\""
_CELLS = [{"dataset": name, "k": k} for name in ("Ziffern, \"ä\"", "007") for k in (2, 16)]

# Measures 1, 2, 3, ... and is stopped in the third cell.
_PROGRAM = """
import resource, sys
from experiment_shell import launch
from experiment_shell import output_folder
from experiment_shell import study

path, fault = sys.argv[1:]
sys.argv[1:] = []


def measure(k):
  if fault == "interrupt" and k == 3:
    raise KeyboardInterrupt
  if fault == "disk_full" and k == 3:
    # Stands for a full disk: of the row, two bytes can be written.
    resource.setrlimit(resource.RLIMIT_FSIZE, (len("k,loss\\n1,0.5\\n2,1.0\\n") + 2, -1))
  return {"loss": k / 2}


def main():
  folder = output_folder.OutputFolder(path, True, False, files=("rows.csv",))
  folder.start({"config": {}})
  with launch.run_errors(folder.path):
    study.Study(folder, "rows.csv", ("k",), ("loss",)).run(
        [{"k": k} for k in range(1, 6)], measure)


launch.run(main)
"""


class StudyTest(parameterized.TestCase):

  def setUp(self):
    super().setUp()
    self.path = os.path.join(self.create_tempdir().full_path, "run")
    self.calls = []

  def _study(self, resume=True):
    folder = output_folder.OutputFolder(
        self.path, resume=resume, overwrite=not resume, files=("rows.csv",)
    )
    folder.start({"config": {}})
    return study.Study(folder, "rows.csv", ("dataset", "k"), ("loss", "note"))

  def _measure(self, dataset, k):
    self.calls.append((dataset, k))
    return {"loss": np.float64(k) / 3, "note": _NOTE if k > 2 else None}

  def _read(self):
    with open(os.path.join(self.path, "rows.csv"), "rb") as file:
      return file.read()

  def _write(self, content):
    with open(os.path.join(self.path, "rows.csv"), "wb") as file:
      file.write(content)

  def test_every_cell_has_a_row(self):
    table = self._study()
    table.run(_CELLS, self._measure)
    self.assertEqual(
        table.rows[1],
        {"dataset": "Ziffern, \"ä\"", "k": 16, "loss": 16 / 3, "note": _NOTE},
    )
    self.assertLen(table.rows, 4)

  def test_rows_are_the_same_when_they_are_read_back(self):
    table = self._study()
    table.run(_CELLS, self._measure)
    self.assertEqual(self._study().rows, table.rows)
    self.assertEqual(table.rows[2]["dataset"], 7)

  @parameterized.parameters(
      1 / 3, -0.0, 5e-324, 1e16, 2**53 + 1, math.inf, np.float32(0.1), np.int64(-7), 3.0,
  )
  def test_numbers_come_back_exactly(self, number):
    table = self._study()
    table.run(_CELLS[:1], lambda dataset, k: {"loss": number, "note": None})
    for rows in (table.rows, self._study().rows):
      self.assertEqual(rows[0]["loss"], number)
      self.assertEqual(math.copysign(1, rows[0]["loss"]), math.copysign(1, number))
      self.assertIsInstance(rows[0]["loss"], int if isinstance(number, (int, np.int64)) else float)

  def test_nan_comes_back(self):
    self._study().run(_CELLS[:1], lambda dataset, k: {"loss": math.nan, "note": None})
    self.assertTrue(math.isnan(self._study().rows[0]["loss"]))

  def test_what_is_done_is_not_measured_again(self):
    self._study().run(_CELLS[:3], self._measure)
    self.calls.clear()
    self._study().run(_CELLS, self._measure)
    self._study().run(_CELLS, self._measure)
    self.assertEqual(self.calls, [("007", 16)])

  def test_goes_on_after_a_kill_at_any_byte(self):
    self._study().run(_CELLS, self._measure)
    whole = self._read()
    for size in range(len(whole)):
      with self.subTest(size=size):
        self._write(whole[:size])
        self.calls.clear()
        table = self._study()
        whole_rows = max(0, whole[:size].count(b"\n") - 1)
        self.assertLen(table.rows, whole_rows)
        table.run(_CELLS, self._measure)
        self.assertEqual(self._read(), whole)
        self.assertLen(self.calls, 4 - whole_rows)

  def test_rows_of_which_zeros_are_left_are_measured_again(self):
    self._study().run(_CELLS, self._measure)
    whole = self._read()
    header, first, *others = whole.splitlines(keepends=True)
    # As a machine may leave them that loses its power.
    for start, end in ((2, 5), (-4, -1), (0, len(others[0])), (5, len(b"".join(others)))):
      with self.subTest((start, end)):
        content = bytearray(b"".join(others))
        content[start:end] = bytes(len(content[start:end]))
        self._write(header + first + content)
        table = self._study()
        self.assertLess(len(table.rows), 4)
        table.run(_CELLS, self._measure)
        rows = self._study().rows
        self.assertCountEqual([row["loss"] for row in rows], [row["k"] / 3 for row in rows])
        self.assertCountEqual(self._read().splitlines(), whole.splitlines())

  def test_a_new_run_keeps_no_rows(self):
    self._study().run(_CELLS, self._measure)
    self.assertEmpty(self._study(resume=False).rows)
    # Nor do rows count whose settings nobody knows.
    self._study().run(_CELLS, self._measure)
    os.remove(os.path.join(self.path, "config.json"))
    self.assertEmpty(self._study().rows)

  def test_an_error_keeps_what_is_measured(self):
    def fail_at_16(dataset, k):
      if k == 16:
        raise ValueError("too many")
      return self._measure(dataset, k)

    with self.assertRaisesRegex(ValueError, "too many"):
      self._study().run(_CELLS, fail_at_16)
    self.assertLen(self._study().rows, 1)

  @parameterized.parameters("a\nb", "a\rb")
  def test_text_of_several_lines_is_refused(self, text):
    with self.assertRaisesRegex(ValueError, "`measure` must return text of one line"):
      self._study().run(_CELLS, lambda dataset, k: {"loss": 1, "note": text})
    self.assertEmpty(self._study().rows)

  @parameterized.named_parameters(
      ("other_columns", b"name,size\nx,3\n"),
      ("a_cell_too_few", b"dataset,k,loss,note\ndigits,2,0.5\n"),
      ("a_quote_that_does_not_end", b"dataset,k,loss,note\ndigits,2,0.5,\"x\n"),
      ("no_text", b"dataset,k,loss,note\n\xff,2,0.5,\n"),
  )
  def test_refuses_another_table(self, content):
    self._study()
    self._write(content)
    with self.assertRaisesRegex(launch.InputError, "`output_dir` must hold rows.csv with"):
      self._study()
    self.assertEqual(self._read(), content)

  def test_one_bar_counts_all_cells(self):
    self._study().run(_CELLS[:1], self._measure)
    with mock.patch.object(sys, "stderr", io.StringIO()) as output:
      self._study().run(_CELLS, self._measure)
    states = output.getvalue().split("\r")
    self.assertIn(" 1/4 ", states[1])
    self.assertIn(" 4/4 ", states[-1])


class StoppedStudyTest(parameterized.TestCase):

  def _run(self, path, fault):
    return subprocess.run(
        [sys.executable, "-c", _PROGRAM, path, fault],
        check=False,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )

  @parameterized.named_parameters(
      ("interrupt", "interrupt", 130, "interrupted: everything saved so far is kept.", ""),
      ("disk_full", "disk_full", 1, "error: .*File too large.*Results so far are in .*"
       "; --resume continues from there.", "3,"),
  )
  def test_one_line_and_the_rest_later(self, fault, code, message, half_line):
    path = os.path.join(self.create_tempdir().full_path, "run")
    result = self._run(path, fault)
    self.assertEqual(result.returncode, code, result.stderr)
    # In a pipe, there is no bar in the first half minute.
    (line,) = result.stderr.splitlines()
    self.assertRegex(line, f"^{message}$")
    self.assertNotIn("Traceback", result.stderr)
    with open(os.path.join(path, "rows.csv"), encoding="utf-8") as file:
      self.assertEqual(file.read(), "k,loss\n1,0.5\n2,1.0\n" + half_line)

    self.assertEqual(self._run(path, "").returncode, 0)
    with open(os.path.join(path, "rows.csv"), encoding="utf-8") as file:
      self.assertEqual(file.read(), "k,loss\n1,0.5\n2,1.0\n3,1.5\n4,2.0\n5,2.5\n")


if __name__ == "__main__":
  absltest.main()
