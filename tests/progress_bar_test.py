import contextlib
import io

from absl.testing import absltest

from fl_clustering.three_phase import progress_bar
from fl_clustering.three_phase import stages


class ProgressBarTest(absltest.TestCase):

  def test_shows_all_rounds_of_the_run(self):

    def step(state, round_num):
      return state, [stages.Row("fedavg", "", round_num, "train_loss", 0.25)]

    told = io.StringIO()
    with contextlib.redirect_stderr(told):
      runner = stages.StageRunner(None, [progress_bar.ProgressBar()])

      def run(name, num_rounds):
        runner.run(stages.Stage(
            name, "", 0, num_rounds, lambda: (None, []), step, lambda state: {}, lambda arrays: None
        ))

      runner.tell_planned(4)
      run("pretrain", 2)
      self.assertNotIn("\n", told.getvalue())
      run("kmeans", 2)
      self.assertRegex(told.getvalue(), r"kmeans +: 100%.* 4/4 .*loss=0\.250")
      self.assertEndsWith(told.getvalue(), "\n")  # It is closed.
      runner.tell_planned(5)
      run("fedavg", 1)
    self.assertRegex(told.getvalue(), r"fedavg +: 100%.* 5/5 ")
    self.assertEndsWith(told.getvalue(), "\n")
