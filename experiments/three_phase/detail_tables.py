"""The tables of single clients, clusters and global models of a three-phase run, as HTML."""

import collections
from typing import Any, Mapping, Sequence

from experiment_shell import html_page
from experiment_shell import scores
from experiments.three_phase import comparison
from experiments.three_phase import method_names
from experiments.three_phase import method_tables
from experiments.three_phase import results as results_lib
from fl_clustering.methods import cluster_assignment

_MAX_OPEN_ROWS = 10
_MAX_ROWS = 100
_MAX_CLIENTS_NAMED = 4
_AVERAGES = {"accuracy": "accuracy", "recall": "macro recall", "precision": "macro precision"}
_MODEL_KINDS = (("global_mean", "(a)"), ("global_weighted", "(b)"), ("global_blended", "(c)"))


def _caption(text: str, num_rows: int, what: str, file: str, summary: Mapping[str, Any]) -> str:
  """Returns a caption that says, of a table that is cut, where all rows are."""
  if num_rows > _MAX_ROWS:
    text += f"; the first {_MAX_ROWS} of {num_rows:,} {what}, all of which are in {file}"
  return method_tables.caption_text(text, summary)


def _folded(table: html_page.Html, num_rows: int, what: str) -> html_page.Html:
  """Returns a table that is folded if it has many rows."""
  if num_rows <= _MAX_OPEN_ROWS:
    return table
  shown = f"The first {_MAX_ROWS} of" if num_rows > _MAX_ROWS else "Each of the"
  return html_page.details(f"{shown} {num_rows:,} {what}", table)


def _new_client_cell(results: results_lib.Results, method: str, client_id: str) -> str:
  clusters, accuracy = results.new_client(method, client_id)
  shown = scores.score_text(accuracy)
  return f"{clusters.replace(' ', ', ')}: {shown}" if clusters else shown


def new_client_tables(results: results_lib.Results) -> list[html_page.Html]:
  """Returns how clients fared that came after the training, as blocks of an HTML page."""
  clients, summary = results.new_clients, results.summary
  if not clients:
    return []
  rows = comparison.comparison_rows(summary)
  columns = comparison.of_clients("new_clients", results.has_tables)
  accuracy = method_tables.methods_table(
      rows, [("new clients' own test data", columns)],
      f"Accuracy of {results_lib.clients_text(len(clients))} that came after the training, on "
      f"{summary['num_test_examples']['new_clients']:,} test examples of their own",
      summary,
  )
  each = html_page.table(
      ["new client", *(row.label for row in rows)],
      [
          [
              client["client_id"],
              *(_new_client_cell(results, row.method, client["client_id"]) for row in rows),
          ]
          for client in clients[:_MAX_ROWS]
      ],
      _caption(
          "Each new client's cluster and, after the colon, its accuracy; without a cluster the "
          "accuracy alone",
          len(clients), "new clients", "client_metrics.csv", summary,
      ),
  )
  return [accuracy, _folded(each, len(clients), "new clients")]


def _make_up(members: Sequence[str], group_of: Mapping[str, str]) -> str:
  """Returns how many clients of each true group are in a cluster."""
  counts = collections.Counter(group_of[client_id] for client_id in members)
  ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
  return ", ".join(f"group {group}: {count}" for group, count in ordered)


def _named(members: Sequence[str]) -> str:
  shown = ", ".join(members[:_MAX_CLIENTS_NAMED])
  more = len(members) - _MAX_CLIENTS_NAMED
  return f"{shown} and {more:,} more" if more > 0 else shown


