"""The comparison of methods: for the terminal as text, for the report as HTML tables."""

import dataclasses
from typing import Any, Callable, Mapping, Optional

from experiment_shell import html_page
from experiment_shell import scores
from experiment_shell import text_table
from experiments.three_phase import results as results_lib
from fl_clustering import gains

VERDICTS = {gains.BETTER: "better", gains.WORSE: "worse", gains.UNCLEAR: "can't tell"}


def score_text(value):
  """Returns a share with three decimals, or a dash for None."""
  return scores.ABSENT if value is None else f"{value:.3f}"


def _whole(value):
  return f"{value:,}"


def _share(value):
  return f"{value:.0%}"


def _mean_sd(distribution):
  return f"{distribution['mean']:.3f} ± {distribution['sd']:.3f}"


def points(share):
  """Returns a difference of shares in percentage points, with its sign."""
  # What rounds to zero keeps its sign, since an interval may end close to zero.
  return f"{100 * share:+.1f}"


def interval(gain):
  """Returns the interval of a gain, a part of the summary, in percentage points."""
  if gain["low"] is None:
    return "unknown"
  return f"{points(gain['low'])} to {points(gain['high'])}"


def _in_units(value, units):
  """Returns a number of three digits, and the unit with which it is `value`."""
  position = 0
  while value >= 999.5 and position < len(units) - 1:
    value /= 1000
    position += 1
  return f"{value:.3g}{units[position]}"


def steps_text(value):
  """Returns a number of steps in a few characters, such as `12.3 k`."""
  return _in_units(value, ("", " k", " M", " G", " T"))


def bytes_text(value):
  """Returns a number of bytes in a few characters, such as `1.2 GB`."""
  return _in_units(value, (" B", " kB", " MB", " GB", " TB", " PB"))


@dataclasses.dataclass(frozen=True)
class Column:
  """One column of a table whose rows are methods.

  Attributes:
    path: Keys that lead to the value within a method's part of the summary.
    heading: The column's heading.
    text: A function from the value to its text.
    rank: A function from the value to a number whose highest is the best, or None.
  """

  path: tuple[str, ...]
  heading: str
  text: Callable[[Any], str]
  rank: Optional[Callable[[Any], float]] = None


@dataclasses.dataclass(frozen=True)
class Row:
  """One method, or phase 1.

  Attributes:
    method: Its name.
    label: Its name for readers.
    part: Its part of the summary.
  """

  method: str
  label: str
  part: Mapping[str, Any]

  def value(self, column):
    """Returns the value in a column; None if it does not apply."""
    return results_lib.look_up(self.part, column.path)

  def text(self, column, absent=scores.ABSENT):
    """Returns the value in a column as text; `absent` if it does not apply."""
    value = self.value(column)
    return absent if value is None else column.text(value)


def _itself(value):
  return value


def _mean(distribution):
  return distribution["mean"]


def _of_clients(part):
  """Returns the columns of clients' accuracy, in `part` of a method's summary."""
  return (
      Column((part, "accuracy"), "accuracy, mean ± sd", _mean_sd, _mean),
      Column((part, "accuracy", "p10"), "10th perc.", score_text, _itself),
      Column((part, "accuracy", "max"), "best client", score_text, _itself),
      Column((part, "share_at_target"), "share at target", _share, _itself),
      Column((part, "recall", "mean"), "recall, mean", score_text, _itself),
      Column((part, "pooled_accuracy"), "pooled accuracy", score_text, _itself),
  )


