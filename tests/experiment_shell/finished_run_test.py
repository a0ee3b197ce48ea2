import json
import os

from absl.testing import absltest
from absl.testing import parameterized

from clustering_basics import file_format
from experiment_shell import finished_run


class FinishedRunTest(parameterized.TestCase):

  def setUp(self):
    super().setUp()
    self.path = self.create_tempdir().full_path
    self._write("config.json", json.dumps(file_format.stamped({"config": {"seed": 3}})))
    self.finished = finished_run.FinishedRun(self.path)

  def _write(self, name, text):
    with open(os.path.join(self.path, name), "w", encoding="utf-8") as file:
      file.write(text)

  def _damaged(self, name, reason=""):
    return self.assertRaisesRegex(finished_run.DamagedFile, f"{name}'.*{reason}")

  def test_reads_rows_with_their_exact_numbers(self):
    self._write("rows.csv", "client_id,loss,note\n007,0.1000000000000000055,\n8,inf,words\n")

    self.assertEqual(self.finished.rows("rows.csv", text_columns=("client_id",)), [
        {"client_id": "007", "loss": 0.1, "note": None},
        {"client_id": "8", "loss": float("inf"), "note": "words"},
    ])
    self.assertEqual(self.finished.rows("rows.csv")[0]["client_id"], 7)

  def test_reads_tables_whose_columns_share_a_name(self):
    self._write("rows.csv", "cluster,cluster\n0,1.5\n")
    self.assertEqual(self.finished.table("rows.csv"), (["cluster", "cluster"], [[0, 1.5]]))

  # A number of which the last digits are lost, a row without its last cell, nothing, half a quote.
  @parameterized.parameters("k,loss\n1,0.5\n2,0.", "k,loss\n1\n2,0.5\n", "", 'k\n"words\n')
  def test_a_damaged_table_is_named(self, text):
    self._write("rows.csv", text)
    with self._damaged("rows.csv"):
      self.finished.rows("rows.csv")

  @parameterized.parameters("{", "[]", "{}", '{"loss": [{"train": 1}]}')
  def test_a_summary_without_a_part_is_damaged(self, text):
    self._write("summary.json", text)
    with self._damaged("summary.json"):
      self.finished.summary["loss"][0]["test"]  # pylint: disable=pointless-statement

  def test_what_a_row_or_the_settings_lack_is_named(self):
    self._write("rows.csv", "k,loss\n1,0.5\n")
    self.assertIsNone(self.finished.settings.get("k"))
    for part, name in (
        (self.finished.rows("rows.csv")[0], "rows.csv"), (self.finished.settings, "config.json"),
    ):
      with self._damaged(name, "'note'"):
        part["note"]  # pylint: disable=pointless-statement


if __name__ == "__main__":
  absltest.main()
