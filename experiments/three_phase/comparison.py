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


def number_text(value: float) -> str:
  """Returns a number in the data's units with four digits."""
  return f"{value:,.0f}" if abs(value) >= 9999.5 else f"{value:.4g}"


def _mean_sd(distribution: Mapping[str, float]) -> str:
  return f"{distribution['mean']:.3f} ± {distribution['sd']:.3f}"


def _mean_sd_in_units(distribution: Mapping[str, float]) -> str:
  return f"{number_text(distribution['mean'])} ± {number_text(distribution['sd'])}"


def points(share: float) -> str:
  """Returns a difference of shares in percentage points, with its sign."""
  # What rounds to zero keeps its sign, since an interval may end close to zero.
  return f"{100 * share:+.1f}"


def _signed(value: float) -> str:
  """Returns a difference with its sign and three digits or more."""
  return f"{value:+,.0f}" if abs(value) >= 999.5 else f"{value:+.3g}"


def gain_form(summary: Mapping[str, Any]) -> Callable[[float], str]:
  """Returns how gains are written: in percentage points if the metric is a share."""
  return points if results_lib.metric(summary).bound == 1 else _signed


def gain_unit(summary: Mapping[str, Any]) -> str:
  """Returns what gains are measured in."""
  metric = results_lib.metric(summary)
  if metric.bound != 1:
    return metric.label
  return "points" if metric.label == "accuracy" else f"points of {metric.label}"


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
_least_mean = lambda distribution: -distribution["mean"]
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


def _of_numbers(part: str) -> tuple[Column, ...]:
  """Returns the columns of clients' errors in a regression."""
  return (
      Column((part, "rmse"), "RMSE, mean ± sd", _mean_sd_in_units, _least_mean),
      Column((part, "rmse", "p90"), "90th perc.", number_text, operator.neg),
      Column((part, "rmse", "min"), "best client", number_text, operator.neg),
      Column((part, "mae", "mean"), "MAE, mean", number_text, operator.neg),
      Column((part, "r2"), "R2, mean", _mean_where_defined, _mean),
      Column((part, "pooled_rmse"), "pooled RMSE", number_text, operator.neg),
      Column((part, "pooled_r2"), "pooled R2", score_text, float),
  )


def _mean_where_defined(distribution: Mapping[str, float]) -> str:
  return f"{distribution['mean']:.3f} ({distribution['num_clients']})"


def of_outputs(part: str) -> tuple[Column, ...]:
  """Returns the columns of clients' metrics that need a model's outputs."""
  return (
      Column((part, "auroc"), "AUROC", _mean_where_defined, _mean),
      Column((part, "pooled_auroc"), "pooled AUROC", score_text, float),
      Column((part, "auprc"), "AUPRC", _mean_where_defined, _mean),
      Column((part, "pooled_auprc"), "pooled AUPRC", score_text, float),
      Column((part, "log_loss", "mean"), "log loss", score_text, operator.neg),
      Column((part, "brier", "mean"), "Brier score", score_text, operator.neg),
  )


def of_clients(
    part: str, summary: Mapping[str, Any], balanced: bool = False
) -> tuple[Column, ...]:
  """Returns the columns of clients' accuracy, or of their errors in a regression.

  Args:
    part: The part of a method's summary that holds it.
    balanced: Whether the mean recall, which is the balanced accuracy, is called so.
  """
  if results_lib.is_regression(summary):
    return _of_numbers(part)
  recall = "balanced accuracy" if balanced else "recall, mean"
  return (
      Column((part, "accuracy"), "accuracy, mean ± sd", _mean_sd, _mean),
      Column((part, "accuracy", "p10"), "10th perc.", score_text, float),
      Column((part, "accuracy", "max"), "best client", score_text, float),
      Column((part, "share_at_target"), "share at target", "{:.0%}".format, float),
      Column((part, "recall", "mean"), recall, score_text, float),
      Column((part, "pooled_accuracy"), "pooled accuracy", score_text, float),
  )


def mean_column(summary: Mapping[str, Any], part: str = "clients", heading: str = "mean") -> Column:
  """Returns the column of clients' mean accuracy, or RMSE in a regression."""
  if results_lib.is_regression(summary):
    return Column((part, "rmse", "mean"), heading, number_text)
  return Column((part, "accuracy", "mean"), heading, score_text)


