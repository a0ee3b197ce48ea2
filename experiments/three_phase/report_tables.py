"""The tables of the report on a three-phase run, as blocks of an HTML page."""

from experiment_shell import html_page
from experiments.three_phase import comparison

_ABSENT = "–"
_MAX_OPEN_ROWS = 10
_MAX_CLIENTS_NAMED = 4
_MODEL_KINDS = (("global_mean", "(a)"), ("global_weighted", "(b)"), ("global_blended", "(c)"))


def _score(value):
  return _ABSENT if value is None else f"{value:.3f}"


def _count(value):
  return _ABSENT if value is None else f"{value:,}"


def _comparison_cell(column, value, sd, best):
  shown = comparison.formatted(column, value, _ABSENT)
  cell = html_page.strong(shown) if shown == best else html_page.escaped(shown)
  return cell if sd is None else html_page.joined(cell, f"± {sd:{column.form}}")


def comparison_table(run):
  """Returns the comparison of all methods, and its key."""
  rows = comparison.comparison_rows(run.summary)
  best = comparison.best_values(rows)
  lines = [
      [
          row.label,
          _count(run.num_memberships(row.method)),
          *map(_comparison_cell, comparison.COLUMNS, row.values, row.sds, best),
      ]
      for row in rows
  ]
  (heading, size), *groups = comparison.column_groups(sd_columns=False)
  table = html_page.table(
      ["method", "memberships", *(column.heading for column in comparison.COLUMNS)], lines,
      caption="Accuracy after phase 2 and of the models of phase 3; best values in bold",
      header_groups=[(heading, size + 1), *groups],
  )
  target = run.settings["target_accuracy"]
  key = html_page.paragraph(
      "Memberships: clients, each counted once for every cluster it is in; it trains that often "
      "in a round it takes part in. sd: standard deviation over the clients. 10th perc.: a tenth "
      f"of the clients is below it. Share at target: clients with an accuracy of at least {target:g}. (a): mean of all "
      "cluster models. (b): mean weighted by each cluster's best accuracy. (c): each cluster's "
      "model averaged with (a). Phase 1 has one model, which stands under (a). FedAvg "
      "(control): everyone trained together for as many rounds as the clusters. Local (control): "
      f"every client alone. {_ABSENT}: does not apply.",
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


def _clusters_of(run, grouping):
  """Returns the table of one grouping's clusters."""
  examples = {client.client_id: client.num_train for client in run.clients}
  group_of = {client.client_id: client.group for client in run.clients}
  groups_known = run.true_groups is not None
  rows = []
  for index, members in enumerate(grouping.clusters):
    row = [
        index, f"{len(members):,}", _score(run.best_accuracy(grouping.name, index)),
        f"{sum(examples[client_id] for client_id in members):,}",
    ]
    if groups_known:
      row.append(_make_up(members, group_of))
    rows.append([*row, _named(members)])
  label = comparison.method_label(grouping.name)
  caption = f"Clusters of {label}: best accuracy on the pooled test data of their clients"
  if grouping.overlapping:
    caption += "; a client may be in several clusters"
  header = ["cluster", "clients", "best accuracy", "training examples"]
  header += [*(["true groups"] if groups_known else []), "who"]
  table = html_page.table(header, rows, caption, text_columns=range(4, len(header)))
  if len(rows) > _MAX_OPEN_ROWS:
    return html_page.details(f"{label}: {len(rows)} clusters", table)
  return table


def cluster_tables(run):
  """Returns a table of the clusters per grouping."""
  return [_clusters_of(run, grouping) for grouping in run.groupings]


def _global_model_columns(run):
  """Returns (method, kind, heading, the method's summary) of every global model."""
  columns = [(comparison.PRETRAIN, "global", "model", run.summary["pretrain"])]
  for method in comparison.ordered_methods(run.summary):
    part = run.summary["methods"][method]
    # With one cluster, the means of its model are that model.
    kinds = _MODEL_KINDS if part["num_clusters"] > 1 else ((_MODEL_KINDS[0][0], "model"),)
    columns += [(method, kind, heading, part) for kind, heading in kinds if kind in part]
  return columns


def global_model_tables(run):
  """Returns the global models' macro averages, and their recall per label."""
  columns = _global_model_columns(run)
  methods = [method for method, *_ in columns]
  groups = [
      (comparison.method_label(method), methods.count(method))
      for method in dict.fromkeys(methods)
  ]
  averages = [
      [name, *(_score(comparison.look_up(part, (kind, metric))) for _, kind, _, part in columns)]
      for name, metric in (
          ("accuracy", "accuracy"), ("macro recall", "recall"), ("macro precision", "precision")
      )
  ]
  labels = [
      [f"recall of label {label}",
       *(_score(run.evaluation(method, f"{kind}_recall_class_{label}"))
         for method, kind, *_ in columns)]
      for label in range(run.dataset["num_classes"])
  ]

  def table(rows):
    return html_page.table(
        ["", *(heading for _, _, heading, _ in columns)], rows,
        caption=f"On the global test set: {run.dataset['global_test_source']}",
        header_groups=[("", 1), *groups],
    )

  if len(labels) <= _MAX_OPEN_ROWS:
    return [table(averages + labels)]
  return [
      table(averages),
      html_page.details(f"Recall of each of the {len(labels)} labels", table(labels)),
  ]
