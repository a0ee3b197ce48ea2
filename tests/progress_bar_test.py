"""Tests for fl_clustering.three_phase.progress_bar."""

import contextlib
import io

from absl.testing import absltest

from fl_clustering.three_phase import progress_bar
from fl_clustering.three_phase import stages


class ProgressBarTest(absltest.TestCase):

  def test_shows_all_rounds_of_the_run(self):

    def step(state, round_nums):
      (round_num,) = round_nums
      return state, [stages.Row("pretrain", "fedavg", "", round_num, "train_loss", 0.25)]

    told = io.StringIO()
    with contextlib.redirect_stderr(told), progress_bar.ProgressBar() as bar:
      runner = stages.StageRunner(None, [bar])
      runner.tell_planned(4)
      for name in ("pretrain", "kmeans"):
        runner.run(stages.Stage(
            name, "", 0, 2, lambda: (None, []), step, lambda state: {}, lambda arrays: None
        ))
      runner.tell_planned(5)
    self.assertRegex(told.getvalue(), r"kmeans +:  80%.* 4/5 .*loss=0\.250")
    self.assertEndsWith(told.getvalue(), "\n")  # It is closed.


if __name__ == "__main__":
  absltest.main()
