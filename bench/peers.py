"""The same FedAvg in ours, plain TensorFlow, TFF, Apple's pfl, Flower and fedjax.

  bazel run bench:peers -- --output_dir=out

Every peer has an environment of its own, which is installed when it is first needed: this
downloads up to 800 MB.  A peer that can't be installed or fails is named with the reason, and
the others go on.  Run it on a quiet machine; three launches took 19 minutes on two cores.
The report has:

*   Seconds, ratios and memory of a round of 100 clients, and the learning curves.
*   The settings of FLUTE's README (--data_dir=FOLDER names MNIST's IDX files), with its
    published times.
*   What each peer needs to be installed.
"""

from experiment_shell import launch  # First, for Ctrl-C while the others are imported.

import contextlib
import os
from typing import Any, Mapping

from absl import flags

from bench.contest import cells
from bench.contest import config as config_lib
from bench.contest import contestants
from bench.contest import environments
from bench.contest import flags as peers_flags
from bench.contest import results
from bench.contest import workloads
from clustering_basics import validate
from experiment_shell import experiment
from experiment_shell import finished_run
from experiment_shell import output_folder
from experiment_shell import study

flags.adopt_module_key_flags(peers_flags)


def _described(name: str, folder: str) -> tuple[str | None, dict[str, Any]]:
  """Returns a contestant's Python, or None, and what is recorded of it."""
  contestant = contestants.CONTESTANTS[name]
  facts: dict[str, Any] = {
      "label": contestant.label, "versions": {}, "install_seconds": None, "megabytes": None,
      "reason": None,
  }
  try:
    found = environments.get(name, contestant, folder)
    versions = environments.versions(found, contestant)
  except environments.EnvironmentUnavailable as e:
    return None, {**facts, "reason": str(e)}
  return found.python, {
      **facts,
      "versions": versions,
      "install_seconds": found.install_seconds,
      "megabytes": found.megabytes,
  }


def _available(document: Mapping[str, Any]) -> list[str]:
  return [name for name, one in document["contestants"].items() if one["reason"] is None]


def _check_recorded(recorded: Any, document: Mapping[str, Any]) -> None:
  before, now = _available(recorded), _available(document)
  if before != now:
    raise validate.error(
        "peers", f"have the environments of the run to resume, {', '.join(before)}",
        ", ".join(now),
    )


class Peers(experiment.Experiment):
  """The comparison of peers."""

  name = "peers"
  program = "peers"
  files = (cells.MEASUREMENTS,)
  versions_of = ("numpy", "tensorflow", "tensorflow-federated")
  report = "bench.contest.report"
  config = staticmethod(peers_flags.config)
  check_recorded = staticmethod(_check_recorded)

  def load(
      self, config: config_lib.PeersConfig, recorded: dict[str, Any] | None,
      stack: contextlib.ExitStack,
  ) -> experiment.Inputs:
    del recorded, stack
    tasks = {
        name: workloads.load_task(
            workloads.WORKLOADS[name], config.seed, peers_flags.data_dir()
        )
        for name in config.workloads
    }
    pythons, described = {}, {}
    for name in config.contestants():
      python, described[name] = _described(name, peers_flags.environments_dir())
      if python is not None:
        pythons[name] = python
    lines = [f"data of {name}: {task.source}" for name, task in tasks.items()]
    lines += [
        f"left out: {one['label']}: {one['reason']}"
        for one in described.values() if one["reason"] is not None
    ]
    document = {
        "data": {name: task.source for name, task in tasks.items()},
        "contestants": described,
        "num_cores": len(os.sched_getaffinity(0)),
    }
    return experiment.Inputs((tasks, pythons), document, tuple(lines))

  def measure(
      self, config: config_lib.PeersConfig, inputs: experiment.Inputs,
      folder: output_folder.OutputFolder,
  ) -> dict[str, Any]:
    tasks, pythons = inputs.data

    def measure_launch(workload: str, unused_launch: int) -> dict[str, dict[str, Any]]:
      task = tasks[workload]
      job = workloads.build_job(
          workloads.WORKLOADS[workload], task, config.rounds_of(workload), config.seed
      )
      return cells.measure_launch(
          job, pythons, cells.build_evaluate(task), config.answer_seconds
      )

    table = study.Study(folder, cells.MEASUREMENTS, cells.KEYS, cells.VALUES)
    table.run(
        (
            {"workload": workload, "launch": number, "contestant": name}
            for workload in config.workloads
            for number in range(1, config.launches + 1)
            for name in pythons
        ),
        cells.by_cell(measure_launch),
    )
    return results.summary(results.read(finished_run.FinishedRun(folder.path)))

  def result_text(self, finished: finished_run.FinishedRun) -> str:
    return results.text(results.read(finished))


if __name__ == "__main__":
  launch.run(Peers().main)
