"""Draws a finished three-phase run: figures, and one page that tells it all.

Everything is read from the run's output folder (`finished_run.py`); nothing is
trained, and nothing else in the folder is changed.
"""

import dataclasses
import os
from typing import Callable

from experiments import accuracy_figures
from experiments import comparison
from experiments import figure_style
from experiments import findings
from experiments import finished_run
from experiments import html_page
from experiments import label_figures
from experiments import weight_figures

_ABSENT = "–"
_MAX_OPEN_ROWS = 10
_MAX_CLIENTS_NAMED = 4
_MODEL_KINDS = (("global_mean", "(a)"), ("global_weighted", "(b)"), ("global_blended", "(c)"))


@dataclasses.dataclass(frozen=True)
class _Figure:
  """A figure of the report; `draw` returns None where it does not apply."""
  name: str
  draw: Callable
  alt: str
  caption: str


_FIGURES = (
    _Figure(
        "learning_curves.png", accuracy_figures.learning_curves,
        "Learning curves of all methods",
        "Solid lines are phase 1 and the groupings, dashed lines the controls; a grouping pays "
        "where its line ends above the dashed line of FedAvg.",
    ),
    _Figure(
        "client_accuracy.png", accuracy_figures.client_accuracy,
        "Distribution of the clients' accuracy per method",
        "Every point is a client: a good method has its points far to the right and leaves "
        "none behind on the left.",
    ),
    _Figure(
        "client_weights.png", weight_figures.client_weights,
        "The clients' weights in two dimensions",
        "All panels have the same points; what lies together here is alike in the two "
        "directions of largest variance only, while the groupings use all of them.",
    ),
    _Figure(
        "distance_matrix.png", weight_figures.distance_matrix,
        "Distances between the clients, ordered by cluster",
        "Rows and columns are clients; a grouping has found alike clients where the squares "
        "along the diagonal are darker than the rest.",
    ),
    _Figure(
        "label_mix.png", label_figures.label_mix,
        "Labels of the clients' training data",
        "Every bar is a client and every colour a label: bars of different colours mean that "
        "clients see different data, bars of different heights that some see more of it.",
    ),
    _Figure(
        "group_recovery.png", accuracy_figures.group_recovery,
        "Recovery of the true groups",
        "Each line is one way to represent a client; the circle marks what this run used.",
    ),
)

_FILES = {
    "report.html": "this page",
    "figures": "the figures as PNG",
    "summary.json": "the comparison as numbers",
    "config.json": "all settings, seed, versions, the data really used",
    "metrics.csv": "every metric per phase, method, cluster and round",
    "client_metrics.csv": "every client's metrics per method",
    "clients.csv": "every client's number of examples and labels",
    "assignments.json": "the clients of every cluster",
    "group_recovery.csv": "how well the true groups are found",
    "client_weights.npz": "the clients' weights that were grouped, and the global model",
    "checkpoints": "the trained models, and the state to resume from",
    "tensorboard": "the same metrics for TensorBoard",
}


def _write_figures(run):
  """Writes the figures that apply; returns the page's blocks for them."""
  folder = os.path.join(run.output_dir, "figures")
  os.makedirs(folder, exist_ok=True)
  blocks = []
  with figure_style.style():
    for figure in _FIGURES:
      drawing = figure.draw(run)
      if drawing is None:
        continue
      path = os.path.join(folder, figure.name)
      figure_style.save(drawing, path)
      blocks.append(html_page.figure(path, figure.alt, figure.caption))
  return blocks


def _summary(run):
  first, *others = findings.sentences(run)
  return html_page.section(
      "Summary",
      html_page.paragraph(html_page.strong(findings.verdict(run)), first),
      *map(html_page.paragraph, others),
      *(html_page.warning(title, text) for title, text in findings.warnings(run)),
      html_page.note("What the server sees", *findings.privacy_notes(run)),
  )


