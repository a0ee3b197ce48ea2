import gzip
import os
import socket
import types
import urllib.error
from unittest import mock

from absl.testing import absltest
from absl.testing import parameterized
import numpy as np
from sklearn import datasets

from experiments.private import uci

_NAME = "letter-recognition.data"
_LETTER_LINES = "T,2,8,3,5,1,8,13,0,6,6,10,8,0,8,0,8\nI,5,12,3,7,2,10,5,5,4,13,3,9,2,8,4,10\n"


class UciTest(parameterized.TestCase):

  def setUp(self):
    super().setUp()
    self.folder = self.create_tempdir().full_path
    self.fetch = self.enter_context(mock.patch.object(
        datasets, "fetch_openml", side_effect=urllib.error.URLError("no network")
    ))

  def _write(self, name, text):
    open_file = gzip.open if name.endswith(".gz") else open
    with open_file(os.path.join(self.folder, name), "wt") as file:
      file.write(text)

  @parameterized.parameters(_NAME, f"{_NAME}.gz")
  def test_reads_the_numbers_and_not_the_letter(self, name):
    self._write(name, _LETTER_LINES)
    points, source = uci.load_letter(self.folder)
    self.assertEqual(points.shape, (2, 16))
    self.assertEqual(points[0].tolist(), [2, 8, 3, 5, 1, 8, 13, 0, 6, 6, 10, 8, 0, 8, 0, 8])
    self.assertIn(name, source)
    self.fetch.assert_not_called()

  @parameterized.parameters("T,2,8\n", "T" + ",x" * 16 + "\n", "archive", "device")
  def test_a_damaged_file_is_an_error(self, text):
    name = f"{_NAME}.gz" if text == "archive" else _NAME
    path = os.path.join(self.folder, name)
    if text == "device":
      os.symlink(os.devnull, path)
    else:
      with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    with self.assertRaisesRegex(ValueError, f"`data_dir` .*{name}"):
      uci.load_letter(self.folder)

  @parameterized.parameters(False, True)
  def test_says_why_it_is_not_there(self, has_folder):
    why = f"{_NAME} not in " if has_folder else "--data_dir"
    with self.assertRaisesRegex(uci.Unavailable, f"{why}.*OpenML.*no network"):
      uci.load_letter(self.folder if has_folder else None)

  @parameterized.parameters((uci.load_letter, (20_000, 16)), (uci.load_gas_emissions, (36_733, 11)))
  def test_takes_of_openml_only_what_has_the_shape(self, load, shape):
    self.fetch.side_effect = None
    self.fetch.return_value = types.SimpleNamespace(data=np.ones(shape))
    points, source = load(self.folder)
    self.assertEqual(points.shape, shape)
    self.assertIn("OpenML", source)
    self.fetch.return_value.data = np.ones((100, 17))
    with self.assertRaisesRegex(uci.Unavailable, r"\(100, 17\)"):
      load(None)

  def test_waits_for_openml_with_a_limit_and_takes_it_back(self):
    limits = []
    self.fetch.side_effect = lambda **_: limits.append(socket.getdefaulttimeout()) or 1 / 0
    with self.assertRaises(ZeroDivisionError):
      uci.load_letter(None)
    self.assertEqual(limits, [20])
    self.assertIsNone(socket.getdefaulttimeout())

  def test_joins_the_five_years_in_their_order(self):
    header = "AT,AP,AH,AFDP,GTEP,TIT,TAT,TEY,CDP,CO,NOX\n"
    for year in range(2011, 2016):
      with self.assertRaisesRegex(uci.Unavailable, "gt_2015.csv not in"):
        uci.load_gas_emissions(self.folder)
      self._write(f"gt_{year}.csv", header + f"{year}" + ",1.5" * 10 + "\n")
    points, _ = uci.load_gas_emissions(self.folder)
    self.assertEqual(points.shape, (5, 11))
    self.assertEqual(points[:, 0].tolist(), [2011, 2012, 2013, 2014, 2015])


if __name__ == "__main__":
  absltest.main()
