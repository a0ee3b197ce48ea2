"""The experiments measure what they did when the tables beside this file were made."""

import io
import os

from absl.testing import parameterized
import numpy as np
import pandas as pd

from tests import nightly
from tests.golden import tables


# Each takes as long as several others together.  By day, the study trains in three phases, too.
_BY_NIGHT = ("first_run", "kmeans", "multi_view", "private_clusters", "three_phases")


class GoldenTest(parameterized.TestCase):

  @parameterized.parameters(*tables.GOLDEN)
  def test_numbers(self, name):
    nightly.skip_by_day(self, name in _BY_NIGHT)
    golden = tables.GOLDEN[name]
    expected = pd.read_csv(os.path.join(tables.FOLDER, f"{name}.csv"))
    # Through text, as the expected ones.
    found = pd.read_csv(io.StringIO(tables.made(name).to_csv()))
    self.assertEqual(list(found), list(expected))
    self.assertLen(found, len(expected))
    for column in expected:
      if expected[column].dtype == object:
        self.assertEqual(list(found[column].fillna("")), list(expected[column].fillna("")), column)
      else:
        np.testing.assert_allclose(
            found[column], expected[column], golden.rtol, golden.atol, err_msg=column
        )
