"""What a finished study found: means, paired differences, failures."""

import dataclasses
import functools
import statistics

from experiment_shell import finished_run
from experiment_shell import output_folder
from experiment_shell import scores
from experiment_shell import text_table
from experiments.grouping_study import cells
from experiments.grouping_study import config as config_lib
from experiments.grouping_study import intervals
from experiments.three_phase import comparison
from experiments.three_phase import results as run_results
from fl_clustering.methods import registry as method_registry
from fl_clustering.three_phase import matched_control

FEDAVG = method_registry.FEDAVG
FINETUNED = run_results.FINETUNED
MATCHED = matched_control.NAME
# What methods are compared with.
REFERENCES = (FEDAVG, FINETUNED)
# No repetition of anything that is compared.
_NOT_COMPARED = (cells.PRETRAIN, MATCHED)


@dataclasses.dataclass(frozen=True, eq=False)
class Results:
  """What one study found.

  A repetition is a pair of seed and fold; the fold is None without folds.

  Attributes:
    run: The `FinishedRun`.
  """

  run: finished_run.FinishedRun

  @functools.cached_property
  def config(self):
    """The study's `StudyConfig`."""
    try:
      return config_lib.StudyConfig.from_json(self.run.settings)
    except finished_run.DamagedFile:
      raise
    except (TypeError, ValueError) as e:
      raise finished_run.DamagedFile(self.run.join(output_folder.CONFIG), e) from e

  @property
  def settings(self):
    """The names of the settings, in order."""
    return self.config.settings

  @functools.cached_property
  def rows(self):
    """The rows of `results.csv`."""
    return self.run.rows(cells.RESULTS, cells.TEXT_COLUMNS)

  @functools.cached_property
  def failures(self):
    """The rows of the cells that failed."""
    return [row for row in self.rows if row["problem"]]

  @functools.cached_property
  def methods(self):
    """All methods: phase 1, those that were chosen, the controls."""
    found = dict.fromkeys([*cells.methods_of(self.config.run), *(r["method"] for r in self.rows)])
    return list(found)

  @property
  def chosen_methods(self):
    """The methods that are no controls."""
    return list(self.config.run.chosen_methods)

  def compared_with(self, reference):
    """Returns the methods and controls that are compared with one of `REFERENCES`."""
    return [m for m in self.methods if m != reference and m not in _NOT_COMPARED]

  def num_comparisons(self, reference):
    """Returns how many intervals of differences from a reference there are."""
    return len(self.settings) * len(self.compared_with(reference))

  @functools.cached_property
  def _by_cell(self):
    """(setting, method) -> {repetition: row}."""
    found = {}
    for row in self.rows:
      of_method = found.setdefault((row["setting"], row["method"]), {})
      of_method[row["seed"], row["fold"]] = row
    return found

  def values(self, setting, method, column="accuracy"):
    """Returns the values of a column by repetition; cells that failed have none."""
    of_method = self._by_cell.get((setting, method), {})
    return {one: row[column] for one, row in of_method.items() if row[column] is not None}

  def interval(self, setting, method, column="accuracy"):
    """Returns a column's `Interval` over the repetitions, None if there are no values."""
    return intervals.interval(self.values(setting, method, column).values(), self.config.num_folds)

  def mean(self, setting, method, column):
    """Returns the mean of a column over the repetitions, None if there are no values."""
    values = self.values(setting, method, column).values()
    return statistics.fmean(values) if values else None

  def reference_values(self, setting, method, reference):
    """Returns the accuracy by repetition of what a method is compared with.

    Where a method has more client steps than `fedavg`, it is compared with the control that
    has as many as the method with the most; without that control it is not compared.

    Args:
      setting: The setting.
      method: The method.
      reference: One of `REFERENCES`.
    """
    found = self.values(setting, reference)
    if reference != FEDAVG:
      return found
    steps = self.values(setting, method, "client_steps")
    of_fedavg = self.values(setting, FEDAVG, "client_steps")
    most = 1 + matched_control.TOLERANCE
    have_more = {one for one in of_fedavg if steps.get(one, 0) > most * of_fedavg[one]}
    equal = {one: accuracy for one, accuracy in found.items() if one not in have_more}
    matched = self.values(setting, MATCHED)
    return {**equal, **{one: matched[one] for one in have_more if one in matched}}

  def gain(self, setting, method, reference, num_comparisons=1):
    """Returns the `Interval` of a method's difference from a reference, None without pairs.

    Args:
      setting: The setting.
      method: The method.
      reference: One of `REFERENCES`.
      num_comparisons: How many intervals hold at once.
    """
    pairs = intervals.differences(
        self.values(setting, method), self.reference_values(setting, method, reference)
    )
    return intervals.interval(pairs, self.config.num_folds, num_comparisons)

  def curve(self, setting, method):
    """Returns the rounds of a method as dicts of means over the repetitions, in order.

    Args:
      setting: The setting.
      method: The method.

    Returns:
      A list of dicts of `round`, `accuracy`, `client_steps` and `bytes`.  Rounds that only some
      repetitions have, such as the last ones of a matched control, are left out.
    """
    by_round = {}
    for row in self._rounds.get((setting, method), ()):
      by_round.setdefault(row["round"], []).append(row)
    most = max(map(len, by_round.values()), default=0)
    columns = ("round", "accuracy", "client_steps", "bytes")
    return [
        {column: statistics.fmean(row[column] for row in rows) for column in columns}
        for _, rows in sorted(by_round.items()) if len(rows) == most
    ]

  @functools.cached_property
  def _rounds(self):
    """(setting, method) -> rows of `rounds.csv`."""
    found = {}
    for row in self.run.rows(cells.ROUNDS, cells.TEXT_COLUMNS):
      found.setdefault((row["setting"], row["method"]), []).append(row)
    return found

  @property
  def repetitions_text(self):
    """What is repeated, in words."""
    first, count = self.config.run.seed, self.config.num_seeds
    seeds = f"seed {first}" if count == 1 else f"seeds {first} to {first + count - 1}"
    if self.config.num_folds is None:
      return seeds
    return f"{self.config.num_folds} folds of {seeds}"

  @property
  def data_line(self):
    """The data, in one line for figures."""
    data = self.run.document["data"]
    clients = run_results.clients_text(data["num_clients"])
    return f"{data['name']}, {clients}, {self.repetitions_text}"