AT_TARGET = Column(("clients", "share_at_target"), "at target", "{:.0%}".format)
_NUM_CLUSTERS = Column(("num_clusters",), "clusters", "{:,}".format)
VERDICT = Column(("gain", "verdict"), "verdict", VERDICTS.__getitem__)


def gain_columns(summary: Mapping[str, Any]) -> tuple[Column, Column, Column]:
  """Returns the columns of the gain, its interval and the verdict."""
  form = gain_form(summary)
  return (
      Column(("gain", "mean"), "gain", form),
      Column(("gain",), "interval", lambda gain: interval(gain["low"], gain["high"], form)),
      VERDICT,
  )


def _of_phase_3(summary: Mapping[str, Any]) -> tuple[tuple[Column, ...], tuple[Column, ...]]:
  """Returns the columns of models on the global test set, and of blended ones on clients' data."""
  kinds = (
      ("global_mean", "(a) mean"), ("global_weighted", "(b) weighted"),
      ("global_blended", "(c) blended"),
  )
  blended = "(c) blended, mean ± sd"
  if results_lib.is_regression(summary):
    return (
        tuple(Column((kind, "rmse"), text, number_text, operator.neg) for kind, text in kinds),
        (Column(("clients_blended", "rmse"), blended, _mean_sd_in_units, _least_mean),),
    )
  return (
      tuple(Column((kind, "accuracy"), text, score_text, float) for kind, text in kinds),
      (Column(("clients_blended", "accuracy"), blended, _mean_sd, _mean),),
  )


_STEPS = Column(("cost", "client_steps"), "client steps", steps_text)
_BYTES = (
    Column(("cost", "bytes_down"), "bytes to the clients", bytes_text),
    Column(("cost", "bytes_up"), "bytes from the clients", bytes_text),
)
_TRUE_GROUPS = (
    Column(("adjusted_rand_index",), "adjusted Rand index", score_text, float),
    Column(("purity",), "purity", score_text, float),
)

_COST_TEXT_KEY = (
    "steps: client steps of SGD; bytes: to and from the clients; both include phase 1 where it is "
    "used"
)


def _text_groups(summary: Mapping[str, Any]) -> tuple[Group, ...]:
  """Returns the terminal's columns, which have shorter headings."""
  numbers = results_lib.is_regression(summary)
  curve, form = ("rmse", number_text) if numbers else ("accuracy", score_text)
  return (
      ("", (Column(("num_clusters",), "K", "{:,}".format),)),
      ("RMSE" if numbers else "accuracy", (
          mean_column(summary),
          Column(("clients", curve, "sd"), "sd", form),
          mean_column(summary, "new_clients", "new"),
      )),
      (_gain_heading(summary), gain_columns(summary)),
      ("cost", (
          Column(("cost", "client_steps"), "steps", steps_text),
          Column(
              ("cost",), "bytes", lambda cost: bytes_text(cost["bytes_down"] + cost["bytes_up"])
          ),
      )),
      ("groups", (Column(("adjusted_rand_index",), "ARI", score_text),)),
  )


def _gain_heading(summary: Mapping[str, Any]) -> str:
  metric = results_lib.metric(summary)
  if metric.label == "accuracy":
    return "gain over FedAvg, points"
  return f"gain in {metric.label}{', points' if metric.bound == 1 else ''}"


def _has_new_clients(summary: Mapping[str, Any]) -> bool:
  return "new_clients" in summary["pretrain"]


def _text_key(summary: Mapping[str, Any]) -> list[str]:
  name = "RMSE" if results_lib.is_regression(summary) else "accuracy"
  metric = results_lib.metric(summary)
  return [
      *([f"gain: over FedAvg{', positive where less than it' if metric.is_loss else ''}"]
        if metric.label != "accuracy" else []),
      f"{name}: on the clients' own test data; sd: over the clients",
      *(["new: clients that came after the training"] if _has_new_clients(summary) else []),
      _COST_TEXT_KEY,
  ]


