"""What a finished study found: means, paired differences, failures."""

import dataclasses
import functools
import statistics
from typing import TYPE_CHECKING, Any, Callable

from experiment_shell import finished_run
from experiment_shell import output_folder
from experiment_shell import scores
from experiment_shell import text_table
from experiments.grouping_study import cells
from experiments.grouping_study import config as config_lib
from experiments.grouping_study import intervals
from experiments.three_phase import method_names
from fl_clustering.methods import registry as method_registry
from fl_clustering.three_phase import matched_control

if TYPE_CHECKING:
  import pandas as pd

FEDAVG = method_registry.FEDAVG
FINETUNED = method_names.FINETUNED
MATCHED = matched_control.NAME
# What methods are compared with.
REFERENCES = (FEDAVG, FINETUNED)
# No repetition of anything that is compared.
_NOT_COMPARED = (cells.PRETRAIN, MATCHED)
# From this adjusted Rand index on, a method has found the true groups.
FOUND = 0.95
_MEANS = ("adjusted_rand_index", "num_clusters", "client_steps", "bytes_down", "bytes_up")


@dataclasses.dataclass(frozen=True, eq=False)
class Results:
  """What one study found.

  A repetition is a pair of seed and fold; the fold is None without folds.
  """

  run: finished_run.FinishedRun

  @functools.cached_property
  def config(self) -> config_lib.StudyConfig:
    try:
      return config_lib.StudyConfig.from_json(self.run.settings)
    except finished_run.DamagedFile:
      raise
    except (TypeError, ValueError) as e:
      raise finished_run.DamagedFile(self.run.join(output_folder.CONFIG), e) from e

  @property
  def settings(self) -> tuple[str, ...]:
    return self.config.settings

  @functools.cached_property
  def rows(self) -> list[dict[str, Any]]:
    """The rows of `results.csv`."""
    return self.run.rows(cells.RESULTS, cells.TEXT_COLUMNS)

  @functools.cached_property
  def failures(self) -> list[dict[str, Any]]:
    """The rows of the cells that failed."""
    return [row for row in self.rows if row["problem"]]

  @property
  def num_repetitions(self) -> int:
    """How many repetitions there are."""
    return len({(row["seed"], row["fold"]) for row in self.rows})

  @functools.cached_property
  def methods(self) -> list[str]:
    """All methods: phase 1, those that were chosen, the controls."""
    found = dict.fromkeys([*cells.methods_of(self.config.run), *(r["method"] for r in self.rows)])
    return list(found)

  @property
  def chosen_methods(self) -> list[str]:
    """The methods that are no controls."""
    return list(self.config.run.chosen_methods)

  def compared_with(self, reference: str) -> list[str]:
    """Returns the methods and controls that are compared with one of `REFERENCES`."""
    return [m for m in self.methods if m != reference and m not in _NOT_COMPARED]

  @property
  def num_comparisons(self) -> int:
    """How many differences the study judges: of all settings, from all references."""
    # That of the references from each other is one, seen from both sides.
    pairs = {frozenset((one, other)) for one in REFERENCES for other in self.compared_with(one)}
    return len(self.settings) * len(pairs)

  @functools.cached_property
  def _by_cell(self) -> dict[tuple[str, str], "pd.DataFrame"]:
    """(setting, method) -> table of scores by repetition."""
    table = scores.table(self.rows, cells.HEADERS[cells.RESULTS], "seed")
    # As text, since no fold is no number.
    table.index = table["seed"].astype(str) + " " + table["fold"].astype(str)
    return dict(iter(table.groupby(["setting", "method"])))

  def values(self, setting: str, method: str, column: str = "accuracy") -> "pd.Series":
    """Returns the values of a column by repetition; cells that failed have none."""
    import pandas as pd  # Takes long to import.  pylint: disable=g-import-not-at-top

    table = self._by_cell.get((setting, method))
    return pd.Series(dtype=float) if table is None else table[column].dropna().astype(float)

  def interval(
      self, setting: str, method: str, column: str = "accuracy"
  ) -> intervals.Interval | None:
    """Returns a share's mean over the repetitions, None if there are no values."""
    values = self.values(setting, method, column)
    return intervals.interval(values, intervals.SHARES, self.config.num_folds)

  def mean(self, setting: str, method: str, column: str) -> float | None:
    """Returns the mean of a column over the repetitions, None if there are no values."""
    values = self.values(setting, method, column)
    return statistics.fmean(values) if len(values) else None

  def num_found(self, setting: str, method: str) -> tuple[int, int]:
    """Returns in how many repetitions a method found the true groups, and of how many.

    Where clients are in several clusters, there is no index, and the groups are not found.  Where
    the groups are not known, and of a control, it is zero of zero.
    """
    indices = {m: self.values(setting, m, "adjusted_rand_index") for m in self.chosen_methods}
    if method not in indices or not any(map(len, indices.values())):
      return 0, 0
    return int((indices[method] >= FOUND).sum()), len(self.values(setting, method))

  def reference_values(self, setting: str, method: str, reference: str) -> "pd.Series":
    """Returns the accuracy by repetition of what a method is compared with.

    Where a method has more client steps than `fedavg`, it is compared with the control that
    has as many as the method with the most; without that control it is not compared.
    """
    found = self.values(setting, reference)
    if reference != FEDAVG:
      return found
    steps, of_fedavg = (
        self.values(setting, one, "client_steps").reindex(found.index) for one in (method, FEDAVG)
    )
    has_more = steps > (1 + matched_control.TOLERANCE) * of_fedavg
    return found.where(~has_more, self.values(setting, MATCHED))

  def gain(self, setting: str, method: str, reference: str) -> intervals.Interval | None:
    """Returns a method's mean difference from a reference, None without pairs.

    The intervals of all differences of the study hold at once.  So whatever is said of those that
    leave out zero, in words, in colour or in bold, of one or of a choice of them, holds too.

    Args:
      reference: One of `REFERENCES`.
    """
    differences = (
        self.values(setting, method) - self.reference_values(setting, method, reference)
    )
    return intervals.interval(
        differences.dropna(), intervals.DIFFERENCES_OF_SHARES, self.config.num_folds,
        self.num_comparisons,
    )

  def no_gain_text(self, setting: str, method: str) -> str:
    """Returns what stands in place of a gain without pairs: whether the method failed."""
    return scores.ABSENT if len(self.values(setting, method)) else "failed"

  @functools.cached_property
  def curves(self) -> "pd.DataFrame":
    """Every round of every setting and method: `mean` (accuracy), `client_steps` and `bytes`.

    All are means over the repetitions.
    Rounds that only some repetitions have, such as the last ones of a matched control, are
    left out.
    """
    rows = self.run.rows(cells.ROUNDS, cells.TEXT_COLUMNS)
    rounds = scores.table(rows, cells.HEADERS[cells.ROUNDS], "round")
    keys = ["setting", "method", "round"]
    counts = rounds.groupby(keys)["round"].transform("size")
    most = counts.groupby([rounds["setting"], rounds["method"]]).transform("max")
    by_round = rounds[counts == most].groupby(keys)
    means = by_round[["accuracy", "client_steps", "bytes"]].mean()
    return means.rename(columns={"accuracy": "mean"}).reset_index()

  @property
  def repetitions_text(self) -> str:
    """What is repeated, in words."""
    first, count = self.config.run.seed, self.config.num_seeds
    seeds = f"seed {first}" if count == 1 else f"seeds {first} to {first + count - 1}"
    if self.config.num_folds is None:
      return seeds
    return f"{self.config.num_folds} folds of {seeds}"

  @property
  def data_line(self) -> str:
    """The data, in one line for figures."""
    data = self.run.document["data"]
    clients = f"{data['num_clients']:,} clients"
    return f"{data['name']}, {clients}, {self.repetitions_text}"


