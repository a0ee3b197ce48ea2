"""The comparison of methods: its rows and columns, its table for the terminal, its HTML tables."""

import dataclasses
import operator
from typing import Any, Callable, Mapping, Sequence

from experiment_shell import html_page
from experiment_shell import scores
from experiment_shell import text_table
from experiments.three_phase import results as results_lib
from fl_clustering.three_phase import gains

VERDICTS = {gains.BETTER: "better", gains.WORSE: "worse", gains.UNCLEAR: "can't tell"}


def score_text(value: float | None) -> str:
  """Returns a share with three decimals, or a dash for None."""
  return scores.ABSENT if value is None else f"{value:.3f}"


def _mean_sd(distribution: Mapping[str, float]) -> str:
  return f"{distribution['mean']:.3f} ± {distribution['sd']:.3f}"


def points(share: float) -> str:
  """Returns a difference of shares in percentage points, with its sign."""
  # What rounds to zero keeps its sign, since an interval may end close to zero.
  return f"{100 * share:+.1f}"


def interval(low: float | None, high: float | None, form: Callable[[float], str] = points) -> str:
  """Returns an interval as text, that of a gain in percentage points; "unknown" for None."""
  return "unknown" if low is None or high is None else f"{form(low)} to {form(high)}"


def _in_units(value: float, units: Sequence[str]) -> str:
  """Returns a number of three digits, and the unit with which it is `value`."""
  position = 0
  while value >= 999.5 and position < len(units) - 1:
    value /= 1000
    position += 1
  return f"{value:.3g}{units[position]}"


def steps_text(value: float) -> str:
  """Returns a number of steps in a few characters, such as `12.3 k`."""
  return _in_units(value, ("", " k", " M", " G", " T"))


def bytes_text(value: float) -> str:
  """Returns a number of bytes in a few characters, such as `1.2 GB`."""
  return _in_units(value, (" B", " kB", " MB", " GB", " TB", " PB"))


@dataclasses.dataclass(frozen=True)
class Column:
  """One column of a table whose rows are methods.

  Attributes:
    path: Keys that lead to the value within a method's part of the summary.
    heading: The column's heading.
    text: From the value to its text.
    rank: From the value to a number whose highest is the best; None if none is best.
  """

  path: tuple[str, ...]
  heading: str
  text: Callable[[Any], str]
  rank: Callable[[Any], float] | None = None


_mean = operator.itemgetter("mean")  # Of a distribution.
Group = tuple[str, Sequence[Column]]  # A heading, and the columns below it.


@dataclasses.dataclass(frozen=True)
class Row:
  """One method, or phase 1, with its part of the summary."""

  method: str
  label: str
  part: Mapping[str, Any]

  def value(self, column: Column) -> Any:
    """Returns the value in a column; None if it does not apply."""
    value: Any = self.part
    for key in column.path:
      if not isinstance(value, dict) or key not in value:
        return None
      value = value[key]
    return value

  def text(self, column: Column, absent: str = scores.ABSENT) -> str:
    """Returns the value in a column as text; `absent` if it does not apply."""
    value = self.value(column)
    return absent if value is None else column.text(value)


def of_clients(part: str, balanced: bool = False) -> tuple[Column, ...]:
  """Returns the columns of clients' accuracy.

  Args:
    part: The part of a method's summary that holds it.
    balanced: Whether the mean recall, which is the balanced accuracy, is called so.
  """
  recall = "balanced accuracy" if balanced else "recall, mean"
  return (
      Column((part, "accuracy"), "accuracy, mean ± sd", _mean_sd, _mean),
      Column((part, "accuracy", "p10"), "10th perc.", score_text, float),
      Column((part, "accuracy", "max"), "best client", score_text, float),
      Column((part, "share_at_target"), "share at target", "{:.0%}".format, float),
      Column((part, "recall", "mean"), recall, score_text, float),
      Column((part, "pooled_accuracy"), "pooled accuracy", score_text, float),
  )


