from absl.testing import absltest

from fl_clustering.methods import grouping


class NumClustersTest(absltest.TestCase):

  def test_as_many_as_clients(self):
    grouping.check_num_clusters(3, ("a", "b", "c"))

  def test_refuses_more(self):
    with self.assertRaisesRegex(
        ValueError, r"^`num_clusters` must be in \[1, num_clients=3\], got 4\.$"
    ):
      grouping.check_num_clusters(4, ("a", "b", "c"))


if __name__ == "__main__":
  absltest.main()
