import warnings

from absl.testing import absltest

from clustering_basics import agreement


class AgreementTest(absltest.TestCase):

  def setUp(self):
    super().setUp()
    self.enter_context(warnings.catch_warnings())
    warnings.simplefilter("error", UserWarning)

  def test_the_same_partition_under_other_names(self):
    self.assertEqual(agreement.adjusted_rand_index([0, 0, 1, 1], ["b", "b", "a", "a"]), 1)
    self.assertAlmostEqual(agreement.normalized_mutual_information([0, 0, 1], [7, 7, 5]), 1)

  def test_partitions_that_have_nothing_in_common(self):
    # No pair is together in both: the index is (0 - 2 * 2 / 6) / (2 - 2 * 2 / 6).
    self.assertAlmostEqual(agreement.adjusted_rand_index([0, 0, 1, 1], [0, 1, 0, 1]), -0.5)
    self.assertAlmostEqual(
        agreement.normalized_mutual_information([0, 0, 1, 1], [0, 1, 0, 1]), 0
    )

  def test_many_small_clusters_don_t_warn(self):
    alone_or_two = [0, *range(30)]

    self.assertEqual(agreement.adjusted_rand_index(alone_or_two, alone_or_two), 1)
    self.assertAlmostEqual(agreement.normalized_mutual_information(alone_or_two, alone_or_two), 1)
