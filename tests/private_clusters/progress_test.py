"""Tests that a run loses nothing where it is interrupted."""

import dataclasses

from absl.testing import absltest
import numpy as np

from dp_clustering import ledger
from fl_clustering.private_clusters import progress as progress_lib
from fl_clustering.private_clusters import training

_RELEASES = (
    ledger.Release("mean of sketches", 1.0, 4.0, 0.25), ledger.Release("round 1", 1.02, 2.04, 0.5)
)


class ProgressTest(absltest.TestCase):

  def _state(self):
    return training.State(
        np.ones((2, 3), np.float32), np.array([7.5, 2.0]), clip_norm=0.3, round_num=9, revived=6,
        is_exact=True,
    )

  def _back(self, progress):
    return progress_lib.Progress.from_arrays(progress.state.vectors, progress.to_arrays())

  def test_arrays_hold_all_of_it(self):
    progress = progress_lib.Progress(self._state(), np.arange(8.0).reshape(2, 4), _RELEASES)
    back = self._back(progress)
    for field in dataclasses.fields(training.State):
      found, expected = (getattr(one.state, field.name) for one in (back, progress))
      np.testing.assert_array_equal(found, expected, field.name)
      self.assertIs(type(found), type(expected), field.name)
    np.testing.assert_array_equal(back.centers, progress.centers)
    self.assertEqual(back.releases, _RELEASES)

  def test_before_the_first_release(self):
    self.assertEqual(self._back(progress_lib.Progress(self._state(), np.ones(1), ())).releases, ())


if __name__ == "__main__":
  absltest.main()
