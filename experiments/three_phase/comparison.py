"""The comparison of all methods of a run: one row per method, for page and terminal."""

import dataclasses
from typing import Optional

from experiment_shell import text_table

PRETRAIN = "pretrain"
FEDAVG = "fedavg"
LOCAL = "local"
CONTROLS = (LOCAL, FEDAVG)

_LABELS = {
    PRETRAIN: "phase 1",
    "kmeans": "K-means",
    "dynamic_distance": "dynamic distance",
    LOCAL: "local (control)",
    FEDAVG: "FedAvg (control)",
}


@dataclasses.dataclass(frozen=True)
class Column:
  """One column of the comparison.

  Attributes:
    path: Keys that lead to the value within a method's part of the summary.
    group: What the column belongs to; columns of a group are neighbours.
    heading: Heading on the page.
    short_heading: Heading in the terminal, at most six characters.
    form: Format specification of the value.
    best: Whether the column has a best value, the highest.
    sd_path: Keys that lead to the value's standard deviation, where it has one.
  """
  path: tuple[str, ...]
  group: str
  heading: str
  short_heading: str
  form: str = ".3f"
  best: bool = True
  sd_path: Optional[tuple[str, ...]] = None


@dataclasses.dataclass(frozen=True)
class Row:
  """One method; `values` and `sds` follow `COLUMNS`, None for what does not apply."""
  method: str
  label: str
  values: tuple[Optional[float], ...]
  sds: tuple[Optional[float], ...]

  def shown(self, short_heading, absent):
    """Returns the value of the first column of that heading as it is shown."""
    headings = [column.short_heading for column in COLUMNS]
    position = headings.index(short_heading)
    return formatted(COLUMNS[position], self.values[position], absent)


_OWN = "clients' own test data"
_GLOBAL = "global test set"
_GROUPS = "true groups"
COLUMNS = (
    Column(("num_clusters",), "", "clusters", "K", form="d", best=False),
    Column(
        ("clients", "accuracy", "mean"), _OWN, "accuracy, mean ± sd", "mean",
        sd_path=("clients", "accuracy", "sd"),
    ),
    Column(("clients", "accuracy", "p10"), _OWN, "10th perc.", "p10"),
    Column(("clients", "accuracy", "max"), _OWN, "best client", "best"),
    Column(("clients", "share_at_target"), _OWN, "share at target", "target", form=".0%"),
    Column(("clients", "recall", "mean"), _OWN, "recall, mean", "recall"),
    Column(("clients_blended", "accuracy", "mean"), _OWN, "(c) blended, mean", "(c)"),
    Column(("global_mean", "accuracy"), _GLOBAL, "(a) mean", "(a)"),
    Column(("global_weighted", "accuracy"), _GLOBAL, "(b) weighted", "(b)"),
    Column(("global_blended", "accuracy"), _GLOBAL, "(c) blended", "(c)"),
    Column(("adjusted_rand_index",), _GROUPS, "adj. Rand index", "ARI"),
    Column(("purity",), _GROUPS, "purity", "purity"),
)

_TEXT_KEY = (
    "p10: 10th percentile; target: share of clients at the target accuracy; sd: over the clients\n"
    "models of phase 3: (a) mean, (b) accuracy-weighted mean, (c) each cluster's blended with (a)"
)


def method_label(method):
  """Returns how a reader is told a method's name."""
  return _LABELS.get(method, method.replace("_", " "))


def ordered_methods(summary):
  """Returns the groupings in the summary's order, then the controls."""
  methods = summary["methods"]
  groupings = [method for method in methods if method not in CONTROLS]
  return groupings + [control for control in CONTROLS if control in methods]


def look_up(tree, path):
  """Returns the value at a path of keys, or None where a key is absent."""
  for key in path:
    if not isinstance(tree, dict) or key not in tree:
      return None
    tree = tree[key]
  return tree


def comparison_rows(summary):
  """Returns the `Row` of phase 1 and of every method.

  Phase 1 has one global model, which stands where the others have the mean (a) of
  their models.
  """
  pretrain = summary["pretrain"]
  parts = {PRETRAIN: {"clients": pretrain["clients"], "global_mean": pretrain["global"]}}
  parts.update({method: summary["methods"][method] for method in ordered_methods(summary)})
  return [
      Row(
          method=method,
          label=method_label(method),
          values=tuple(look_up(part, column.path) for column in COLUMNS),
          sds=tuple(
              look_up(part, column.sd_path) if column.sd_path else None for column in COLUMNS
          ),
      )
      for method, part in parts.items()
  ]


def formatted(column, value, absent):
  """Returns a value as it is shown; `absent` where there is none."""
  return absent if value is None else format(value, column.form)


def best_values(rows):
  """Returns per column the best value as shown, or None where none stands out."""
  best = []
  for position, column in enumerate(COLUMNS):
    values = [row.values[position] for row in rows if row.values[position] is not None]
    shown = {formatted(column, value, "") for value in values}
    stands_out = column.best and len(shown) > 1
    best.append(formatted(column, max(values), "") if stands_out else None)
  return best


def column_groups(sd_columns):
  """Returns (heading, number of columns) of the groups of columns.

  The first is that of the methods' names.

  Args:
    sd_columns: Whether standard deviations have columns of their own.
  """
  groups = [("", 1)]
  for column in COLUMNS:
    size = 2 if sd_columns and column.sd_path else 1
    heading, size_before = groups[-1]
    if column.group == heading:
      groups[-1] = (heading, size_before + size)
    else:
      groups.append((column.group, size))
  return groups


def comparison_table_text(summary):
  """Returns the comparison as plain ASCII text for a terminal, without a last newline.

  It is 100 columns wide as long as no method's name is longer than today's.
  """
  header = ["method"]
  for column in COLUMNS:
    header += [column.short_heading, "sd"] if column.sd_path else [column.short_heading]
  lines = []
  for row in comparison_rows(summary):
    cells = [row.label]
    for column, value, sd in zip(COLUMNS, row.values, row.sds):
      cells.append(formatted(column, value, "-"))
      if column.sd_path:
        cells.append(formatted(column, sd, "-"))
    lines.append(cells)
  table = text_table.text_table(header, lines, column_groups(sd_columns=True))
  return f"{table}\n\n{_TEXT_KEY}"
