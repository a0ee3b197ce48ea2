from absl.testing import parameterized
import numpy as np

from fl_clustering.methods import grouping


class DistanceThresholdTest(parameterized.TestCase):

  @parameterized.named_parameters(
      ("mean", "mean", 4.0),
      ("number", 2.5, 2.5),
      ("integer", 3, 3.0),
      ("number_as_text", "2.5", 2.5),
      ("zero", "0", 0.0),
      ("quantile", "q0.25", 2.0),
      ("smallest", "q0", 1.0),
      ("largest", "q1", 9.0),
  )
  def test_values(self, text, expected):
    distances = np.array([9.0, 1.0, 2.0, 4.0, 4.0])
    self.assertEqual(grouping.parse_threshold(text)(distances), expected)

  @parameterized.parameters(
      "median", "", "q", "q1.1", "q-0.1", "qmean", "-1", "nan", "inf", "1,5",
      -1, 10**309, float("nan"), True, None, ((1,),), b"mean",
  )  # pyformat: disable
  def test_refuses(self, value):
    with self.assertRaisesRegex(ValueError, "`distance_threshold`"):
      grouping.parse_threshold(value)

  def test_mean_of_equal_distances_keeps_them_within(self):
    for value in np.random.default_rng(0).uniform(size=100):
      distances = np.full(10, value)
      within = grouping.largest_distance_within("mean", distances)
      self.assertTrue((distances <= within).all())

  def test_no_distances(self):
    self.assertEqual(grouping.largest_distance_within("mean", np.zeros(0)), 0)