MEAN = Column(("clients", "accuracy", "mean"), "mean", score_text)
AT_TARGET = Column(("clients", "share_at_target"), "at target", _share)
_NUM_CLUSTERS = Column(("num_clusters",), "clusters", _whole)
_CLIENTS = _of_clients("clients")
NEW_CLIENTS = _of_clients("new_clients")
_GAIN = (
    Column(("gain", "mean"), "gain", points),
    Column(("gain",), "interval", interval),
    Column(("gain", "verdict"), "verdict", VERDICTS.get),
)
_GLOBAL = (
    Column(("global_mean", "accuracy"), "(a) mean", score_text, _itself),
    Column(("global_weighted", "accuracy"), "(b) weighted", score_text, _itself),
    Column(("global_blended", "accuracy"), "(c) blended", score_text, _itself),
)
_BLENDED = (Column(("clients_blended", "accuracy"), "(c) blended, mean ± sd", _mean_sd, _mean),)
_COSTS = (
    Column(("cost", "client_steps"), "client steps", steps_text),
    Column(("cost", "bytes_down"), "bytes to the clients", bytes_text),
    Column(("cost", "bytes_up"), "bytes from the clients", bytes_text),
)
_TRUE_GROUPS = (
    Column(("adjusted_rand_index",), "adjusted Rand index", score_text, _itself),
    Column(("purity",), "purity", score_text, _itself),
)

_NEW = Column(("new_clients", "accuracy", "mean"), "new", score_text)

