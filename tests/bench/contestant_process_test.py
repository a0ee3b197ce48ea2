import os
import subprocess
import sys
import time

from absl.testing import absltest
from absl.testing import parameterized
import numpy as np
import psutil

from bench.contest import contestant_process
from experiment_shell import child_process
from tests.bench import fake_contestant
from tests.bench import sample_job

# Long enough for a busy machine to start Python; not waited for where all goes well.
_ANSWER_SECONDS = 60


# Asks a contestant for a round in which it hangs.
_PROGRAM = """
import sys
from bench.contest import contestant_process
from tests.bench import fake_contestant
with contestant_process.ContestantProcess(
    fake_contestant.contestant("hang"), sys.executable, sys.argv[1], 60) as process:
  process.run_round(1)
  print("hangs", flush=True)
  process.run_round(2)
"""


class ContestantProcessTest(parameterized.TestCase):

  def setUp(self):
    super().setUp()
    _, self.job = sample_job.small_job()
    self.folder = self.create_tempdir().full_path
    self.job.write(self.folder)

  def _start(self, behaviour, answer_seconds=_ANSWER_SECONDS):
    return self.enter_context(
        contestant_process.ContestantProcess(
            fake_contestant.contestant(behaviour), sys.executable, self.folder, answer_seconds
        )
    )

  def test_answers_round_after_round(self):
    process = self._start("well")

    for number in (1, 2, 3):
      seconds, vector = process.run_round(number)
      self.assertGreater(seconds, 0)
      np.testing.assert_allclose(vector, self.job.vector + number, rtol=1e-6)
    self.assertGreater(process.start_seconds, 0)
    # Python with NumPy alone takes more, and this program no more than that.
    self.assertBetween(process.child.peak_megabytes(), 10, 4000)

  def test_an_error_is_told_with_its_last_line(self):
    process = self._start("crash")
    process.run_round(1)

    with self.assertRaisesRegex(
        child_process.Failed, "ended with code 1: ArithmeticError: round two"):
      process.run_round(2)

  def test_one_that_does_not_answer_is_told(self):
    process = self._start("hang")
    process.run_round(1)
    process.answer_seconds = 0.2

    with self.assertRaisesRegex(child_process.Failed, "no answer in 0.2 s"):
      process.run_round(2)

  def test_what_it_has_started_ends_with_it(self):
    with self._start("children") as process:
      process.run_round(1)
      process.answer_seconds = 0.1
      with self.assertRaises(child_process.Failed):
        process.run_round(2)
      root = psutil.Process(process.child.pid)
      while not root.children():
        time.sleep(0.01)
      everyone = [root, *root.children()]

    self.assertEqual([one for one in everyone if one.is_running()], [])

  def test_ends_with_a_program_that_is_killed(self):
    with subprocess.Popen(
        [sys.executable, "-c", _PROGRAM, self.folder], stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    ) as program:
      program.stdout.readline()
      (process,) = psutil.Process(program.pid).children()
      program.kill()

    # It hangs in a round, so it does not notice that there are no more requests.
    self.assertEqual(psutil.wait_procs([process], timeout=_ANSWER_SECONDS)[1], [])

  def test_one_that_can_not_start(self):
    with self.assertRaisesRegex(
        child_process.Failed, "code 1: ImportError: no module of this name"):
      self._start("broken")

  def test_one_that_starts_too_late(self):
    with self.assertRaisesRegex(child_process.Failed, "no answer in 3 s"):
      self._start("late", answer_seconds=3)

  @parameterized.named_parameters(
      ("nothing_there", "/no/such/python", "can't be run .*No such file"),
      ("no_python", "/bin/false", "it ended with code 1"),
      ("another_program", "/bin/echo", "its answer is no JSON"),
  )
  def test_what_is_no_python(self, path, message):
    with self.assertRaisesRegex(child_process.Failed, message):
      contestant_process.ContestantProcess(
          fake_contestant.contestant("well"), path, self.folder, _ANSWER_SECONDS
      )


if __name__ == "__main__":
  absltest.main()