MEAN = Column(("clients", "accuracy", "mean"), "mean", score_text)
AT_TARGET = Column(("clients", "share_at_target"), "at target", "{:.0%}".format)
_NUM_CLUSTERS = Column(("num_clusters",), "clusters", "{:,}".format)
GAIN = Column(("gain", "mean"), "gain", points)
VERDICT = Column(("gain", "verdict"), "verdict", VERDICTS.__getitem__)
_GAIN = (
    GAIN, Column(("gain",), "interval", lambda gain: interval(gain["low"], gain["high"])), VERDICT
)
_GLOBAL = (
    Column(("global_mean", "accuracy"), "(a) mean", score_text, float),
    Column(("global_weighted", "accuracy"), "(b) weighted", score_text, float),
    Column(("global_blended", "accuracy"), "(c) blended", score_text, float),
)
_BLENDED = (Column(("clients_blended", "accuracy"), "(c) blended, mean ± sd", _mean_sd, _mean),)
_STEPS = Column(("cost", "client_steps"), "client steps", steps_text)
_BYTES = (
    Column(("cost", "bytes_down"), "bytes to the clients", bytes_text),
    Column(("cost", "bytes_up"), "bytes from the clients", bytes_text),
)
_TRUE_GROUPS = (
    Column(("adjusted_rand_index",), "adjusted Rand index", score_text, float),
    Column(("purity",), "purity", score_text, float),
)

_NEW = Column(("new_clients", "accuracy", "mean"), "new", score_text)

# The terminal's columns have shorter headings.
_TEXT_GROUPS: tuple[Group, ...] = (
    ("", (Column(("num_clusters",), "K", "{:,}".format),)),
    ("accuracy", (
        MEAN,
        Column(("clients", "accuracy", "sd"), "sd", score_text),
        _NEW,
    )),
    ("gain over FedAvg, points", _GAIN),
    ("cost", (
        Column(("cost", "client_steps"), "steps", steps_text),
        Column(("cost",), "bytes", lambda cost: bytes_text(cost["bytes_down"] + cost["bytes_up"])),
    )),
    ("groups", (Column(("adjusted_rand_index",), "ARI", score_text),)),
)
_TEXT_KEY = (
    "accuracy: on the clients' own test data; sd: over the clients",
    "new: clients that came after the training",
    "steps: client steps of SGD; bytes: to and from the clients; both include phase 1 where it is "
    "used"
)


def comparison_rows(summary: Mapping[str, Any]) -> list[Row]:
  """Returns the rows of phase 1 and of every method.

  Phase 1 has one global model.  It is listed where the others have the mean (a) of their
  models.
  """
  pretrain = summary["pretrain"]
  parts = {
      results_lib.PRETRAIN: {**pretrain, "global_mean": pretrain["global"]},
      **{name: summary["methods"][name] for name in results_lib.ordered_methods(summary)},
  }
  return [
      Row(method, results_lib.method_label(method), part) for method, part in parts.items()
  ]


def best_text(rows: Sequence[Row], column: Column) -> str | None:
  """Returns the text of the best value of a column, None if no value stands out."""
  values = [row.value(column) for row in rows if row.value(column) is not None]
  if column.rank is None or len(set(map(column.text, values))) < 2:
    return None
  return column.text(max(values, key=column.rank))


def _applies(column: Column, rows: Sequence[Row]) -> bool:
  return any(row.value(column) is not None for row in rows)