def read(run: finished_run.FinishedRun) -> Results:
  return Results(run)


def _method_summary(results: Results, setting: str, method: str) -> dict[str, Any]:
  measured = {"accuracy": results.interval(setting, method)}
  for reference in REFERENCES:
    if method in results.compared_with(reference):
      measured[f"gain_over_{reference}"] = results.gain(setting, method, reference)
  found: dict[str, Any] = {
      name: None if one is None else dataclasses.asdict(one) for name, one in measured.items()
  }
  found.update((column, results.mean(setting, method, column)) for column in _MEANS)
  return {name: value for name, value in found.items() if value is not None}


def summary(results: Results) -> dict[str, Any]:
  """Returns means and differences with their intervals, and the failures, for JSON."""
  return {
      "level": intervals.LEVEL,
      "num_comparisons": results.num_comparisons,
      "settings": {
          setting: {
              method: _method_summary(results, setting, method) for method in results.methods
          }
          for setting in results.settings
      },
      "failures": [
          {name: row[name] for name in (*cells.KEYS, "problem")} for row in results.failures
      ],
  }


def accuracy_text(found: intervals.Interval | None) -> str:
  """Returns the mean and standard deviation of an accuracy as text; a dash for None."""
  if found is None:
    return scores.ABSENT
  return f"{found.mean:.3f}" + ("" if found.sd is None else f" ± {found.sd:.3f}")


