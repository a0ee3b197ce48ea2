import collections
import json
import os
import signal
import subprocess
import sys

from absl.testing import absltest
from absl.testing import parameterized
import psutil

from experiments.grouping_study import cells
from experiments.grouping_study import jobs
from tests.experiments.grouping_study import fake_jobs
from tests.experiments.grouping_study import sample_study


class JobsTest(parameterized.TestCase):

  def setUp(self):
    super().setUp()
    self.folder = self.create_tempdir().full_path
    self.config = sample_study.config(("iid", "rotated"), num_seeds=2)

  def _measure(self, deaths, num_jobs=1):
    """Measures with processes that die so often where `deaths` says; returns what was told."""
    with open(os.path.join(self.folder, "deaths.json"), "w", encoding="utf-8") as file:
      json.dump(deaths, file)
    study = jobs.Study(self.config, None, self.folder, 1, fake_jobs.__name__)
    told = []
    jobs.measure(study, self.config.groups, num_jobs, told.append)
    self.assertCountEqual(told, self.config.groups)
    return told

  def _asked(self):
    """Returns how often each group was asked for."""
    with open(os.path.join(self.folder, "asked.txt"), encoding="utf-8") as file:
      return collections.Counter(file.read().splitlines())

  def _problems(self):
    """Returns the problems of all cells that failed, by group and method."""
    cells.write_joined(self.config, self.folder)
    with open(os.path.join(self.folder, cells.RESULTS), encoding="utf-8") as file:
      lines = [line.rstrip("\n").split(",") for line in file]
    return {
        (f"{line[0]}-seed{line[1]}", line[3]): line[-1] for line in lines[1:] if line[-1]
    }

  def _num_started(self):
    """Returns how many processes were started."""
    with open(os.path.join(self.folder, "started.txt"), encoding="utf-8") as file:
      return len(file.readlines())

  def test_groups_are_measured_in_order(self):
    self.assertEqual(self._measure({}), self.config.groups)
    self.assertEqual(set(self._asked().values()), {1})
    self.assertEmpty(self._problems())
    self.assertEqual(self._num_started(), 1)

  @parameterized.parameters((3, 3), (8, 4))
  def test_many_processes(self, num_jobs, num_started):
    self._measure({}, num_jobs)

    self.assertEqual(set(self._asked().values()), {1})
    self.assertEqual(self._num_started(), num_started)

  def test_a_group_is_tried_again(self):
    self._measure({"iid-seed1 ifca": 1, "iid-seed1 fedavg": 1}, num_jobs=2)

    self.assertEqual(self._asked()["iid-seed1"], 3)
    self.assertEmpty(self._problems())

  def test_a_stage_that_ends_two_processes_fails_and_the_others_go_on(self):
    self._measure({"iid-seed1 ifca": 9})

    self.assertEqual(
        self._problems(), {("iid-seed1", "ifca"): "the process ended with code 3: no room"}
    )
    left = [g.name for g in self.config.groups if not cells.is_measured(self.folder, g)]
    self.assertEqual(left, ["iid-seed1"])

  def test_a_group_whose_phase_1_ends_two_processes_fails(self):
    self._measure({"iid-seed1 pretrain": 9}, num_jobs=2)

    self.assertEqual(
        self._problems(),
        {
            ("iid-seed1", method): "the process ended with code 3: no room"
            for method in cells.methods_of(self.config.run)
        },
    )
    self.assertEqual(self._asked()["iid-seed1"], 2)


# A study whose process is long in phase 1.
_PARENT = """
import sys

from experiments.grouping_study import jobs
from tests.experiments.grouping_study import sample_study

config = sample_study.config(("iid",), num_seeds=1, pretrain_rounds=100_000)
study = jobs.Study(config, None, sys.argv[1], 1)
jobs.measure(study, config.groups, 1, print, lambda group, stage: print(stage, flush=True))
"""


class KilledTest(absltest.TestCase):

  def test_no_process_stays_when_the_program_is_killed(self):
    script = self.create_tempfile("parent.py", _PARENT).full_path
    with subprocess.Popen(
        [sys.executable, script, self.create_tempdir().full_path],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        stdout=subprocess.PIPE, text=True,
    ) as program:
      while program.stdout.readline() != "pretrain\n":
        self.assertIsNone(program.poll())
      started = psutil.Process(program.pid).children(recursive=True)
      os.kill(program.pid, signal.SIGKILL)

    _, alive = psutil.wait_procs(started, timeout=60)

    # One that measures, TFF's worker, and, where there are namespaces, one that leads to it.
    self.assertIn(len(started), (2, 3))
    self.assertEmpty(alive)


if __name__ == "__main__":
  absltest.main()