def _comparison(run):
  rows = comparison.comparison_rows(run.summary)
  best = comparison.best_values(rows)
  groups = [("", 1)]
  for column in comparison.COLUMNS:
    if column.group == groups[-1][0]:
      groups[-1] = (column.group, groups[-1][1] + 1)
    else:
      groups.append((column.group, 1))
  lines = []
  for row in rows:
    cells = [row.label]
    for column, value, sd, best_value in zip(
        comparison.COLUMNS, row.values, row.sds, best
    ):
      shown = comparison.formatted(column, value, _ABSENT)
      cell = html_page.strong(shown) if shown == best_value else html_page.escaped(shown)
      cells.append(cell if sd is None else html_page.joined(cell, f"± {sd:{column.form}}"))
    lines.append(cells)
  target = run.settings["target_accuracy"]
  return html_page.section(
      "Comparison",
      html_page.table(
          ["method", *(column.heading for column in comparison.COLUMNS)], lines,
          caption="Accuracy after phase 2 and of the models of phase 3; best values in bold",
          header_groups=groups,
      ),
      html_page.paragraph(
          "sd: standard deviation over the clients. 10th perc.: a tenth of the clients is "
          f"below it. Share at target: clients with an accuracy of at least {target:g}. "
          "(a): mean of all cluster models. (b): mean weighted by each cluster's best accuracy. "
          "(c): each cluster's model averaged with (a). Phase 1 has one model, which stands "
          "under (a). FedAvg (control): everyone trained together for as long as the clusters. "
          f"Local (control): every client alone. {_ABSENT}: does not apply.",
          quiet=True,
      ),
  )


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
    best = run.best_accuracy(grouping.name, index)
    row = [
        index, f"{len(members):,}", _ABSENT if best is None else f"{best:.3f}",
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


def _clusters(run):
  if not run.groupings:
    return []
  return [html_page.section(
      "Clusters", *(_clusters_of(run, grouping) for grouping in run.groupings)
  )]


def _global_models(run):
  """Returns the table of all global models: macro averages and recall per label."""
  columns = [(comparison.PRETRAIN, "global", "model", run.summary["pretrain"])]
  for method in comparison.ordered_methods(run.summary):
    part = run.summary["methods"][method]
    # With one cluster, the means of its model are that model.
    kinds = _MODEL_KINDS if part["num_clusters"] > 1 else ((_MODEL_KINDS[0][0], "model"),)
    columns += [(method, kind, heading, part) for kind, heading in kinds if kind in part]
  groups = [("", 1)]
  for method in dict.fromkeys(method for method, *_ in columns):
    groups.append((
        comparison.method_label(method), sum(column[0] == method for column in columns)
    ))
  show = lambda value: _ABSENT if value is None else f"{value:.3f}"
  averages = []
  for metric, name in (
      ("accuracy", "accuracy"), ("recall", "macro recall"), ("precision", "macro precision")
  ):
    values = (comparison.look_up(part, (kind, metric)) for _, kind, _, part in columns)
    averages.append([name, *map(show, values)])
  labels = []
  for label in range(run.dataset["num_classes"]):
    values = (
        run.evaluation(method, f"{kind}_recall_class_{label}") for method, kind, *_ in columns
    )
    labels.append([f"recall of label {label}", *map(show, values)])

  def table(rows):
    return html_page.table(
        ["", *(heading for _, _, heading, _ in columns)], rows,
        caption=f"On the global test set: {run.dataset['global_test_source']}",
        header_groups=groups,
    )

  if len(labels) <= _MAX_OPEN_ROWS:
    return html_page.section("Global models", table(averages + labels))
  return html_page.section(
      "Global models",
      table(averages),
      html_page.details(f"Recall of each of the {len(labels)} labels", table(labels)),
  )


def _shown_setting(value):
  if value is None:
    return "not set"
  if isinstance(value, (list, tuple)):
    return ", ".join(map(str, value)) or "none"
  return value


def _name_value_table(values, caption):
  rows = [[html_page.code(name), _shown_setting(value)] for name, value in values.items()]
  return html_page.table(["name", "value"], rows, caption, text_columns=(1,))


def _settings(run):
  return html_page.section(
      "Settings",
      html_page.details(
          "Settings, data, model and versions",
          _name_value_table(run.settings, "Settings"),
          _name_value_table(run.dataset, "Data"),
          _name_value_table(run.model, "Model"),
          _name_value_table(run.versions, "Versions"),
      ),
  )


def _files(run):
  there = [
      name for name in _FILES
      if name == "report.html" or os.path.exists(os.path.join(run.output_dir, name))
  ]
  return html_page.section(
      "Files in this folder",
      html_page.table(
          ["name", "what"], [[html_page.code(name), _FILES[name]] for name in there],
          caption="What this run wrote", text_columns=(1,),
      ),
  )


def write_report(output_dir):
  """Draws the figures and writes report.html, last, from the files of a run.

  Args:
    output_dir: The run's output folder, with all its other files.

  Returns:
    The path of the page.

  Raises:
    OSError: If a file of the run is missing, or the folder can't be written.
  """
  run = finished_run.read_run(output_dir)
  figures = _write_figures(run)
  dataset = run.dataset
  path = os.path.join(output_dir, "report.html")
  html_page.write_page(
      path,
      f"Three-phase clustering of {run.num_clients:,} clients: {dataset['name']}",
      f"{dataset['source']}. Partition: {dataset['partition']}. Model: {run.model['name']}, "
      f"{run.model['num_parameters']:,} parameters. Rounds: "
      f"{run.settings['pretrain_rounds']} in phase 1, {run.settings['cluster_rounds']} in "
      f"phase 2. Seed: {run.summary['seed']}.",
      _summary(run),
      _comparison(run),
      html_page.section("Figures", *figures),
      *_clusters(run),
      _global_models(run),
      _settings(run),
      _files(run),
  )
  return path
