from absl.testing import absltest
import numpy as np

from fl_clustering.points import secure_sums


class SignedTest(absltest.TestCase):

  def test_every_total_that_clients_may_have_is_read_back(self):
    # Fewer than 2^30 points of at most 2^31: from -2^61 to 2^61 - 1.
    totals = np.array([-(2**61), -1, 0, 1, 2**61 - 1])
    np.testing.assert_array_equal(
        secure_sums.signed(np, totals % secure_sums.MODULUS), totals
    )


if __name__ == "__main__":
  absltest.main()
