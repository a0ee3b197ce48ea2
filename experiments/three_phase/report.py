"""The report of a three-phase run: its figures, and the page around them."""

from typing import Any, Iterable, Mapping

from clustering_basics import model_folder
from experiment_shell import figure_style
from experiment_shell import finished_run
from experiment_shell import html_page
from experiment_shell import output_folder
from experiment_shell import report_sections
from experiment_shell import scores
from experiments.own_tables import cluster_profiles
from experiments.three_phase import cluster_figures
from experiments.three_phase import comparison
from experiments.three_phase import detail_tables
from experiments.three_phase import figures
from experiments.three_phase import findings
from experiments.three_phase import results as results_lib

FIRST_FIGURES = (
    report_sections.Figure(
        "gains.png", figures.gains,
        "Gain of every method over FedAvg, with its interval",
        "A dot right of the line is a gain over training everyone together. Only where the bar "
        "leaves out zero can the gain be told from chance; where it doesn't, the dot is open.",
    ),
)
FIGURES = (
    report_sections.Figure(
        "learning_curves.png", figures.learning_curves,
        "Learning curves of all methods",
        "Solid lines are phase 1 and the methods, dashed lines the controls; lines have "
        "different widths, so that equal ones show. A method that doesn't build on phase 1 starts "
        "at round 0.",
    ),
    report_sections.Figure(
        "accuracy_by_cost.png", figures.accuracy_by_cost,
        "Accuracy of all methods by what it cost the clients",
        "The further left a line reaches an accuracy, the less the clients had to send, or to "
        "compute, for it. Methods that build on phase 1 start where its cost ends.",
    ),
    report_sections.Figure(
        "client_accuracy.png", figures.client_accuracy,
        "Distribution of the clients' accuracy per method",
        "A good method has its clients far to the right, and none far to the left.",
    ),
    report_sections.Figure(
        "client_weights.png", cluster_figures.client_weights,
        "The clients' weights in two dimensions",
        "All panels show the same points. Neighbours are alike in the two directions of largest "
        "variance; methods that group by weights use all directions. Methods that move clients "
        "later are shown with their last clusters.",
    ),
    report_sections.Figure(
        "distance_matrix.png", cluster_figures.distance_matrix,
        "Distances between the clients, ordered by cluster",
        "Rows and columns are clients. If a method has put similar clients together, the "
        "squares along the diagonal are darker than the rest.",
    ),
    report_sections.Figure(
        "label_mix.png", cluster_figures.label_mix,
        "Labels of the clients' training data",
        "Every bar is a client and every colour a label. Bars of different colours mean that "
        "clients have different data; bars of different heights, that some have more.",
    ),
    report_sections.Figure(
        "num_clusters.png", figures.num_clusters,
        "How the number of clusters was chosen",
        "Every criterion chooses the number with its highest score, which is circled. No "
        "criterion sees true groups or test data.",
    ),
    report_sections.Figure(
        "group_recovery.png", figures.group_recovery,
        "Recovery of the true groups",
        "Each line is one way to represent a client; the circle marks what this run used.",
    ),
)

FILES = {
    output_folder.REPORT: "this page",
    "figures": "the figures as PNG",
    output_folder.SUMMARY: "the comparison as numbers",
    output_folder.CONFIG: "all settings, seed, versions, and the data that were used",
    "metrics.csv": "every metric per phase, method, cluster and round",
    "client_metrics.csv": "every client's metrics per method",
    "clients.csv": "every client's number of examples and labels, and whether it is a new client",
    results_lib.PROFILES: "mean and spread of every feature in the clusters of the folder model, "
    "in the data's units",
    "assignments.json": "the clients of every cluster after the last round",
    "num_clusters.csv": "the scores by which the number of clusters was chosen",
    "group_recovery.csv": "how well the true groups are found",
    "client_weights.npz": "the clients' weights that were grouped, and the global model",
    "checkpoints": "the trained models, and the state to resume from",
    "model": "the models of one method's clusters, for experiments:predict",
    "tensorboard": "the same metrics for TensorBoard",
}


def _draw_profiles(table: Iterable[Mapping[str, Any]]) -> Any:
  found = scores.table(table, cluster_profiles.HEADER, "cluster")
  height: Any = cluster_profiles.FIGURE.height
  figure = figure_style.new_figure(height(found) + 0.5, figure_style.NARROW)
  cluster_profiles.FIGURE.draw(found, figure.add_subplot())
  figure_style.set_title(figure, cluster_profiles.FIGURE.title, "What the clusters are like")
  return figure


_PROFILES = report_sections.Figure(
    "profiles.png", _draw_profiles, cluster_profiles.FIGURE.title, cluster_profiles.FIGURE.caption
)


def _saved_clusters(results: results_lib.Results) -> list[html_page.Html]:
  """Returns what the clusters whose models were saved are like, as blocks of an HTML page."""
  if not results.profiles:
    return []
  rows = "validation rows" if results.dataset["validation_examples"] else "test rows"
  return [
      html_page.paragraph(
          f"The folder {model_folder.MODEL} holds the models of "
          f"{results_lib.method_label(results.saved['method'])}. Of the methods that group "
          f"clients, it has the best mean {results_lib.metric_label(results.summary)} on the "
          f"clients' {rows}, which may be chance. "
          "The figure shows the training rows of the clients in each cluster; "
          f"{results_lib.PROFILES} has all features, with the spread."
      ),
      *report_sections.write_figures(
          results.finished.path, (_PROFILES,), results.profiles
      ),
      detail_tables.saved_clusters_table(results),
  ]


def write_report(run: finished_run.FinishedRun) -> None:
  """Draws the figures and writes `report.html`, last; the run's other files must be there.

  Raises:
    OSError: If a file of the run is missing, or the folder can't be written.
  """
  results = results_lib.Results(run)
  # What is missing is noticed before anything is written.
  dataset, model = results.dataset, run.document["model"]
  settings, seed = results.settings, results.summary["seed"]
  clients = results_lib.clients_text(results.num_clients)
  partition = "" if results.has_tables else f" Partition: {results.partition}."
  report_sections.write(run, report_sections.Report(
      title=f"Three-phase clustering of {clients}: {dataset['name']}",
      subtitle=(
          f"{dataset['source']}.{partition} Model: {model['name']}, "
          f"{model['num_parameters']:,} parameters. Rounds: {settings['pretrain_rounds']} in "
          f"phase 1, {settings['cluster_rounds']} in phase 2. Seed: {seed}."
      ),
      verdict=[findings.verdict(results)],
      findings=findings.notes(results),
      warnings=findings.warnings(results),
      notes={"What the server sees": findings.privacy_notes(results)},
      sections={
          "Gains": report_sections.write_figures(run.path, FIRST_FIGURES, results),
          "Comparison": comparison.comparison_tables(results),
          "New clients": detail_tables.new_client_tables(results),
          "Figures": report_sections.write_figures(run.path, FIGURES, results),
          "Clusters": [*_saved_clusters(results), *detail_tables.cluster_tables(results)],
          "Global models": detail_tables.global_model_tables(results),
      },
      settings=report_sections.settings_section(
          "Settings, data, model and versions",
          {"Settings": settings, "Data": dataset, "Model": model, "Versions": run.versions},
      ),
      files=FILES,
  ))
