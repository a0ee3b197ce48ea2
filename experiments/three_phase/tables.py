"""The tables of a three-phase run: for the terminal as text, for the report as HTML."""

import dataclasses
from typing import Optional

from experiment_shell import html_page
from experiment_shell import scores
from experiment_shell import text_table
from experiments.three_phase import results as results_lib

_MAX_OPEN_ROWS = 10
_MAX_CLIENTS_NAMED = 4
_MODEL_KINDS = (("global_mean", "(a)"), ("global_weighted", "(b)"), ("global_blended", "(c)"))


@dataclasses.dataclass(frozen=True)
class Column:
  """One column of the comparison.

  Attributes:
    path: Keys that lead to the value within a method's part of the summary.
    group: Heading above the column and its neighbours of the same group.
    heading: Heading on the page.
    short_heading: Heading in the terminal, at most six characters.
    form: Format specification of the value.
    best: Whether the highest value is the best one.
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
  """One method; `values` and `sds` follow `COLUMNS`, with None if one does not apply."""
  method: str
  label: str
  values: tuple[Optional[float], ...]
  sds: tuple[Optional[float], ...]

  def shown(self, short_heading, absent):
    """Returns, as text, the value of the first column with this heading."""
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


def comparison_rows(summary):
  """Returns the `Row` of phase 1 and of every method.

  Phase 1 has one global model.  It is listed where the others have the mean (a) of their
  models.
  """
  pretrain = summary["pretrain"]
  parts = {
      results_lib.PRETRAIN: {
          "clients": pretrain["clients"], "global_mean": pretrain["global"],
      },
      **{name: summary["methods"][name] for name in results_lib.ordered_methods(summary)},
  }
  return [
      Row(
          method=method,
          label=results_lib.method_label(method),
          values=tuple(results_lib.look_up(part, column.path) for column in COLUMNS),
          sds=tuple(
              column.sd_path and results_lib.look_up(part, column.sd_path)
              for column in COLUMNS
          ),
      )
      for method, part in parts.items()
  ]


def formatted(column, value, absent):
  """Returns a value as text, `absent` if there is none."""
  return absent if value is None else format(value, column.form)


def best_values(rows):
  """Returns the best value of each column as text, None if no value stands out."""
  best = []
  for position, column in enumerate(COLUMNS):
    values = [row.values[position] for row in rows if row.values[position] is not None]
    shown = {formatted(column, value, "") for value in values}
    stands_out = column.best and len(shown) > 1
    best.append(formatted(column, max(values), "") if stands_out else None)
  return best


def column_groups(sd_columns):
  """Returns (heading, number of columns) of the groups of columns.

  The first group is the column of the methods' names.

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