def comparison_rows(summary: Mapping[str, Any], baseline: bool = False) -> list[Row]:
  """Returns the rows of phase 1 and of every method.

  Phase 1 has one global model.  It is listed where the others have the mean (a) of their
  models.

  Args:
    baseline: Whether the last row is that of whoever uses no feature, if that is known.
  """
  pretrain = summary["pretrain"]
  parts = {
      results_lib.PRETRAIN: {**pretrain, "global_mean": pretrain["global"]},
      **{name: summary["methods"][name] for name in results_lib.ordered_methods(summary)},
  }
  rows = [
      Row(method, results_lib.method_label(method), part) for method, part in parts.items()
  ]
  if baseline and "baseline" in summary:
    label = results_lib.baseline_label(summary)
    rows.append(Row(results_lib.BASELINE, label, summary["baseline"]))
  return rows


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
  rows = comparison_rows(summary, baseline=True)
  table = _text_of(rows, _text_groups(summary))
  basis = summary["comparison"]
  key = [
      f"interval: at {basis['level']:.0%} for all {basis['num_comparisons']} comparisons "
      "together; can't tell: it includes zero, or is unknown",
      *filter(None, [detectable_text(summary)]),
      *_text_key(summary),
  ]
  if "privacy" in summary:
    key.append(f"{privacy_text(summary)}.")
  return "\n".join([table, "", *key, *_further_text(summary, rows)])


def _text_of(rows: Sequence[Row], text_groups: Sequence[Group]) -> str:
  """Returns a table for a terminal; columns without any value are left out."""
  groups = [
      (heading, [column for column in columns if _applies(column, rows)])
      for heading, columns in text_groups
  ]
  columns = [column for _, of_group in groups for column in of_group]
  lines = [[row.label, *(row.text(column, "-") for column in columns)] for row in rows]
  header_groups = [("", 1), *((heading, len(of_group)) for heading, of_group in groups if of_group)]
  return text_table.text_table(
      ["method", *(column.heading for column in columns)], lines, header_groups
  )


def _further_text(summary: Mapping[str, Any], rows: Sequence[Row]) -> list[str]:
  """Returns further metrics of tables for a terminal, as blocks of lines."""
  columns: tuple[Column, ...]
  if results_lib.is_regression(summary):
    columns = _of_numbers("clients")[3:]
  else:
    columns = of_outputs("clients")
    if not any(_applies(column, rows) for column in columns):
      return []
    balanced = Column(("clients", "recall", "mean"), "balanced accuracy", score_text)
    columns = (balanced, *columns)
  return [
      _text_of(rows, (("", columns),)), "",
      "means over the clients, in brackets over how many where it may not be all; pooled: over "
      "all test rows together",
  ]


def detectable_text(summary: Mapping[str, Any]) -> str:
  """Returns which gains of the methods the run is likely to tell from chance; "" if unknown."""
  if not summary["comparison"]["control_repeats"]:
    return ""
  found = [
      summary["methods"][name]["gain"].get("detectable")  # Runs of earlier versions have none.
      for name in results_lib.chosen_methods(summary)
  ]
  form, unit = gain_form(summary), gain_unit(summary)
  known = [form(gain).lstrip("+") for gain in sorted(filter(None, found))]
  if not known:
    return ""
  unit = unit if unit.startswith("points") else f"in {unit}"
  ends = f"{known[0]} {unit}"
  if known[0] != known[-1]:
    ends = f"{known[0]} to {known[-1]} {unit}, depending on the method,"
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


def _gain_key(results: results_lib.Results) -> str:
  metric, num_comparisons = (
      results_lib.metric(results.summary), results.summary["comparison"]["num_comparisons"]
  )
  unit = "in percentage points" if metric.bound == 1 else (
      f"in {metric.label}, positive where that is lower than under FedAvg"
  )
  by = "" if metric.label == "accuracy" or metric.bound != 1 else f" of {metric.label}"
  return (
      f"Gain: mean over the clients, {unit}{by}; its intervals hold for all {num_comparisons} "
      "comparisons together. Can't tell: the interval includes zero, so the highest value may be "
      "highest by chance."
  )