def _clusters_of(
    results: results_lib.Results, name: str, assignment: cluster_assignment.ClusterAssignment
) -> html_page.Html:
  """Returns the table of one method's clusters."""
  examples = {client["client_id"]: client["num_train"] for client in results.clients}
  group_of = {client["client_id"]: client["group"] for client in results.clients}
  groups_known = results.true_groups is not None
  rows = [
      [
          index, f"{len(members):,}", scores.score_text(results.best_of_cluster(name, index)),
          f"{sum(examples[client_id] for client_id in members):,}",
          *([_make_up(members, group_of)] if groups_known else []), _named(members),
      ]
      for index, members in enumerate(assignment.clusters[:_MAX_ROWS])
  ]
  label = method_names.method_label(name)
  caption = f"Clusters of {label}: best accuracy on the pooled test data of their clients"
  if assignment.overlapping:
    caption += "; a client may be in several clusters"
  num_clusters = len(assignment.clusters)
  header = ["cluster", "clients", "best accuracy", "training examples"]
  header += [*(["true groups"] if groups_known else []), "who"]
  table = html_page.table(
      header, rows,
      _caption(caption, num_clusters, "clusters", "assignments.json", results.summary),
      text_columns=range(4, len(header)),
  )
  if num_clusters > _MAX_OPEN_ROWS:
    return html_page.details(f"{label}: {num_clusters:,} clusters", table)
  return table


def cluster_tables(results: results_lib.Results) -> list[html_page.Html]:
  """Returns a table of the clusters per method."""
  return [_clusters_of(results, name, clusters) for name, clusters in results.assignments.items()]


def saved_clusters_table(results: results_lib.Results) -> html_page.Html:
  """Returns a table of the clients in the clusters whose models were saved."""
  method = results.saved["method"]
  metrics = results.client_metrics(method)
  rows = []
  for client in results.clients[:_MAX_ROWS]:
    found = metrics[client["client_id"]]
    rows.append([
        client["client_id"], found["clusters"].replace(" ", ", "), f"{client['num_train']:,}",
        f"{client['num_test']:,}",
        scores.score_text(found["accuracy"]), scores.score_text(found["recall"]),
    ])
  table = html_page.table(
      ["client", "cluster", "training rows", "test rows", "accuracy", "balanced accuracy"], rows,
      _caption(
          f"The clients in the clusters of {method_names.method_label(method)}",
          results.num_clients, "clients", "client_metrics.csv", results.summary,
      ),
  )
  return _folded(table, results.num_clients, "clients")


def _global_models(results: results_lib.Results) -> list[tuple[str, str, str, Mapping[str, Any]]]:
  """Returns (method, kind, label, the method's summary) of every global model."""
  label = method_names.method_name(method_names.PRETRAIN)
  models = [(method_names.PRETRAIN, "global", label, results.summary["pretrain"])]
  for method in results_lib.ordered_methods(results.summary):
    part, label = results.summary["methods"][method], method_names.method_name(method)
    if part["num_clusters"] == 1:
      # The means of one model are that model.
      models.append((method, _MODEL_KINDS[0][0], label, part))
      continue
    models += [(method, kind, f"{label} {letter}", part) for kind, letter in _MODEL_KINDS]
  return models


def global_model_tables(results: results_lib.Results) -> list[html_page.Html]:
  """Returns the global models' macro averages, and their recall per label, by its name."""
  labels = results.label_names
  names, averages, recalls = [], [], []
  for method, kind, name, part in _global_models(results):
    names.append(name)
    averages.append([part[kind].get(metric) for metric in _AVERAGES])
    recalls.append([
        results.evaluation(method, f"{kind}_recall_class_{label}") for label in range(len(labels))
    ])
  metrics = list(_AVERAGES.values())
  caption = method_tables.caption_text(
      f"On {comparison.global_test_text(results)}", results.summary
  )

  def table(header: list[str], values: list[list], groups: list[tuple[str, int]]) -> html_page.Html:
    rows = [
        [name, *map(scores.score_text, of_model)] for name, of_model in zip(names, values)
    ]
    return html_page.table(["model", *header], rows, caption, header_groups=[("", 1), *groups])

  average_group, recall_group = ("", len(metrics)), (f"recall of {results.label_word}", len(labels))
  if len(labels) <= _MAX_OPEN_ROWS:
    together = [average + recall for average, recall in zip(averages, recalls)]
    return [table(metrics + labels, together, [average_group, recall_group])]
  return [
      table(metrics, averages, [average_group]),
      html_page.details(
          f"Recall of each of the {len(labels)} labels", table(labels, recalls, [recall_group])
      ),
  ]