def read(run):
  """Returns the `Results` of a `FinishedRun`."""
  return Results(run)


def _method_summary(results, setting, method):
  found = {"accuracy": results.interval(setting, method)}
  for reference in REFERENCES:
    if method in results.compared_with(reference):
      found[f"gain_over_{reference}"] = results.gain(setting, method, reference)
  found = {
      name: None if one is None else dataclasses.asdict(one) for name, one in found.items()
  }
  for column in ("adjusted_rand_index", "num_clusters", "client_steps", "bytes_down", "bytes_up"):
    found[column] = results.mean(setting, method, column)
  return {name: value for name, value in found.items() if value is not None}


def summary(results):
  """Returns means and differences with their intervals, and the failures, for JSON."""
  return {
      "level": intervals.LEVEL,
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


def accuracy_text(found):
  """Returns the mean and standard deviation of an accuracy as text; a dash for None."""
  if found is None:
    return scores.ABSENT
  return f"{found.mean:.3f}" + ("" if found.sd is None else f" ± {found.sd:.3f}")


def ends_text(found, form):
  """Returns an `Interval`'s ends as text; "unknown" where it has none.

  Args:
    found: The `Interval`.
    form: A function from a number to its text.
  """
  return "unknown" if found.low is None else f"{form(found.low)} to {form(found.high)}"


def _gain_text(found):
  if found is None:
    return "-"
  return comparison.points(found.mean) + ("*" if found.leaves_out_zero else " ")


def failure_text(row):
  """Returns which cell failed, and why, in one line."""
  fold = "" if row["fold"] is None else f", fold {row['fold']}"
  return f"{row['setting']}, {row['method']}, seed {row['seed']}{fold}: {row['problem']}"


def text(results):
  """Returns the gains over FedAvg as a table for the terminal, and the failures."""
  rows = []
  for method in results.compared_with(FEDAVG):
    gains = [_gain_text(results.gain(setting, method, FEDAVG)) for setting in results.settings]
    rows.append([run_results.method_label(method), *gains])
  accuracies = (results.mean(setting, FEDAVG, "accuracy") for setting in results.settings)
  rows.append([
      run_results.method_label(FEDAVG),
      *("-" if mean is None else f"{mean:.3f} " for mean in accuracies),
  ])
  lines = [
      text_table.text_table(["method", *results.settings], rows),
      "",
      "gain in the clients' mean accuracy over FedAvg of equal work, in percentage points; FedAvg: "
      "its accuracy",
      f"*: its {intervals.LEVEL:.0%} interval over {results.repetitions_text} leaves out zero",
  ]
  if results.failures:
    lines += ["", "failed:", *map(failure_text, results.failures)]
  return "\n".join(lines)


def may_get_further(results):
  """Returns whether cells failed that a resumed study tries again."""
  return any(cells.ended_process(row["problem"]) for row in results.failures)


def problem(results):
  """Returns that cells failed, for the program's last line; "" if none did."""
  if not results.failures:
    return ""
  return f"{len(results.failures):,} of {len(results.rows):,} cells failed; they are listed above."
