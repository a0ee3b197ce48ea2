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


@dataclasses.dataclass(frozen=True, eq=False)
class Results:
  """A finished comparison.

  Attributes:
    rows: What each contestant measured in each workload, as in summary.json.  Values of launches
      are lists; the curves are those of the first launch.
    problems: Which contestants are missing or failed, and why.
    load: The highest load average of the machine in any launch.
  """

  run: finished_run.FinishedRun
  rows: list[dict[str, Any]]
  problems: list[tuple[str, str]]
  load: float

  @property
  def workloads(self) -> list[str]:
    return self.run.settings["workloads"]

  @property
  def peers(self) -> dict[str, dict[str, Any]]:
    """Versions, size and other facts of every contestant asked for, by name."""
    return self.run.document["contestants"]

  def of(self, workload: str) -> list[dict[str, Any]]:
    """Returns the rows of a workload: of contestants with a launch without a problem."""
    return [row for row in self.rows if row["workload"] == workload]

  def label(self, row: dict[str, Any]) -> str:
    return self.peers[row["contestant"]]["label"]


def _round_seconds(launch: dict[str, Any]) -> float:
  """Returns the median of a round; the first is left out, as it compiles."""
  return statistics.median(launch["seconds"][1:])


def _ratios(launches: list[dict[str, Any]], others: list[dict[str, Any]]) -> list[float]:
  """Returns seconds per round over those of another contestant in the same launch."""
  seconds = {other["launch"]: _round_seconds(other) for other in others}
  return [
      _round_seconds(one) / seconds[one["launch"]] for one in launches if one["launch"] in seconds
  ]


def _row(
    workload: str, contestant: str, launches: dict[tuple[str, str], list[dict[str, Any]]]
) -> dict[str, Any]:
  """Returns a row of `Results`, from the launches without a problem."""
  own, plain, ours = (
      launches.get((workload, name), [])
      for name in (contestant, contestants.PLAIN, contestants.OURS)
  )
  curve_difference = max(
      abs(one - other) for one, other in zip(own[0]["accuracies"], ours[0]["accuracies"])
  ) if ours else None
  return {
      "workload": workload,
      "contestant": contestant,
      "seconds_per_round": list(map(_round_seconds, own)),
      "seconds_of_all_rounds": [sum(one["seconds"]) for one in own],
      "start_seconds": [one["start_seconds"] for one in own],
      "ratios_to_plain": _ratios(own, plain),
      "ratios_to_ours": _ratios(own, ours),
      "peak_megabytes": [one["peak_megabytes"] for one in own],
      "first_difference": [one["first_difference"] for one in own],
      "last_difference": [one["last_difference"] for one in own],
      "curve_difference": curve_difference,
      "accuracies": own[0]["accuracies"],
      "losses": own[0]["losses"],
  }


def read(run: finished_run.FinishedRun) -> Results:
  peers = run.document["contestants"]
  launches: dict[tuple[str, str], list[dict[str, Any]]] = {}
  failed: dict[tuple[str, str], list[tuple[str, str]]] = {}
  load = 0.0
  for row in run.rows(cells.MEASUREMENTS, _LISTS):
    key = workload, name = row["workload"], row["contestant"]
    load = max(load, row["load"])
    if row["problem"] is not None:
      what = f"{peers[name]['label']}, {workload}, launch {row['launch']}"
      failed.setdefault(key, []).append((what, row["problem"]))
      continue
    launch = {value: row[value] for value in ("launch", *cells.VALUES)}
    launches.setdefault(key, []).append(
        {**launch, **{values: json.loads(row[values]) for values in _LISTS}}
    )
  pairs = [(workload, name) for workload in run.settings["workloads"] for name in peers]
  problems = [(one["label"], one["reason"]) for one in peers.values() if one["reason"] is not None]
  return Results(
      run,
      rows=[_row(*pair, launches) for pair in pairs if pair in launches],
      problems=problems + [problem for pair in pairs for problem in failed.get(pair, ())],
      load=load,
  )


def summary(results: Results) -> dict[str, Any]:
  """Returns seconds, ratios and curves of every contestant, for JSON."""
  return {"results": results.rows, "problems": [what for what, _ in results.problems]}


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
  about = workloads.WORKLOADS[workload]
  return Table(
      about.label,
      (
          "contestant", "s per round", "times plain", "times ours", "memory, MB", "start, s",
          "last", "most apart", "first round", "last round",
      ),
      [
          [
              results.label(row),
              shown(row["seconds_per_round"], ".3f"),
              shown(row["ratios_to_plain"]),
              shown(row["ratios_to_ours"]),
              _largest(row["peak_megabytes"], ".0f"),
              shown(row["start_seconds"], ".1f"),
              f"{row['accuracies'][-1]:.3f}",
              _largest([row["curve_difference"]], ".3f"),
              _largest(row["first_difference"], ".0e"),
              _largest(row["last_difference"], ".0e"),
          ]
          for row in results.of(workload)
      ],
      f"A FedAvg round of {about.num_clients} clients: median of the launches (lowest-highest); "
      "the largest difference of a weight is that to plain TensorFlow's",
      groups=(("", 6), ("accuracy", 2), ("weights apart", 2)),
  )


def minutes_with_start(row: dict[str, Any]) -> str:
  """Returns the minutes of all rounds of a contestant and of its start."""
  return minutes(
      statistics.median(map(sum, zip(row["seconds_of_all_rounds"], row["start_seconds"])))
  )


def _flute_table(results: Results) -> Table:
  """Returns a row for each contestant and each published time."""
  measured = [
      [
          results.label(row),
          minutes(statistics.median(row["seconds_of_all_rounds"])),
          minutes_with_start(row),
          f"{row['accuracies'][-1]:.1%}",
          "this machine",
      ]
      for row in results.of(workloads.FLUTE)
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
