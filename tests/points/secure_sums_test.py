from absl.testing import absltest
import numpy as np

from fl_clustering.points import secure_rounds
from fl_clustering.points import secure_sums


class SignedTest(absltest.TestCase):

  def test_every_total_that_clients_may_have_is_read_back(self):
    # Fewer than 2^30 points of at most 2^31: from -2^61 to 2^61 - 1.
    totals = np.array([-(2**61), -1, 0, 1, 2**61 - 1])
    np.testing.assert_array_equal(
        secure_sums.signed(np, totals % secure_sums.MODULUS), totals
    )


class TotalTest(absltest.TestCase):

  def test_is_over_all_clients_of_whom_few_are_held_at_a_time(self):
    asked, drawn = [], []

    def sum_round(query, clients):
      asked.append(len(clients))
      self.assertLen(drawn, sum(asked))  # No share waits for a later block.
      return np.int64(query) * sum(each["client"] + each["share"] for each in clients)

    def shares():
      for number in range(601):
        drawn.append(number)
        yield np.array([number, 1])

    total = secure_rounds.total(sum_round, 2, range(601), shares())
    np.testing.assert_array_equal(total, [2 * 601 * 600, 601 * 600 + 2 * 601])
    self.assertLen(asked, 3)


if __name__ == "__main__":
  absltest.main()
