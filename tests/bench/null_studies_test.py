from absl.testing import absltest
import numpy as np

from bench import null_studies
from tests import nightly


class NullStudiesTest(absltest.TestCase):

  @nightly.only  # By day, `intervals_test` counts wrong claims of one interval.
  def test_few_studies_claim_what_is_not_there(self):
    found = [null_studies.claims("alike", 5, np.random.default_rng(seed)) for seed in range(12)]

    # Of 12 with 5% each, four or more have a probability of .2%.  By intervals that hold one at a
    # time, nearly all of them would claim something.
    self.assertLess(sum(claims.anywhere for claims in found), 4)
    self.assertLessEqual(
        sum(claims.headline for claims in found), sum(claims.anywhere for claims in found)
    )
