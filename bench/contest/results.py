"""Reads a finished comparison: seconds, ratios, curves and what each contestant needs."""

import dataclasses
import functools
import json
import statistics
from typing import Any, Iterable, Sequence

from bench.contest import cells
from bench.contest import contestants
from bench.contest import workloads
from experiment_shell import finished_run
from experiment_shell import text_table

ABSENT = "–"
_LISTS = ("seconds", "accuracies", "losses")


@dataclasses.dataclass(frozen=True)
class Published:
  """A time that others have published, measured on another machine.

  Attributes:
    label: Whose time it is.
    seconds: Of the whole run.
  """

  label: str
  seconds: int
  accuracy: str


# https://github.com/microsoft/msrflute, README.md, "Flower Comparison", row "CPU".
PUBLISHED = (
    Published("FLUTE", 3 * 60 + 20, "about 80%"),
    Published("Flower 1.0.0 with Ray", 30 * 60 + 14, "about 80%"),
)


@dataclasses.dataclass(frozen=True)
class Launch:
  """What one launch of a contestant measured.

  Attributes:
    start_seconds: From the start of the process until it is ready; None if it did not start.
    seconds: Of each round.
    accuracies: After each round, on the global test set.
    losses: The same.
    first_difference: Largest difference of any weight to plain TensorFlow's after the first
      round.
    last_difference: The same after the last round.
    peak_megabytes: Sum over its processes of the highest memory of each.
    problem: Why it failed, or None.
  """

  start_seconds: float
  seconds: tuple[float, ...]
  accuracies: tuple[float, ...]
  losses: tuple[float, ...]
  first_difference: float | None
  last_difference: float | None
  peak_megabytes: float | None
  problem: str | None

  @property
  def round_seconds(self) -> float:
    """The median of a round; the first is left out, as it compiles."""
    return statistics.median(self.seconds[1:])

  @property
  def total_seconds(self) -> float:
    """All rounds together, the first included."""
    return sum(self.seconds)


@dataclasses.dataclass(frozen=True, eq=False)
class Results:
  """A finished comparison.

  Attributes:
    launches: Those of a workload and a contestant, by their number.
    load: The highest load average of the machine in any launch.
  """

  run: finished_run.FinishedRun
  launches: dict[tuple[str, str], dict[int, Launch]]
  load: float

  @property
  def workloads(self) -> list[str]:
    return self.run.settings["workloads"]

  @property
  def peers(self) -> dict[str, dict[str, Any]]:
    """Versions, size and other facts of every contestant asked for, by name."""
    return self.run.document["contestants"]

  def contestants(self, workload: str) -> list[str]:
    """Returns the names of the contestants with at least one launch without a problem."""
    return [name for name in self.peers if self.complete(workload, name)]

  def complete(self, workload: str, contestant: str) -> dict[int, Launch]:
    """Returns the launches without a problem, by their number."""
    found = self.launches.get((workload, contestant), {})
    return {number: one for number, one in found.items() if one.problem is None}

  def values(self, workload: str, contestant: str, attribute: str) -> list[Any]:
    """Returns an attribute of all launches without a problem."""
    return [getattr(one, attribute) for one in self.complete(workload, contestant).values()]

  def ratios(self, workload: str, contestant: str, other: str) -> list[float]:
    """Returns seconds per round over those of another contestant in the same launch."""
    mine, others = self.complete(workload, contestant), self.complete(workload, other)
    return [
        mine[number].round_seconds / others[number].round_seconds
        for number in mine if number in others
    ]

  def first_launch(self, workload: str, contestant: str) -> Launch:
    """Returns the first launch without a problem; the contestant must have one."""
    return next(iter(self.complete(workload, contestant).values()))

  def curve_difference(self, workload: str, contestant: str) -> float | None:
    """Returns the largest difference of accuracy to ours after any round; None without ours."""
    if not self.complete(workload, contestants.OURS):
      return None
    pairs = zip(
        self.first_launch(workload, contestant).accuracies,
        self.first_launch(workload, contestants.OURS).accuracies,
    )
    return max(abs(one - other) for one, other in pairs)

  @functools.cached_property
  def problems(self) -> list[tuple[str, str]]:
    """Which contestants are missing or failed, and why."""
    found = [
        (one["label"], one["reason"]) for one in self.peers.values() if one["reason"] is not None
    ]
    for (workload, contestant), launches in self.launches.items():
      for number, launch in launches.items():
        if launch.problem is not None:
          what = f"{self.peers[contestant]['label']}, {workload}, launch {number}"
          found.append((what, launch.problem))
    return found


def read(run: finished_run.FinishedRun) -> Results:
  launches: dict[tuple[str, str], dict[int, Launch]] = {}
  load = 0.0
  for row in run.rows(cells.MEASUREMENTS, _LISTS):
    values: dict[str, Any] = {field.name: row[field.name] for field in dataclasses.fields(Launch)}
    for name in _LISTS:
      values[name] = tuple(json.loads(row[name]))
    of_contestant = launches.setdefault((row["workload"], row["contestant"]), {})
    of_contestant[row["launch"]] = Launch(**values)
    load = max(load, row["load"])
  return Results(run, launches, load)


