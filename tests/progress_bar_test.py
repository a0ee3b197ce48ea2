"""Tests for fl_clustering.three_phase.progress_bar."""

import contextlib
import io

from absl.testing import absltest

from fl_clustering.three_phase import progress_bar
from fl_clustering.three_phase import stages


class ProgressBarTest(absltest.TestCase):

  def test_shows_the_stage_and_its_rounds(self):

    def step(state, round_nums):
      (round_num,) = round_nums
      return state, [stages.Row("pretrain", "fedavg", "", round_num, "train_loss", 0.25)]

    stage = stages.Stage(
        "pretrain", "", 0, 2, lambda: (None, []), step, lambda state: {}, lambda arrays: None
    )
    told = io.StringIO()
    with contextlib.redirect_stderr(told):
      stages.StageRunner(None, [progress_bar.ProgressBar()]).run(stage)
    self.assertRegex(told.getvalue(), r"pretrain +: 100%.* 2/2 .*loss=0\.250")
    self.assertEndsWith(told.getvalue(), "\n")  # It is closed.


if __name__ == "__main__":
  absltest.main()
