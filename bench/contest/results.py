"""Reads a finished comparison: seconds, ratios, curves and what each contestant needs."""

import dataclasses
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
  """A time of a whole run that others have published, measured on another machine."""

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
    launch: Its number.
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

  workload: str
  launch: int
  contestant: str
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
    load: The highest load average of the machine in any launch.
  """

  run: finished_run.FinishedRun
  launches: Sequence[Launch]
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

  def _launches(self, workload: str, contestant: str) -> list[Launch]:
    return [
        one for one in self.launches
        if (one.workload, one.contestant) == (workload, contestant)
    ]

  def complete(self, workload: str, contestant: str) -> list[Launch]:
    """Returns the launches without a problem."""
    return [one for one in self._launches(workload, contestant) if one.problem is None]

  def values(self, workload: str, contestant: str, attribute: str) -> list[Any]:
    """Returns an attribute of all launches without a problem."""
    return [getattr(one, attribute) for one in self.complete(workload, contestant)]

  def ratios(self, workload: str, contestant: str, other: str) -> list[float]:
    """Returns seconds per round over those of another contestant in the same launch."""
    others = {one.launch: one.round_seconds for one in self.complete(workload, other)}
    return [
        one.round_seconds / others[one.launch]
        for one in self.complete(workload, contestant) if one.launch in others
    ]

  def curve_difference(self, workload: str, contestant: str) -> float | None:
    """Returns the largest difference of accuracy to ours after any round; None without ours."""
    ours = self.complete(workload, contestants.OURS)
    if not ours:
      return None
    (first, *_) = self.complete(workload, contestant)
    return max(abs(one - other) for one, other in zip(first.accuracies, ours[0].accuracies))

  @property
  def problems(self) -> list[tuple[str, str]]:
    """Which contestants are missing or failed, and why."""
    found = [
        (one["label"], one["reason"]) for one in self.peers.values() if one["reason"] is not None
    ]
    for workload in self.workloads:
      for name, peer in self.peers.items():
        found += [
            (f"{peer['label']}, {workload}, launch {one.launch}", one.problem)
            for one in self._launches(workload, name) if one.problem is not None
        ]
    return found


def read(run: finished_run.FinishedRun) -> Results:
  launches, load = [], 0.0
  for row in run.rows(cells.MEASUREMENTS, _LISTS):
    values: dict[str, Any] = {field.name: row[field.name] for field in dataclasses.fields(Launch)}
    for name in _LISTS:
      values[name] = tuple(json.loads(row[name]))
    launches.append(Launch(**values))
    load = max(load, row["load"])
  return Results(run, launches, load)


def summary(results: Results) -> dict[str, Any]:
  """Returns seconds, ratios and curves of every contestant, for JSON."""
  found = []
  for workload in results.workloads:
    for name in results.contestants(workload):
      (first, *_) = results.complete(workload, name)
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


def _largest(all_values: Iterable[float | None], form: str) -> str:
  values = [value for value in all_values if value is not None]
  return format(max(values), form) if values else ABSENT


def minutes(seconds: float) -> str:
  """Returns seconds as minutes:seconds."""
  return f"{round(seconds) // 60}:{round(seconds) % 60:02d}"


@dataclasses.dataclass(frozen=True)
class Table:
  """A table of the comparison, for the terminal and for the page.

  Attributes:
    title: What it is about.
    header: The columns' headings.
    rows: Texts under the header, one row for each contestant.
    caption: What the numbers are.
    groups: A line above the header: headings and how many columns they span.
    text_columns: The columns of words, by position.
  """

  title: str
  header: tuple[str, ...]
  rows: list[list[str]]
  caption: str
  groups: tuple[tuple[str, int], ...] = ()
  text_columns: tuple[int, ...] = ()


def _round_table(results: Results, workload: str) -> Table:
  def row(name: str) -> list[str]:
    def values(attribute: str) -> list[Any]:
      return results.values(workload, name, attribute)

    return [
        results.peers[name]["label"],
        shown(values("round_seconds"), ".3f"),
        shown(results.ratios(workload, name, contestants.PLAIN)),
        shown(results.ratios(workload, name, contestants.OURS)),
        _largest(values("peak_megabytes"), ".0f"),
        shown(values("start_seconds"), ".1f"),
        f"{results.complete(workload, name)[0].accuracies[-1]:.3f}",
        _largest([results.curve_difference(workload, name)], ".3f"),
        _largest(values("first_difference"), ".0e"),
        _largest(values("last_difference"), ".0e"),
    ]

  about = workloads.WORKLOADS[workload]
  return Table(
      about.label,
      (
          "contestant", "s per round", "times plain", "times ours", "memory, MB", "start, s",
          "last", "most apart", "first round", "last round",
      ),
      [row(name) for name in results.contestants(workload)],
      f"A FedAvg round of {about.num_clients} clients: median of the launches (lowest-highest); "
      "the largest difference of a weight is that to plain TensorFlow's",
      groups=(("", 6), ("accuracy", 2), ("weights apart", 2)),
  )


def flute_minutes(results: Results, contestant: str) -> tuple[str, str]:
  """Returns the minutes that FLUTE's rounds took a contestant, without and with its start."""
  launches = results.complete(workloads.FLUTE, contestant)
  return (
      minutes(statistics.median(one.total_seconds for one in launches)),
      minutes(statistics.median(one.total_seconds + one.start_seconds for one in launches)),
  )


def _flute_table(results: Results) -> Table:
  """Returns a row for each contestant and each published time."""
  measured = [
      [
          results.peers[name]["label"],
          *flute_minutes(results, name),
          f"{results.complete(workloads.FLUTE, name)[0].accuracies[-1]:.1%}",
          "this machine",
      ]
      for name in results.contestants(workloads.FLUTE)
  ]
  published = [
      [one.label, ABSENT, minutes(one.seconds), one.accuracy, "published, another machine"]
      for one in PUBLISHED
  ]
  return Table(
      workloads.WORKLOADS[workloads.FLUTE].label,
      ("contestant", "all rounds, min:s", "with start, min:s", "accuracy", "where"),
      measured + published,
      "Softmax regression, 1,000 clients, 10 a round, batches of 10, step size 0.03, 100 rounds",
      text_columns=(4,),
  )


def _needs_table(results: Results) -> Table:
  """Returns what each contestant needs, or why it is left out."""
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
  return Table(
      "What each needs",
      ("contestant", "versions", "to install, s", "environment, MB"),
      rows,
      "Versions, time to install and size of the environment",
      text_columns=(1,),
  )


def tables(results: Results) -> list[Table]:
  """Returns the table of each workload, and last what each contestant needs."""
  return [
      *(
          _flute_table(results) if workload == workloads.FLUTE else _round_table(results, workload)
          for workload in results.workloads
      ),
      _needs_table(results),
  ]


def text(results: Results) -> str:
  """Returns the tables for the terminal."""
  *of_workloads, needs = tables(results)
  parts = [
      text_table.text_table([table.title, *table.header[1:]], table.rows, table.groups)
      for table in of_workloads
  ]
  parts.append(text_table.text_table(needs.header, needs.rows))
  parts += [f"{what}: {reason}" for what, reason in results.problems]
  parts.append(
      f"launches: {results.run.settings['launches']}, median (lowest-highest); highest load of "
      f"the machine: {results.load:g}"
  )
  return "\n\n".join(parts)