def summary(results: Results) -> dict[str, Any]:
  """Returns seconds, ratios and curves of every contestant, for JSON."""
  found = []
  for workload in results.workloads:
    for name in results.contestants(workload):
      first = results.first_launch(workload, name)
      found.append({
          "workload": workload,
          "contestant": name,
          "seconds_per_round": results.values(workload, name, "round_seconds"),
          "seconds_of_all_rounds": results.values(workload, name, "total_seconds"),
          "start_seconds": results.values(workload, name, "start_seconds"),
          "ratios_to_plain": results.ratios(workload, name, contestants.PLAIN),
          "ratios_to_ours": results.ratios(workload, name, contestants.OURS),
          "peak_megabytes": results.values(workload, name, "peak_megabytes"),
          "first_difference": results.values(workload, name, "first_difference"),
          "last_difference": results.values(workload, name, "last_difference"),
          "curve_difference": results.curve_difference(workload, name),
          "accuracies": list(first.accuracies),
          "losses": list(first.losses),
      })
  return {"results": found, "problems": [what for what, _ in results.problems]}


def shown(all_values: Iterable[float | None], form: str = ".2f") -> str:
  """Returns the median with the lowest and the highest as text; a dash for no values."""
  values = [value for value in all_values if value is not None]
  if not values:
    return ABSENT
  median = format(statistics.median(values), form)
  if len(values) == 1:
    return median
  return f"{median} ({format(min(values), form)}-{format(max(values), form)})"


def minutes(seconds: float) -> str:
  """Returns seconds as minutes:seconds."""
  return f"{round(seconds) // 60}:{round(seconds) % 60:02d}"


def _largest(values: Sequence[float | None], form: str) -> str:
  found = [value for value in values if value is not None]
  return format(max(found), form) if found else ABSENT


ROUND_HEADER = (
    "contestant", "s per round", "times plain", "times ours", "memory, MB", "start, s",
    "last", "most apart", "first round", "last round",
)
ROUND_GROUPS = (("", 6), ("accuracy", 2), ("weights apart", 2))


def round_rows(results: Results, workload: str) -> list[list[str]]:
  """Returns a row of text for each contestant, under `ROUND_HEADER`."""
  return [
      [
          results.peers[name]["label"],
          shown(results.values(workload, name, "round_seconds"), ".3f"),
          shown(results.ratios(workload, name, contestants.PLAIN)),
          shown(results.ratios(workload, name, contestants.OURS)),
          _largest(results.values(workload, name, "peak_megabytes"), ".0f"),
          shown(results.values(workload, name, "start_seconds"), ".1f"),
          f"{results.first_launch(workload, name).accuracies[-1]:.3f}",
          _largest([results.curve_difference(workload, name)], ".3f"),
          _largest(results.values(workload, name, "first_difference"), ".0e"),
          _largest(results.values(workload, name, "last_difference"), ".0e"),
      ]
      for name in results.contestants(workload)
  ]


FLUTE_HEADER = ("contestant", "all rounds, min:s", "with start, min:s", "accuracy", "where")


def flute_row(results: Results, contestant: str) -> list[str] | None:
  """Returns a contestant's row of text under `FLUTE_HEADER`; None if it has no launch."""
  launches = results.complete(workloads.FLUTE, contestant).values()
  if not launches:
    return None
  return [
      results.peers[contestant]["label"],
      minutes(statistics.median(one.total_seconds for one in launches)),
      minutes(statistics.median(one.total_seconds + one.start_seconds for one in launches)),
      f"{results.first_launch(workloads.FLUTE, contestant).accuracies[-1]:.1%}",
      "this machine",
  ]


def flute_rows(results: Results) -> list[list[str]]:
  """Returns a row of text for each contestant and each published time."""
  measured = [flute_row(results, name) for name in results.contestants(workloads.FLUTE)]
  return [row for row in measured if row is not None] + [
      [one.label, ABSENT, minutes(one.seconds), one.accuracy, "published, another machine"]
      for one in PUBLISHED
  ]


NEEDS_HEADER = ("contestant", "versions", "to install, s", "environment, MB")


def needs_rows(results: Results) -> list[list[str]]:
  """Returns a row of text for each contestant: what it needs, or why it is left out."""
  rows = []
  for one in results.peers.values():
    versions = ", ".join(f"{name} {version}" for name, version in one["versions"].items())
    rows.append([
        one["label"],
        f"left out: {one['reason']}" if one["reason"] is not None else versions,
        *(
            ABSENT if one[value] is None else f"{one[value]:,.0f}"
            for value in ("install_seconds", "megabytes")
        ),
    ])
  return rows


def text(results: Results) -> str:
  """Returns the tables for the terminal."""
  settings = results.run.settings
  parts = []
  for workload in results.workloads:
    title = workloads.WORKLOADS[workload].label
    if workload == workloads.FLUTE:
      parts.append(text_table.text_table([title, *FLUTE_HEADER[1:]], flute_rows(results)))
    else:
      header = [title, *ROUND_HEADER[1:]]
      parts.append(text_table.text_table(header, round_rows(results, workload), ROUND_GROUPS))
  parts.append(text_table.text_table(NEEDS_HEADER, needs_rows(results)))
  parts += [f"{what}: {reason}" for what, reason in results.problems]
  parts.append(
      f"launches: {settings['launches']}, median (lowest-highest); highest load of the machine: "
      f"{results.load:g}"
  )
  return "\n\n".join(parts)