def comparison_text(summary: Mapping[str, Any]) -> str:
  """Returns the comparison as ASCII text for a terminal, without a final newline.

  With the names of today's methods it is about 100 columns wide.
  """
  rows = comparison_rows(summary)
  groups = [
      (heading, [column for column in columns if _applies(column, rows)])
      for heading, columns in _TEXT_GROUPS
  ]
  columns = [column for _, of_group in groups for column in of_group]
  lines = [[row.label, *(row.text(column, "-") for column in columns)] for row in rows]
  header_groups = [("", 1), *((heading, len(of_group)) for heading, of_group in groups if of_group)]
  table = text_table.text_table(
      ["method", *(column.heading for column in columns)], lines, header_groups
  )
  basis = summary["comparison"]
  key = [
      f"interval: at {basis['level']:.0%} for all {basis['num_comparisons']} comparisons "
      "together; can't tell: it includes zero, or is unknown",
      *filter(None, [detectable_text(summary)]),
      *(line for line in _TEXT_KEY if _NEW in columns or not line.startswith("new")),
  ]
  if "privacy" in summary:
    key.append(f"{privacy_text(summary)}.")
  return "\n".join([table, "", *key])


def detectable_text(summary: Mapping[str, Any]) -> str:
  """Returns which gains of the methods the run is likely to tell from chance; "" if unknown."""
  if not summary["comparison"]["control_repeats"]:
    return ""
  found = [
      summary["methods"][name]["gain"].get("detectable")  # Runs of earlier versions have none.
      for name in results_lib.chosen_methods(summary)
  ]
  known = [points(gain).lstrip("+") for gain in sorted(filter(None, found))]
  if not known:
    return ""
  ends = f"{known[0]} points"
  if known[0] != known[-1]:
    ends = f"{known[0]} to {known[-1]} points, depending on the method,"
  return f"a gain of {ends} would be told from chance four times in five"


def privacy_text(summary: Mapping[str, Any]) -> str:
  """Returns what of a private run is covered, in a few words; "" for one that is not private."""
  if "privacy" not in summary:
    return ""
  return f"epsilon {summary['privacy']['epsilon']:.3g} covers phase 1 only"


def caption_text(text: str, summary: Mapping[str, Any]) -> str:
  """Returns a caption that says, for a private run, what is covered."""
  return "; ".join(filter(None, (text, privacy_text(summary))))


def methods_table(
    rows: Sequence[Row], groups: Sequence[Group], caption: str, summary: Mapping[str, Any]
) -> html_page.Html:
  """Returns a table whose rows are methods; those without any value are left out."""
  columns = [column for _, of_group in groups for column in of_group]
  rows = [row for row in rows if any(row.value(column) is not None for column in columns)]
  best = {column: best_text(rows, column) for column in columns}

  def cell(row: Row, column: Column) -> str:
    shown = row.text(column)
    return html_page.strong(shown) if shown == best[column] else shown

  return html_page.table(
      ["method", *(column.heading for column in columns)],
      [[row.label, *(cell(row, column) for column in columns)] for row in rows],
      caption_text(caption, summary),
      header_groups=[("", 1), *((heading, len(of_group)) for heading, of_group in groups)],
  )


def global_test_text(results: results_lib.Results) -> str:
  """Returns what the global test set is, for a caption."""
  num_examples = results.summary["num_test_examples"]["global"]
  text = f"the global test set, {num_examples:,} examples ({results.dataset['global_test_source']})"
  return f"{text}, all of them clients' own test data" if results.tests_on_clients else text


def _controls_text(summary: Mapping[str, Any]) -> str:
  """Returns what the controls are, in words."""
  sentences = {
      results_lib.LOCAL: "every client trains alone from the beginning, for as many rounds as "
      "both phases have.",
      results_lib.FINETUNED: "every client goes on alone from the global model of phase 1.",
      "ditto": "every client's own model is pulled to one that all train together.",
      "fedrep": "all train the layers before the last, which is each client's own.",
      "apfl": "every client mixes its own model with one that all train together.",
      "mr_mtl": "every client's own model is pulled to the mean of all.",
      results_lib.FEDAVG: "everyone trains together, for as many rounds as the methods.",
      results_lib.FEDAVG_MATCHED: "FedAvg goes on until it has at least as many client steps as "
      "the method with the most.",
  }
  return " ".join(
      f"{results_lib.method_name(name)}: {sentence}"
      for name, sentence in sentences.items()
      if name in summary["methods"]
  )


