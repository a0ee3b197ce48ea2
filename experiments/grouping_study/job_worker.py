"""A process of a study: measures one group after the other, as `jobs.py` asks it to.

It reads a JSON object per line from standard input, first the study and then its groups, and
answers likewise: with every stage that begins, and when a group is measured.
"""

import json
import os
import sys

from experiment_shell import child_process


def _requests():
  for line in sys.stdin:
    yield json.loads(line)


def _answer(stream, **values):
  stream.write(json.dumps(values) + "\n")
  stream.flush()


def main():
  child_process.end_with_parent(int(sys.argv[1]))
  # Whatever else prints must not be taken for an answer.
  answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
  os.dup2(2, 1)
  # pylint: disable=g-import-not-at-top
  from experiments.grouping_study import cells
  from experiments.grouping_study import config as config_lib
  from fl_clustering import runtime
  # pylint: enable=g-import-not-at-top

  requests = _requests()
  study = next(requests)
  config = config_lib.StudyConfig.from_json(study["config"])
  with runtime.LocalRuntime(study["num_cores"]):
    for request in requests:
      group = config_lib.Group(**request["group"])
      cells.measure_group(
          config, group, study["data_dir"], study["folder"], request["failed"],
          lambda stage: _answer(answers, stage=stage),
      )
      _answer(answers, measured=group.name)


if __name__ == "__main__":
  main()
