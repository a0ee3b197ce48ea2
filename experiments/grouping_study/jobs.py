"""Measures the groups of a study in processes of their own, several at a time.

A process that dies takes no other one with it.  Its group is tried once more, in a new process
and from its checkpoints, since another program may have taken the memory.  If the same stage
ends that process too, the stage's method has failed, and the group's others go on.  Its
checkpoints stay, and --resume tries it again.
"""

import dataclasses
import json
import os
import selectors
import subprocess
import sys
import tempfile
from typing import Optional

from experiment_shell import child_process
from experiments.grouping_study import cells
from experiments.grouping_study import job_worker

_SECONDS_TO_END = 10


@dataclasses.dataclass(frozen=True)
class Study:
  """What all processes of a study need.

  Attributes:
    config: The `StudyConfig`.
    data_dir: Where the data come from, or None.
    folder: Path of the study's folder.
    num_cores: How many cores each process uses.
    command: The program of a process and its arguments.
  """

  config: object
  data_dir: Optional[str]
  folder: str
  num_cores: int
  command: tuple[str, ...] = (sys.executable, "-m", job_worker.__name__)

  def to_json(self):
    """Returns what a process is told first, a dict for JSON."""
    return {
        "config": self.config.to_json(), "data_dir": self.data_dir, "folder": self.folder,
        "num_cores": self.num_cores,
    }


class _Process:
  """One process; a group at a time."""

  def __init__(self, study):
    self.group = None
    self.stage = None
    self._unread = b""
    self._errors = tempfile.TemporaryFile()
    self._process = subprocess.Popen(
        [*study.command, str(os.getpid())],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=self._errors,
        # Ctrl-C is for the program, which ends its processes.
        start_new_session=True,
        env={
            "TF_CPP_MIN_LOG_LEVEL": "3",
            **os.environ,
            "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
            # As many threads whatever the number of processes, so the same sums.
            "OMP_NUM_THREADS": "1",
            "OPENBLAS_NUM_THREADS": "1",
        },
    )
    self._send(study.to_json())

  def fileno(self):
    return self._process.stdout.fileno()

  def _send(self, values):
    try:
      self._process.stdin.write(json.dumps(values).encode() + b"\n")
      self._process.stdin.flush()
    except BrokenPipeError:
      pass  # It ended, which `read` will say.

  def start(self, group, failed):
    """Has it measure a group.

    Args:
      group: The `config.Group`.
      failed: Why methods failed that are not to be tried again, by name.
    """
    self.group, self.stage = group, "data"
    self._send({"group": dataclasses.asdict(group), "failed": failed})

  def read(self):
    """Reads what it has said since.

    Returns:
      Whether its group is measured; None if the process has ended.
    """
    some = os.read(self.fileno(), 2**16)
    if not some:
      return None
    *lines, self._unread = (self._unread + some).split(b"\n")
    measured = False
    for answer in map(json.loads, lines):
      self.stage = answer.get("stage", self.stage)
      measured |= "measured" in answer
    return measured

  def ending(self):
    """Returns how the process ended: its code and the last line that it printed."""
    try:
      code = self._process.wait(timeout=_SECONDS_TO_END)
    except subprocess.TimeoutExpired:
      return f"{cells.PROCESS_ENDED}: it closed its output"
    kind = " (-9 is often a lack of memory)" if code == -9 else ""
    parts = f"{cells.PROCESS_ENDED} with code {code}{kind}", child_process.last_line(self._errors)
    return ": ".join(filter(None, parts))

  def close(self):
    """Ends the process, and with it TFF's worker."""
    self._process.kill()
    self._process.communicate()
    self._errors.close()


class _Measuring:
  """The state of a study that is being measured."""

  def __init__(self, study, groups, tell_measured, tell_stage):
    self._study = study
    self._left = list(groups)[::-1]
    self._failed = {group: {} for group in groups}
    self._died_in = {group: set() for group in groups}
    self._tell_measured = tell_measured
    self._tell_stage = tell_stage
    self._selector = selectors.DefaultSelector()

  def run(self, num_jobs):
    try:
      for _ in range(min(num_jobs, len(self._left))):
        self._start_process()
      while self._selector.get_map():
        for key, _ in self._selector.select():
          self._listen(key.fileobj)
    finally:
      for key in list(self._selector.get_map().values()):
        key.fileobj.close()
      self._selector.close()

  def _start_process(self):
    process = _Process(self._study)
    self._selector.register(process, selectors.EVENT_READ)
    self._give_group(process)

  def _end(self, process):
    self._selector.unregister(process)
    process.close()

  def _give_group(self, process):
    if not self._left:
      self._end(process)
      return
    group = self._left.pop()
    process.start(group, self._failed[group])

  def _listen(self, process):
    measured = process.read()
    if measured:
      self._tell_measured(process.group)
      self._give_group(process)
    elif measured is None:
      self._bury(process)
    else:
      self._tell_stage(process.group, process.stage)

  def _bury(self, process):
    group, stage, how = process.group, process.stage, process.ending()
    self._end(process)
    if stage not in self._died_in[group]:
      self._died_in[group].add(stage)
      self._left.append(group)
    elif stage in self._failed[group] or stage in ("data", cells.PRETRAIN):
      rows = cells.failed_rows(self._study.config, group, how)
      cells.write_tables(self._study.folder, group, rows)
      self._tell_measured(group)
    else:
      self._failed[group][stage] = how
      self._left.append(group)
    if self._left:
      self._start_process()


def measure(study, groups, num_jobs, tell_measured, tell_stage=lambda group, stage: None):
  """Measures groups, and writes their tables.

  Args:
    study: The `Study`.
    groups: The `config.Group`s that are not measured yet.
    num_jobs: How many processes run at the same time.
    tell_measured: A function that is called with each group once its tables are there.
    tell_stage: A function that is called with a group and the stage that it has come to.
  """
  _Measuring(study, groups, tell_measured, tell_stage).run(num_jobs)
