import json
import os

from absl.testing import parameterized

from clustering_basics import file_format
from experiment_shell import finished_run
from experiment_shell import tidy_tables


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

    kinds = {"client_id": str, "loss": float, "note": str}
    found = tidy_tables.read(self.finished, "rows.csv", kinds)
    self.assertEqual(found.to_numpy().tolist(), [["007", 0.1, None], ["8", float("inf"), "words"]])
    found = tidy_tables.read(self.finished, "rows.csv")
    self.assertEqual(found.to_numpy().tolist(), [[7, 0.1, None], [8, float("inf"), "words"]])

  def test_reads_tables_whose_columns_share_a_name(self):
    self._write("rows.csv", "cluster,cluster\n0,1.5\n")
    found = tidy_tables.read(self.finished, "rows.csv")
    self.assertEqual((list(found), found.to_numpy().tolist()), (["cluster"] * 2, [[0, 1.5]]))

  # A number of which the last digits are lost, a row without its last cell, nothing, half a quote.
  @parameterized.parameters("k,loss\n1,0.5\n2,0.", "k,loss\n1\n2,0.5\n", "", 'k\n"words\n')
  def test_a_damaged_table_is_named(self, text):
    self._write("rows.csv", text)
    with self._damaged("rows.csv"):
      tidy_tables.read(self.finished, "rows.csv")

  def test_what_a_table_or_the_settings_lack_is_named(self):
    self._write("rows.csv", "k,loss\n1,0.5\n")
    with self._damaged("rows.csv", "'note'"):
      tidy_tables.read(self.finished, "rows.csv", {"k": int, "note": str})
    self.assertIsNone(self.finished.settings.get("note"))
    with self._damaged("config.json", "'note'"):
      self.finished.settings["note"]  # pylint: disable=pointless-statement