def comparison_text(summary):
  """Returns the comparison as ASCII text for a terminal, without a final newline.

  With the names of today's methods it is about 100 columns wide.
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


def _score(value):
  return scores.ABSENT if value is None else f"{value:.3f}"


def _count(value):
  return scores.ABSENT if value is None else f"{value:,}"


def _comparison_cell(column, value, sd, best):
  shown = formatted(column, value, scores.ABSENT)
  cell = html_page.strong(shown) if shown == best else html_page.escaped(shown)
  return cell if sd is None else html_page.joined(cell, f"± {sd:{column.form}}")


def comparison_table(results):
  """Returns the comparison of all methods and its key, as blocks of an HTML page."""
  rows = comparison_rows(results.summary)
  best = best_values(rows)
  lines = [
      [
          row.label,
          _count(results.num_memberships(row.method)),
          *map(_comparison_cell, COLUMNS, row.values, row.sds, best),
      ]
      for row in rows
  ]
  (heading, size), *groups = column_groups(sd_columns=False)
  table = html_page.table(
      ["method", "memberships", *(column.heading for column in COLUMNS)], lines,
      caption="Accuracy after phase 2 and of the models of phase 3; best values in bold",
      header_groups=[(heading, size + 1), *groups],
  )
  target = results.settings["target_accuracy"]
  key = html_page.paragraph(
      "Memberships: clients, each counted once for every cluster that it is in, as it trains once "
      "in each of them. sd: standard deviation over the clients. 10th perc.: a tenth of the "
      "clients is below it. Share at target: clients with an accuracy of at least "
      f"{target:g}. (a): mean of all cluster models. (b): mean weighted by each cluster's best "
      "accuracy. (c): each cluster's model averaged with (a). Phase 1 has one model, shown under "
      "(a). FedAvg (control): everyone trains together, for as many rounds as the clusters. Local "
      f"(control): every client trains alone. {scores.ABSENT}: does not apply.",
      quiet=True,
  )
  return [table, key]


def _make_up(members, group_of):
  """Returns how many clients of each true group are in a cluster."""
  counts = {}
  for client_id in members:
    counts[group_of[client_id]] = counts.get(group_of[client_id], 0) + 1
  ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
  return ", ".join(f"group {group}: {count}" for group, count in ordered)


def _named(members):
  shown = ", ".join(members[:_MAX_CLIENTS_NAMED])
  more = len(members) - _MAX_CLIENTS_NAMED
  return f"{shown} and {more:,} more" if more > 0 else shown


def _clusters_of(results, name, assignment):
  """Returns the table of one grouping's clusters."""
  examples = {client["client_id"]: client["num_train"] for client in results.clients}
  group_of = {client["client_id"]: client["group"] for client in results.clients}
  groups_known = results.true_groups is not None
  rows = []
  for index, members in enumerate(assignment.clusters):
    row = [
        index, f"{len(members):,}", _score(results.best_accuracy(name, index)),
        f"{sum(examples[client_id] for client_id in members):,}",
    ]
    if groups_known:
      row.append(_make_up(members, group_of))
    rows.append([*row, _named(members)])
  label = results_lib.method_label(name)
  caption = f"Clusters of {label}: best accuracy on the pooled test data of their clients"
  if assignment.overlapping:
    caption += "; a client may be in several clusters"
  header = ["cluster", "clients", "best accuracy", "training examples"]
  header += [*(["true groups"] if groups_known else []), "who"]
  table = html_page.table(header, rows, caption, text_columns=range(4, len(header)))
  if len(rows) > _MAX_OPEN_ROWS:
    return html_page.details(f"{label}: {len(rows)} clusters", table)
  return table


def cluster_tables(results):
  """Returns a table of the clusters per grouping."""
  return [_clusters_of(results, name, clusters) for name, clusters in results.groupings.items()]


def _global_model_columns(results):
  """Returns (method, kind, heading, the method's summary) of every global model."""
  columns = [(results_lib.PRETRAIN, "global", "model", results.summary["pretrain"])]
  for method in results_lib.ordered_methods(results.summary):
    part = results.summary["methods"][method]
    # With one cluster, the means of its model are that model.
    kinds = _MODEL_KINDS if part["num_clusters"] > 1 else ((_MODEL_KINDS[0][0], "model"),)
    columns += [(method, kind, heading, part) for kind, heading in kinds if kind in part]
  return columns


def global_model_tables(results):
  """Returns the global models' macro averages, and their recall per label."""
  columns = _global_model_columns(results)
  methods = [method for method, *_ in columns]
  groups = [
      (results_lib.method_label(method), methods.count(method))
      for method in dict.fromkeys(methods)
  ]
  averages = [
      [name, *(_score(results_lib.look_up(part, (kind, metric))) for _, kind, _, part in columns)]
      for name, metric in (
          ("accuracy", "accuracy"), ("macro recall", "recall"), ("macro precision", "precision")
      )
  ]
  labels = [
      [f"recall of label {label}",
       *(_score(results.evaluation(method, f"{kind}_recall_class_{label}"))
         for method, kind, *_ in columns)]
      for label in range(results.dataset["num_classes"])
  ]

  def table(rows):
    return html_page.table(
        ["", *(heading for _, _, heading, _ in columns)], rows,
        caption=f"On the global test set: {results.dataset['global_test_source']}",
        header_groups=[("", 1), *groups],
    )

  if len(labels) <= _MAX_OPEN_ROWS:
    return [table(averages + labels)]
  return [
      table(averages),
      html_page.details(f"Recall of each of the {len(labels)} labels", table(labels)),
  ]
