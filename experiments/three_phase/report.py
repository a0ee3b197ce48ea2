"""Draws a finished three-phase run: figures, and one page that tells it all.

Everything is read from the run's output folder (`finished_run.py`); nothing is
trained, and nothing else in the folder is changed.
"""

import os

from experiment_shell import html_page
from experiment_shell import output_folder
from experiment_shell import report_sections
from experiments.three_phase import accuracy_figures
from experiments.three_phase import findings
from experiments.three_phase import finished_run
from experiments.three_phase import label_figures
from experiments.three_phase import report_tables
from experiments.three_phase import weight_figures

_FIGURES = (
    report_sections.Figure(
        "learning_curves.png", accuracy_figures.learning_curves,
        "Learning curves of all methods",
        "Solid lines are phase 1 and the groupings (of different widths, so that equal ones "
        "show), dashed lines the controls; a grouping pays where its line ends above the dashed "
        "line of FedAvg.",
    ),
    report_sections.Figure(
        "client_accuracy.png", accuracy_figures.client_accuracy,
        "Distribution of the clients' accuracy per method",
        "Every point is a client: a good method has its points far to the right and leaves "
        "none behind on the left.",
    ),
    report_sections.Figure(
        "client_weights.png", weight_figures.client_weights,
        "The clients' weights in two dimensions",
        "All panels have the same points; what lies together here is alike in the two "
        "directions of largest variance only, while the groupings use all of them.",
    ),
    report_sections.Figure(
        "distance_matrix.png", weight_figures.distance_matrix,
        "Distances between the clients, ordered by cluster",
        "Rows and columns are clients; a grouping has found alike clients where the squares "
        "along the diagonal are darker than the rest.",
    ),
    report_sections.Figure(
        "label_mix.png", label_figures.label_mix,
        "Labels of the clients' training data",
        "Every bar is a client and every colour a label: bars of different colours mean that "
        "clients see different data, bars of different heights that some see more of it.",
    ),
    report_sections.Figure(
        "group_recovery.png", accuracy_figures.group_recovery,
        "Recovery of the true groups",
        "Each line is one way to represent a client; the circle marks what this run used.",
    ),
)

_FILES = {
    output_folder.REPORT: "this page",
    "figures": "the figures as PNG",
    output_folder.SUMMARY: "the comparison as numbers",
    output_folder.CONFIG: "all settings, seed, versions, the data really used",
    "metrics.csv": "every metric per phase, method, cluster and round",
    "client_metrics.csv": "every client's metrics per method",
    "clients.csv": "every client's number of examples and labels",
    "assignments.json": "the clients of every cluster",
    "group_recovery.csv": "how well the true groups are found",
    "client_weights.npz": "the clients' weights that were grouped, and the global model",
    "checkpoints": "the trained models, and the state to resume from",
    "tensorboard": "the same metrics for TensorBoard",
}


def _summary(run):
  first, *others = findings.sentences(run)
  return html_page.section(
      "Summary",
      html_page.paragraph(html_page.strong(findings.verdict(run)), first),
      *map(html_page.paragraph, others),
      *(html_page.warning(title, text) for title, text in findings.warnings(run)),
      html_page.note("What the server sees", *findings.privacy_notes(run)),
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
  figures = report_sections.write_figures(output_dir, _FIGURES, run)
  clusters = report_tables.cluster_tables(run)
  dataset = run.dataset
  path = os.path.join(output_dir, output_folder.REPORT)
  html_page.write_page(
      path,
      f"Three-phase clustering of {run.num_clients:,} clients: {dataset['name']}",
      f"{dataset['source']}. Partition: {run.partition}. Model: {run.model['name']}, "
      f"{run.model['num_parameters']:,} parameters. Rounds: "
      f"{run.settings['pretrain_rounds']} in phase 1, {run.settings['cluster_rounds']} in "
      f"phase 2. Seed: {run.summary['seed']}.",
      _summary(run),
      html_page.section("Comparison", *report_tables.comparison_table(run)),
      html_page.section("Figures", *figures),
      *([html_page.section("Clusters", *clusters)] if clusters else []),
      html_page.section("Global models", *report_tables.global_model_tables(run)),
      report_sections.settings_section(
          "Settings, data, model and versions",
          {
              "Settings": run.settings,
              "Data": run.dataset,
              "Model": run.model,
              "Versions": run.versions,
          },
      ),
      report_sections.files_section(output_dir, _FILES),
  )
  return path