def _accuracy_key(results: results_lib.Results) -> html_page.Html:
  num_comparisons = results.summary["comparison"]["num_comparisons"]
  balanced = (
      "Balanced accuracy: mean recall of a client's classes, so that rare ones weigh as much as "
      "frequent ones; then the mean over the clients. " if results.has_tables else ""
  )
  return html_page.paragraph(
      "All clients weigh alike, but in the pooled accuracy all their test examples do. sd: "
      "standard deviation over the clients. 10th perc.: a tenth of the clients is below it. Share "
      "at target: clients with an accuracy of at least "
      f"{results.settings['target_accuracy']:g}. {balanced}Gain: mean over the clients, in "
      f"percentage points; its intervals hold for all {num_comparisons} comparisons together. "
      "Can't tell: the interval includes zero, so the highest value may be highest by chance.",
      f"{_controls_text(results.summary)} {scores.ABSENT}: does not apply.",
      quiet=True,
  )


_COST_KEY = (
    "Client steps: steps of SGD of all clients together. Clients that train alone keep their "
    "models, so nothing is sent."
)
_GLOBAL_TESTS_ON_CLIENTS = (
    " The weights of (b) were chosen on the data that it is tested on here, so its accuracy "
    "is too high."
)


def _global_key(results: results_lib.Results) -> str:
  weight = (
      "the accuracy of each cluster on its clients' validation data" if results.weighs_by_validation
      else "the best accuracy that each cluster reached on its clients' test data"
  )
  biased = results.tests_on_clients and not results.weighs_by_validation
  return (
      f"(a): mean of all cluster models. (b): mean weighted by {weight}. (c): each cluster's model "
      "averaged with (a); its accuracy is the mean over the clusters (over 100 of them, evenly "
      "spaced, where there are more). Phase 1 has one model, shown under (a)."
      + (_GLOBAL_TESTS_ON_CLIENTS if biased else "")
  )


def comparison_tables(results: results_lib.Results) -> list[html_page.Html]:
  """Returns the comparison of all methods, as blocks of an HTML page."""
  summary = results.summary
  rows = comparison_rows(summary)
  level, num_examples = summary["comparison"]["level"], summary["num_test_examples"]["clients"]
  fedavg_steps = summary["methods"][results_lib.FEDAVG]["cost"]["client_steps"]
  relative_steps = Column(
      _STEPS.path, "steps of FedAvg", lambda steps: f"{steps / fedavg_steps:.2f} times"
  )
  blocks = [
      methods_table(
          rows,
          [
              ("", [_NUM_CLUSTERS]),
              ("clients' own test data", of_clients("clients", results.has_tables)),
              (f"over FedAvg, points, {level:.0%} interval", _GAIN),
          ],
          f"Accuracy after phase 2, of {results_lib.clients_text(summary['num_clients'])} on "
          f"{num_examples:,} test examples of their own, and gain over FedAvg; highest values in "
          "bold",
          summary,
      ),
      _accuracy_key(results),
      methods_table(
          rows, [("computing", (_STEPS, relative_steps)), ("communication", _BYTES)],
          "What the clients had to do, phase 1 included where a method builds on it", summary,
      ),
      html_page.paragraph(_COST_KEY, quiet=True),
      methods_table(
          rows, [("global test set", _GLOBAL), ("clients' own test data", _BLENDED)],
          f"Models of phase 3: accuracy on {global_test_text(results)}, and of the blended models "
          "on the clients' own test data; highest values in bold",
          summary,
      ),
      html_page.paragraph(_global_key(results), quiet=True),
  ]
  if any(_applies(column, rows) for column in _TRUE_GROUPS):
    blocks.append(methods_table(
        rows, [("", _TRUE_GROUPS)],
        "Do the clusters agree with the true groups? (adjusted Rand index: 1 exactly, 0 as by "
        "chance; purity: share of clients whose group is their cluster's most frequent one)",
        summary,
    ))
  return blocks
