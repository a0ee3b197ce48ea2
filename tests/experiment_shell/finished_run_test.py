import json
import os

from absl.testing import absltest
from absl.testing import parameterized

from clustering_basics import file_format
from experiment_shell import finished_run


class FinishedRunTest(parameterized.TestCase):

  def setUp(self):
    super().setUp()
    self._path = self.create_tempdir().full_path
    self._write_config({"config": {"seed": 3}, "versions": {"python": "3.11"}})

  def _write(self, name, text):
    with open(os.path.join(self._path, name), "w", encoding="utf-8") as file:
      file.write(text)

  def _write_config(self, document):
    self._write("config.json", json.dumps(file_format.stamped(document)))

  def test_reads_settings_and_summary(self):
    self._write("summary.json", '{"loss": 0.5}')
    finished = finished_run.FinishedRun(self._path)

    self.assertEqual(finished.settings, {"seed": 3})
    self.assertEqual(finished.summary, {"loss": 0.5})

  def test_reads_rows_with_their_exact_numbers(self):
    self._write("rows.csv", "client_id,loss,note\n007,0.1000000000000000055,\n8,inf,words\n")
    finished = finished_run.FinishedRun(self._path)

    rows = finished.rows("rows.csv", text_columns=("client_id",))

    self.assertEqual(rows, [
        {"client_id": "007", "loss": 0.1, "note": None},
        {"client_id": "8", "loss": float("inf"), "note": "words"},
    ])
    self.assertEqual(finished.rows("rows.csv")[0]["client_id"], 7)

  def test_a_row_without_a_column_is_damaged(self):
    self._write("rows.csv", "k,loss\n1,0.5\n")
    (row,) = finished_run.FinishedRun(self._path).rows("rows.csv")

    with self.assertRaisesRegex(finished_run.DamagedFile, "rows.csv' can't .*it has no 'note'"):
      row["note"]  # pylint: disable=pointless-statement

  def test_reads_tables_whose_columns_share_a_name(self):
    self._write("rows.csv", "cluster,cluster,note\n0,1.5,\n1,2.5,words\n")
    finished = finished_run.FinishedRun(self._path)

    self.assertEqual(
        finished.table("rows.csv"),
        (["cluster", "cluster", "note"], [[0, 1.5, None], [1, 2.5, "words"]]),
    )

  @parameterized.named_parameters(
      ("half_a_line", "k,loss,note\n1,0.5,words\n2,0.", "its last line is not complete"),
      ("too_few_cells", "k,loss,note\n1,0.5\n2,0.5,words\n", "row 1 has 2 cells, not 3"),
      ("empty", "", "its last line is not complete"),
      ("half_a_quote", 'k\n"words\n', "unexpected end of data"),
  )
  def test_a_damaged_table_is_named(self, text, reason):
    self._write("rows.csv", text)
    finished = finished_run.FinishedRun(self._path)

    for read in (finished.rows, finished.table):
      with self.assertRaisesRegex(finished_run.DamagedFile, f"rows.csv' can't be .*{reason}"):
        read("rows.csv")

  def test_a_damaged_summary_is_named(self):
    self._write("summary.json", "{")

    with self.assertRaises(finished_run.DamagedFile) as raised:
      finished_run.FinishedRun(self._path).summary  # pylint: disable=expression-not-assigned
    self.assertEqual(raised.exception.name, "summary.json")

  @parameterized.named_parameters(
      ("list", "[]", "it is no JSON object"),
      ("number", "3", "it is no JSON object"),
      ("empty", "{}", "it has no 'loss'"),
      ("half", '{"loss": {"train": 1}}', "it has no 'test'"),
      ("in_a_list", '{"loss": [{"train": 1}]}', "it has no 'test'"),
  )
  def test_a_summary_without_a_part_is_damaged(self, text, reason):
    self._write("summary.json", text)

    with self.assertRaisesRegex(finished_run.DamagedFile, f"summary.json' can't be .*{reason}"):
      loss = finished_run.FinishedRun(self._path).summary["loss"]
      one = loss[0] if isinstance(loss, list) else loss
      one["test"]  # pylint: disable=pointless-statement

  def test_a_config_without_a_setting_is_damaged(self):
    finished = finished_run.FinishedRun(self._path)

    self.assertIsNone(finished.settings.get("k"))
    with self.assertRaisesRegex(finished_run.DamagedFile, "config.json' can't .*it has no 'k'"):
      finished.settings["k"]  # pylint: disable=pointless-statement

  def test_a_run_of_another_format_is_refused(self):
    self._write("summary.json", "{}")
    for document, found in (({}, 1), ({"format": file_format.FORMAT + 1}, file_format.FORMAT + 1)):
      self._write("config.json", json.dumps({"config": {"seed": 3}, **document}))
      with self.assertRaisesRegex(
          finished_run.DamagedFile, f"config.json' can't be read .*of format {found}, .*reads format"
      ):
        finished_run.FinishedRun(self._path).check()

  def test_knows_which_files_there_are(self):
    finished = finished_run.FinishedRun(self._path)

    self.assertTrue(finished.has("config.json"))
    self.assertFalse(finished.has("summary.json"))


if __name__ == "__main__":
  absltest.main()
