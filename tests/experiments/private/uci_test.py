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

_LETTER_LINES = "T,2,8,3,5,1,8,13,0,6,6,10,8,0,8,0,8\nI,5,12,3,7,2,10,5,5,4,13,3,9,2,8,4,10\n"
_GAS_HEADER = "AT,AP,AH,AFDP,GTEP,TIT,TAT,TEY,CDP,CO,NOX\n"


class _UciTest(parameterized.TestCase):

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

  def _openml_gives(self, points):
    self.fetch.side_effect = None
    self.fetch.return_value = types.SimpleNamespace(data=points)


class LetterTest(_UciTest):

  @parameterized.parameters("letter-recognition.data", "letter-recognition.data.gz")
  def test_reads_the_numbers_and_not_the_letter(self, name):
    self._write(name, _LETTER_LINES)

    points, source = uci.load_letter(self.folder)

    self.assertEqual(points.shape, (2, 16))
    self.assertEqual(points[0].tolist(), [2, 8, 3, 5, 1, 8, 13, 0, 6, 6, 10, 8, 0, 8, 0, 8])
    self.assertIn(name, source)
    self.fetch.assert_not_called()

  @parameterized.named_parameters(
      ("too_few_columns", "letter-recognition.data", "T,2,8\n"),
      ("words", "letter-recognition.data", "T" + ",x" * 16 + "\n"),
  )
  def test_a_damaged_file_is_an_error(self, name, text):
    self._write(name, text)

    with self.assertRaisesRegex(ValueError, f"`data_dir` must hold {name} with 16 columns"):
      uci.load_letter(self.folder)

  @parameterized.parameters("letter-recognition.data", "letter-recognition.data.gz")
  def test_a_device_is_not_read(self, name):
    os.symlink(os.devnull, os.path.join(self.folder, name))

    with self.assertRaisesRegex(ValueError, f"`data_dir` must hold {name} .*not a regular file"):
      uci.load_letter(self.folder)

  def test_a_damaged_archive_is_an_error(self):
    with open(os.path.join(self.folder, "letter-recognition.data.gz"), "wb") as file:
      file.write(b"no gzip")

    with self.assertRaisesRegex(ValueError, "`data_dir` must hold letter-recognition.data.gz"):
      uci.load_letter(self.folder)

  @parameterized.named_parameters(
      ("without_folder", None, "without --data_dir"),
      ("with_folder", "", "letter-recognition.data not in "),
  )
  def test_says_why_it_is_not_there(self, data_dir, words):
    data_dir = self.folder if data_dir == "" else None

    with self.assertRaisesRegex(uci.Unavailable, f"{words}.*OpenML could not provide it.*no network"):
      uci.load_letter(data_dir)

  def test_takes_what_openml_gives(self):
    self._openml_gives(np.ones((20_000, 16)))

    points, source = uci.load_letter(self.folder)

    self.assertEqual(points.shape, (20_000, 16))
    self.assertIn("OpenML", source)

  def test_refuses_another_data_set_of_openml(self):
    self._openml_gives(np.ones((20_000, 17)))

    with self.assertRaisesRegex(uci.Unavailable, r"OpenML's has the shape \(20000, 17\)"):
      uci.load_letter(None)

  def test_waits_for_openml_with_a_limit_and_takes_it_back(self):
    limits = []
    self.fetch.side_effect = lambda **_: limits.append(socket.getdefaulttimeout()) or 1 / 0

    with self.assertRaises(ZeroDivisionError):
      uci.load_letter(None)

    self.assertEqual(limits, [20])
    self.assertIsNone(socket.getdefaulttimeout())


class GasEmissionsTest(_UciTest):

  def test_joins_the_years_in_their_order(self):
    for year in range(2011, 2016):
      self._write(f"gt_{year}.csv", _GAS_HEADER + f"{year}" + ",1.5" * 10 + "\n")

    points, _ = uci.load_gas_emissions(self.folder)

    self.assertEqual(points.shape, (5, 11))
    self.assertEqual(points[:, 0].tolist(), [2011, 2012, 2013, 2014, 2015])

  def test_four_years_are_not_the_data_set(self):
    for year in range(2011, 2015):
      self._write(f"gt_{year}.csv", _GAS_HEADER)

    with self.assertRaisesRegex(uci.Unavailable, "gt_2011.csv to gt_2015.csv not in .*OpenML"):
      uci.load_gas_emissions(self.folder)

  def test_takes_of_openml_only_what_has_the_shape(self):
    self._openml_gives(np.ones((36_733, 11)))
    self.assertEqual(uci.load_gas_emissions(None)[0].shape, (36_733, 11))

    self._openml_gives(np.ones((100, 11)))
    with self.assertRaisesRegex(uci.Unavailable, "OpenML's has the shape"):
      uci.load_gas_emissions(None)


if __name__ == "__main__":
  absltest.main()