# The terminal's columns have shorter headings.
_TEXT_GROUPS = (
    ("", (Column(("num_clusters",), "K", _whole),)),
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


def comparison_rows(summary):
  """Returns the `Row` of phase 1 and of every method.

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


def best_text(rows, column):
  """Returns the text of the best value of a column, None if no value stands out."""
  values = [row.value(column) for row in rows if row.value(column) is not None]
  if column.rank is None or len(set(map(column.text, values))) < 2:
    return None
  return column.text(max(values, key=column.rank))


def _applies(column, rows):
  return any(row.value(column) is not None for row in rows)


def comparison_text(summary):
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
  comparison = summary["comparison"]
  key = [
      f"interval: at {comparison['level']:.0%} for all {comparison['num_comparisons']} "
      "comparisons together; can't tell: it includes zero",
      *(line for line in _TEXT_KEY if _NEW in columns or not line.startswith("new")),
  ]
  if "privacy" in summary:
    key.append(f"{privacy_text(summary)}.")
  return "\n".join([table, "", *key])


def privacy_text(summary):
  """Returns what of a private run is covered, in a few words; "" for one that is not private."""
  if "privacy" not in summary:
    return ""
  return f"epsilon {summary['privacy']['epsilon']:.3g} covers phase 1 only"


def caption_text(text, summary):
  """Returns a caption that says, for a private run, what is covered."""
  return "; ".join(filter(None, (text, privacy_text(summary))))


def methods_table(rows, groups, caption):
  """Returns a table whose rows are methods.

  Args:
    rows: `Row`s; those without any value are left out.
    groups: Pairs of a heading and the `Column`s below it.
    caption: The table's caption.
  """
  columns = [column for _, of_group in groups for column in of_group]
  best = [best_text(rows, column) for column in columns]

  def cell(row, column, best_of_column):
    shown = row.text(column)
    return html_page.strong(shown) if shown == best_of_column else shown

  return html_page.table(
      ["method", *(column.heading for column in columns)],
      [
          [row.label, *(cell(row, *pair) for pair in zip(columns, best))]
          for row in rows
          if any(row.value(column) is not None for column in columns)
      ],
      caption,
      header_groups=[("", 1), *((heading, len(of_group)) for heading, of_group in groups)],
  )


def _accuracy_table(rows, summary):
  num_examples = summary["num_test_examples"]["clients"]
  level = f"{summary['comparison']['level']:.0%}"
  return methods_table(
      rows,
      [
          ("", [_NUM_CLUSTERS]),
          ("clients' own test data", _CLIENTS),
          (f"over FedAvg, points, {level} interval", _GAIN),
      ],
      caption_text(
          f"Accuracy after phase 2, of {results_lib.clients_text(summary['num_clients'])} on "
          f"{num_examples:,} test examples of their own, and gain over FedAvg; highest values in "
          "bold",
          summary,
      ),
  )


def _controls_text(summary):
  """Returns what the controls are, in words."""
  sentences = {
      results_lib.LOCAL: "every client trains alone from the beginning, for as many rounds as "
      "both phases have.",
      results_lib.FINETUNED: "every client goes on alone from the global model of phase 1.",
      results_lib.FEDAVG: "everyone trains together, for as many rounds as the methods.",
      results_lib.FEDAVG_MATCHED: "FedAvg goes on until it has at least as many client steps as "
      "the method with the most.",
  }
  return " ".join(
      f"{results_lib.method_name(name)}: {sentence}"
      for name, sentence in sentences.items()
      if name in summary["methods"]
  )


def _accuracy_key(results):
  comparison = results.summary["comparison"]
  return html_page.paragraph(
      "All clients weigh alike, but in the pooled accuracy all their test examples do. sd: "
      "standard deviation over the clients. 10th perc.: a tenth of the clients is below it. Share "
      "at target: clients with an accuracy of at least "
      f"{results.settings['target_accuracy']:g}. Gain: mean over the clients, in percentage "
      f"points; its intervals hold for all {comparison['num_comparisons']} comparisons together. "
      "Can't tell: the interval includes zero, so the highest value may be highest by chance.",
      f"{_controls_text(results.summary)} {scores.ABSENT}: does not apply.",
      quiet=True,
  )


def _global_table(rows, results):
  return methods_table(
      rows,
      [("global test set", _GLOBAL), ("clients' own test data", _BLENDED)],
      caption_text(
          f"Models of phase 3: accuracy on {global_test_text(results)}, and of the blended models "
          "on the clients' own test data; highest values in bold",
          results.summary,
      ),
  )


def global_test_text(results):
  """Returns what the global test set is, for a caption."""
  num_examples = results.summary["num_test_examples"]["global"]
  text = f"the global test set, {num_examples:,} examples ({results.dataset['global_test_source']})"
  return f"{text}, all of them clients' own test data" if results.tests_on_clients else text


def _global_key(results):
  text = (
      "(a): mean of all cluster models. (b): mean weighted by the best accuracy that each cluster "
      "reached on its clients' test data. (c): each cluster's model averaged with (a); its "
      "accuracy is the mean over the clusters. Phase 1 has one model, shown under (a)."
  )
  if results.tests_on_clients:
    text += (
        " The weights of (b) were chosen on the data that it is tested on here, so its accuracy "
        "is too high."
    )
  return html_page.paragraph(text, quiet=True)


def _cost_table(rows, summary):
  fedavg = summary["methods"][results_lib.FEDAVG]["cost"]["client_steps"]
  relative = Column(
      ("cost", "client_steps"), "steps of FedAvg", lambda steps: f"{steps / fedavg:.2f} times"
  )
  steps, *num_bytes = _COSTS
  return methods_table(
      rows,
      [("computing", (steps, relative)), ("communication", num_bytes)],
      caption_text(
          "What the clients had to do, phase 1 included where a method builds on it", summary
      ),
  )


_COST_KEY = (
    "Client steps: steps of SGD of all clients together. Clients that train alone keep their "
    "models, so nothing is sent."
)


def _groups_table(rows, summary):
  return methods_table(
      rows, [("", _TRUE_GROUPS)],
      caption_text(
          "Do the clusters agree with the true groups? (adjusted Rand index: 1 exactly, 0 as by "
          "chance; purity: share of clients whose group is their cluster's most frequent one)",
          summary,
      ),
  )


def comparison_tables(results):
  """Returns the comparison of all methods, as blocks of an HTML page."""
  summary = results.summary
  rows = comparison_rows(summary)
  blocks = [
      _accuracy_table(rows, summary),
      _accuracy_key(results),
      _cost_table(rows, summary),
      html_page.paragraph(_COST_KEY, quiet=True),
      _global_table(rows, results),
      _global_key(results),
  ]
  if any(_applies(column, rows) for column in _TRUE_GROUPS):
    blocks.append(_groups_table(rows, summary))
  return blocks