def ends_text(
    found: intervals.Interval, form: Callable[[float], str] = scores.points
) -> str:
  """Returns an interval's ends as text, by default in percentage points; a dash for too few."""
  if found.count < intervals.LEAST_COUNT:
    return scores.ABSENT
  return scores.interval_text(found.low, found.high, form)


def _gain_text(found: intervals.Interval | None) -> str:
  if found is None:
    return "-"
  return scores.points(found.mean) + ("*" if found.leaves_out_zero else " ")


def _failure_text(row: dict[str, Any]) -> str:
  """Returns which cell failed, and why, in one line."""
  fold = "" if row["fold"] is None else f", fold {row['fold']}"
  return f"{row['setting']}, {row['method']}, seed {row['seed']}{fold}: {row['problem']}"


def text(results: Results) -> str:
  """Returns the gains over FedAvg as a table for the terminal, and the failures."""
  rows = []
  for method in results.compared_with(FEDAVG):
    gains = [_gain_text(results.gain(setting, method, FEDAVG)) for setting in results.settings]
    rows.append([method_names.method_label(method), *gains])
  accuracies = (results.mean(setting, FEDAVG, "accuracy") for setting in results.settings)
  rows.append([
      method_names.method_label(FEDAVG),
      *("-" if mean is None else f"{mean:.3f} " for mean in accuracies),
  ])
  if results.num_repetitions < intervals.LEAST_COUNT:
    told = f"no interval: {results.repetitions_text}, and it takes {intervals.LEAST_COUNT} or more"
  else:
    told = (
        f"*: its interval over {results.repetitions_text} leaves out zero, at "
        f"{intervals.LEVEL:.0%} for all {results.num_comparisons} comparisons of the study together"
    )
  lines = [
      text_table.text_table(["method", *results.settings], rows),
      "",
      "gain in the clients' mean accuracy over FedAvg of equal work, in percentage points; FedAvg: "
      "its accuracy",
      told,
  ]
  if results.failures:
    lines += ["", "failed:", *map(_failure_text, results.failures)]
  return "\n".join(lines)


def may_get_further(results: Results) -> bool:
  """Returns whether cells failed that a resumed study tries again."""
  return any(cells.ended_process(row["problem"]) for row in results.failures)


def problem(results: Results) -> str:
  """Returns that cells failed, for the program's last line; "" if none did."""
  if not results.failures:
    return ""
  return f"{len(results.failures):,} of {len(results.rows):,} cells failed; they are listed above."
