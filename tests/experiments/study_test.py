import os

from absl.testing import absltest
import numpy as np

from experiments import output_folder
from experiments import study

_CELLS = [{"dataset": name, "k": k} for name in ("digits", "a, \"b\"") for k in (2, 16)]


class StudyTest(absltest.TestCase):

  def setUp(self):
    super().setUp()
    self.path = os.path.join(self.create_tempdir().full_path, "run")
    self.calls = []

  def _study(self):
    folder = output_folder.OutputFolder(
        self.path, resume=True, overwrite=False, files=("rows.csv",)
    )
    folder.start({"config": {}})
    return study.Study(folder, "rows.csv", ("dataset", "k"), ("loss", "note"))

  def _measure(self, dataset, k):
    self.calls.append((dataset, k))
    return {"loss": np.float64(k) / 3, "note": "large" if k > 2 else None}

  def _read(self):
    with open(os.path.join(self.path, "rows.csv"), "rb") as file:
      return file.read()

  def test_every_cell_has_a_row(self):
    table = self._study()
    table.run(_CELLS, self._measure)
    self.assertEqual(table.rows[1], {"dataset": "digits", "k": 16, "loss": 16 / 3,
                                     "note": "large"})
    self.assertLen(table.rows, 4)

  def test_rows_come_back_exactly(self):
    table = self._study()
    table.run(_CELLS, self._measure)
    self.assertEqual(self._study().rows, table.rows)

  def test_goes_on_after_a_kill_at_any_byte(self):
    self._study().run(_CELLS, self._measure)
    whole = self._read()
    header = whole.index(b"\n") + 1
    for size in range(header, len(whole)):
      with open(os.path.join(self.path, "rows.csv"), "wb") as file:
        file.write(whole[:size])
      self.calls.clear()
      table = self._study()
      kept = len(table.rows)
      table.run(_CELLS, self._measure)
      self.assertEqual(self._read(), whole)
      self.assertLen(self.calls, 4 - kept)

  def test_an_error_keeps_what_is_measured(self):
    def fail_at_16(dataset, k):
      if k == 16:
        raise ValueError("too many")
      return self._measure(dataset, k)

    with self.assertRaisesRegex(ValueError, "too many"):
      self._study().run(_CELLS, fail_at_16)
    self.assertLen(self._study().rows, 1)

  def test_refuses_another_table(self):
    self._study()
    with open(os.path.join(self.path, "rows.csv"), "w", encoding="utf-8") as file:
      file.write("name,size\nx,3\n")
    with self.assertRaisesRegex(ValueError, "`output_dir` must hold rows.csv with"):
      self._study()


if __name__ == "__main__":
  absltest.main()