_NUMBERS_KEY = (
    "RMSE: root mean squared error; MAE: mean absolute error, both in the label's units. R2: 1 "
    "minus the squared errors over those of the mean of a client's test labels; in brackets the "
    "number of clients where it is defined. All clients weigh alike, but in the pooled metrics all "
    "their test examples do. 90th perc.: a tenth of the clients is above it. "
)
_OUTPUTS_KEY = (
    "Means over the clients; in brackets the number of clients with test rows of several classes, "
    "without which AUROC and AUPRC are undefined. Pooled: over all test rows together. "
)


def _outputs_key(results: results_lib.Results) -> str:
  labels = results.label_names
  if len(labels) == 2:
    told = f"AUROC and AUPRC are those of the class {labels[1]}."
  else:
    told = (
        "AUROC and AUPRC are means over the classes that occur in the test rows, each against all "
        "others."
    )
  return f"{_OUTPUTS_KEY}{told} AUPRC is to be compared with that of the majority class."


def _accuracy_key(results: results_lib.Results) -> html_page.Html:
  if results.is_regression:
    return html_page.paragraph(
        f"{_NUMBERS_KEY}{_gain_key(results)}",
        f"{_controls_text(results.summary)} {scores.ABSENT}: does not apply.",
        quiet=True,
    )
  balanced = (
      "Balanced accuracy: mean recall of a client's classes, so that rare ones weigh as much as "
      "frequent ones; then the mean over the clients. " if results.has_tables else ""
  )
  return html_page.paragraph(
      "All clients weigh alike, but in the pooled accuracy all their test examples do. sd: "
      "standard deviation over the clients. 10th perc.: a tenth of the clients is below it. Share "
      "at target: clients with an accuracy of at least "
      f"{results.settings['target_accuracy']:g}. {balanced}{_gain_key(results)}",
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
  if results.is_regression:
    weight = weight.replace("the best accuracy", "1 over the least squared error").replace(
        "the accuracy", "1 over the squared error"
    )
  return (
      f"(a): mean of all cluster models. (b): mean weighted by {weight}. (c): each cluster's model "
      f"averaged with (a); its {'RMSE' if results.is_regression else 'accuracy'} is the mean over "
      "the clusters (over 100 of them, evenly "
      "spaced, where there are more). Phase 1 has one model, shown under (a)."
      + (_GLOBAL_TESTS_ON_CLIENTS if biased else "")
  )


def _outputs_table(
    results: results_lib.Results, rows: Sequence[Row]
) -> list[html_page.Html]:
  """Returns the metrics that need a model's outputs, as blocks; none without tables."""
  columns = of_outputs("clients")
  if not any(_applies(column, rows) for column in columns):
    return []
  return [
      methods_table(
          rows, [("clients' own test data", columns)],
          "Metrics of the predicted probabilities; best values in bold", results.summary,
      ),
      html_page.paragraph(_outputs_key(results), quiet=True),
  ]


def comparison_tables(results: results_lib.Results) -> list[html_page.Html]:
  """Returns the comparison of all methods, as blocks of an HTML page."""
  summary = results.summary
  rows = comparison_rows(summary, baseline=True)
  of_global, blended = _of_phase_3(summary)
  curve = "RMSE" if results.is_regression else "accuracy"
  best = "best" if results.is_regression else "highest"
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
              ("clients' own test data", of_clients("clients", summary, results.has_tables)),
              (
                  f"over FedAvg, {gain_unit(summary)}, {level:.0%} interval",
                  gain_columns(summary),
              ),
          ],
          f"{curve[0].upper()}{curve[1:]} after phase 2, of "
          f"{results_lib.clients_text(summary['num_clients'])} on "
          f"{num_examples:,} test examples of their own, and gain over FedAvg; {best} values in "
          "bold",
          summary,
      ),
      _accuracy_key(results),
      *_outputs_table(results, rows),
      methods_table(
          rows, [("computing", (_STEPS, relative_steps)), ("communication", _BYTES)],
          "What the clients had to do, phase 1 included where a method builds on it", summary,
      ),
      html_page.paragraph(_COST_KEY, quiet=True),
      methods_table(
          rows, [("global test set", of_global), ("clients' own test data", blended)],
          f"Models of phase 3: {curve} on {global_test_text(results)}, and of the blended models "
          f"on the clients' own test data; {best} values in bold",
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
