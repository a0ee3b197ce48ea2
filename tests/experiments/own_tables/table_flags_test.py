"""Tests for experiments.own_tables.table_flags."""

import dataclasses

from absl import flags
from absl.testing import absltest
from absl.testing import flagsaver

from experiments.own_tables import table_flags
from fl_clustering.tables import table_options

_NO_FLAG = {"allow_any_number", "likely_separator", "likely_encoding"}


class TableFlagsTest(absltest.TestCase):

  def test_every_option_is_a_flag(self):
    options = {field.name for field in dataclasses.fields(table_options.TableOptions)}
    of_programs = {*table_flags.NAMES, *table_flags.OF_LABELS}
    self.assertEqual(of_programs, options - _NO_FLAG)

  def test_options_of_flags(self):
    self.enter_context(flagsaver.flagsaver())
    flags.FLAGS([
        "program", "--columns=x,y", "--decimal=,", "--thousands= ", "--strip_units",
        "--skip_lines=2", "--comment=#", "--encoding=latin-1",
    ])
    self.assertEqual(
        table_options.TableOptions(**table_flags.given()),
        table_options.TableOptions(
            columns=("x", "y"), decimal=",", thousands=" ", strip_units=True, skip_lines=2,
            comment="#", encoding="latin-1",
        ),
    )


if __name__ == "__main__":
  absltest.main()
