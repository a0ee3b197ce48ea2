"""Measures the groups of a study in processes of their own, several at a time.

A process that dies takes no other one with it.  Its group is tried once more, in a new process
and from its checkpoints, since another program may have taken the memory.  If the same stage
ends that process too, the stage's method has failed, and the group's others go on.  Its
checkpoints stay, and --resume tries it again.
"""

import dataclasses
import selectors
from typing import Any, Callable, Iterator, Sequence

from experiment_shell import child_process
from experiments.grouping_study import cells
from experiments.grouping_study import config as config_lib
from fl_clustering.methods import registry as method_registry
from fl_clustering import runtime

_VARIABLES = {
    # As many threads whatever the number of processes, so the same sums.
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
}


@dataclasses.dataclass(frozen=True)
class Study:
  """What all processes of a study need.

  Attributes:
    num_cores: How many cores each process uses.
    module: The module that serves its processes.
  """

  config: config_lib.StudyConfig
  data_dir: str | None
  folder: str
  num_cores: int
  module: str = __name__


def serve(requests: Iterator[Any], answer: Callable[[Any], None]) -> None:
  """Measures one group after the other, in a process of its own.

  Answers every stage that begins, and when a group is measured.
  """
  study = next(requests)
  config = config_lib.StudyConfig.from_json(study["config"])
  with runtime.LocalRuntime(study["num_cores"]):
    for request in requests:
      cells.measure_group(
          config, config_lib.Group(**request["group"]), study["data_dir"], study["folder"],
          request["failed"], lambda stage: answer({"stage": stage}),
      )
      answer({"measured": True})


class _Process:
  """One process; a group at a time."""

  def __init__(self, study: Study) -> None:
    command = child_process.serving(
        study.module, imported_before=method_registry.modules_of_others()
    )
    self.child = child_process.ChildProcess(command, _VARIABLES)
    self.child.send({
        "config": study.config.to_json(), "data_dir": study.data_dir, "folder": study.folder,
        "num_cores": study.num_cores,
    })

  def start(self, group: config_lib.Group, failed: dict[str, str]) -> None:
    """Has it measure a group, without methods that failed: by name, why they did."""
    self.group, self.stage = group, "data"
    self.child.send({"group": dataclasses.asdict(group), "failed": failed})

  def read(self) -> bool | None:
    """Reads what it has answered; returns whether its group is measured, None at its end."""
    answers = self.child.answers()
    if answers is None:
      return None
    for answer in answers:
      self.stage = answer.get("stage", self.stage)
    return any("measured" in answer for answer in answers)

  def ending(self) -> str:
    """Returns how the process ended: its code and the last line that it printed."""
    ending = self.child.ending()
    if ending is None:
      return f"{cells.PROCESS_ENDED}: it closed its output"
    explained = ending.replace("code -9", "code -9 (-9 is often a lack of memory)", 1)
    return f"{cells.PROCESS_ENDED} with {explained}"


class _Measuring:
  def __init__(
      self,
      study: Study,
      groups: Sequence[config_lib.Group],
      tell_measured: Callable[[config_lib.Group], Any],
      tell_stage: Callable[[config_lib.Group, str], Any],
  ) -> None:
    self._study = study
    self._left = list(groups)[::-1]
    self._failed: dict[config_lib.Group, dict[str, str]] = {group: {} for group in groups}
    self._died_in: dict[config_lib.Group, set[str]] = {group: set() for group in groups}
    self._tell_measured = tell_measured
    self._tell_stage = tell_stage
    self._selector = selectors.DefaultSelector()

  def run(self, num_jobs: int) -> None:
    try:
      for _ in range(min(num_jobs, len(self._left))):
        self._start_process()
      while self._selector.get_map():
        for key, _ in self._selector.select():
          self._listen(key.data)
    finally:
      for key in list(self._selector.get_map().values()):
        key.data.child.close()
      self._selector.close()

  def _start_process(self) -> None:
    process = _Process(self._study)
    self._selector.register(process.child, selectors.EVENT_READ, process)
    self._give_group(process)

  def _end(self, process: _Process) -> None:
    self._selector.unregister(process.child)
    process.child.close()

  def _give_group(self, process: _Process) -> None:
    if not self._left:
      self._end(process)
      return
    group = self._left.pop()
    process.start(group, self._failed[group])

  def _listen(self, process: _Process) -> None:
    measured = process.read()
    if measured:
      self._tell_measured(process.group)
      self._give_group(process)
    elif measured is None:
      self._bury(process)
    else:
      self._tell_stage(process.group, process.stage)

  def _bury(self, process: _Process) -> None:
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


def measure(
    study: Study,
    groups: Sequence[config_lib.Group],
    num_jobs: int,
    tell_measured: Callable[[config_lib.Group], Any],
    tell_stage: Callable[[config_lib.Group, str], Any] = lambda group, stage: None,
) -> None:
  """Measures groups, and writes their tables.

  Args:
    tell_measured: Called with each group once its tables are there.
    tell_stage: Called with a group and the stage that it has come to.
  """
  _Measuring(study, groups, tell_measured, tell_stage).run(num_jobs)
