"""The comparison of methods: its rows and columns, and its table for the terminal."""

import dataclasses
from typing import Any, Callable, Mapping, Optional

from experiment_shell import scores
from experiment_shell import text_table
from experiments.three_phase import results as results_lib
from fl_clustering.three_phase import gains

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


def of_clients(part, balanced=False):
  """Returns the columns of clients' accuracy.

  Args:
    part: The part of a method's summary that holds it.
    balanced: Whether the mean recall, which is the balanced accuracy, is called so.
  """
  recall = "balanced accuracy" if balanced else "recall, mean"
  return (
      Column((part, "accuracy"), "accuracy, mean ± sd", _mean_sd, _mean),
      Column((part, "accuracy", "p10"), "10th perc.", score_text, _itself),
      Column((part, "accuracy", "max"), "best client", score_text, _itself),
      Column((part, "share_at_target"), "share at target", _share, _itself),
      Column((part, "recall", "mean"), recall, score_text, _itself),
      Column((part, "pooled_accuracy"), "pooled accuracy", score_text, _itself),
  )


MEAN = Column(("clients", "accuracy", "mean"), "mean", score_text)
AT_TARGET = Column(("clients", "share_at_target"), "at target", _share)
NUM_CLUSTERS = Column(("num_clusters",), "clusters", _whole)
GAIN = (
    Column(("gain", "mean"), "gain", points),
    Column(("gain",), "interval", interval),
    Column(("gain", "verdict"), "verdict", VERDICTS.__getitem__),
)
GLOBAL = (
    Column(("global_mean", "accuracy"), "(a) mean", score_text, _itself),
    Column(("global_weighted", "accuracy"), "(b) weighted", score_text, _itself),
    Column(("global_blended", "accuracy"), "(c) blended", score_text, _itself),
)
BLENDED = (Column(("clients_blended", "accuracy"), "(c) blended, mean ± sd", _mean_sd, _mean),)
COSTS = (
    Column(("cost", "client_steps"), "client steps", steps_text),
    Column(("cost", "bytes_down"), "bytes to the clients", bytes_text),
    Column(("cost", "bytes_up"), "bytes from the clients", bytes_text),
)
TRUE_GROUPS = (
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
    ("gain over FedAvg, points", GAIN),
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


def applies(column, rows):
  """Returns whether a column has a value in any of the rows."""
  return any(row.value(column) is not None for row in rows)


def comparison_text(summary):
  """Returns the comparison as ASCII text for a terminal, without a final newline.

  With the names of today's methods it is about 100 columns wide.
  """
  rows = comparison_rows(summary)
  groups = [
      (heading, [column for column in columns if applies(column, rows)])
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
