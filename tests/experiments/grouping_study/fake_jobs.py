"""A stand-in for `jobs.serve` that measures nothing.

It ends its process where `deaths.json` in the study's folder says so, and notes what it was asked.
"""

import json
import os
import sys

from experiments.grouping_study import cells
from experiments.grouping_study import config as config_lib


def _measure(folder, deaths, group, failed, answer):
  for stage in ("pretrain", "kmeans", "ifca", "fedavg"):
    if stage in failed:
      continue
    answer({"stage": stage})
    key = f"{group.name} {stage}"
    note = os.path.join(folder, key)
    count = int(open(note, encoding="utf-8").read()) if os.path.exists(note) else 0
    if count < deaths.get(key, 0):
      with open(note, "w", encoding="utf-8") as file:
        file.write(str(count + 1))
      print("no room", file=sys.stderr, flush=True)
      os._exit(3)
  rows = [[group.setting, group.seed, group.fold, "kmeans", *[0.5] * (len(cells.VALUES) - 1), None]]
  rows += [cells.failed_row(group, name, why) for name, why in failed.items()]
  cells.write_tables(folder, group, rows)


def serve(requests, answer):
  """Answers requests; see `jobs.serve`."""
  folder = next(requests)["folder"]
  with open(os.path.join(folder, "started.txt"), "a", encoding="utf-8") as file:
    print("a process", file=file)
  with open(os.path.join(folder, "deaths.json"), encoding="utf-8") as file:
    deaths = json.load(file)
  for request in requests:
    group = config_lib.Group(**request["group"])
    with open(os.path.join(folder, "asked.txt"), "a", encoding="utf-8") as file:
      print(group.name, file=file)
    _measure(folder, deaths, group, request["failed"], answer)
    answer({"measured": True})
