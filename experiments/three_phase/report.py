"""The report of a three-phase run: its figures, its findings, and the page around them."""

from experiment_shell import html_page
from experiment_shell import output_folder
from experiment_shell import report_sections
from experiments.three_phase import cluster_figures
from experiments.three_phase import figures
from experiments.three_phase import results as results_lib
from experiments.three_phase import tables

_FIGURES = (
    report_sections.Figure(
        "learning_curves.png", figures.learning_curves,
        "Learning curves of all methods",
        "Solid lines are phase 1 and the groupings, dashed lines the controls; lines have "
        "different widths, so that equal ones show. A grouping pays off if its line ends above "
        "the dashed line of FedAvg.",
    ),
    report_sections.Figure(
        "client_accuracy.png", figures.client_accuracy,
        "Distribution of the clients' accuracy per method",
        "Every point is a client. A good method has its points far to the right, and none far "
        "to the left.",
    ),
    report_sections.Figure(
        "client_weights.png", cluster_figures.client_weights,
        "The clients' weights in two dimensions",
        "All panels show the same points. Neighbours are alike in the two directions of largest "
        "variance; the groupings use all directions.",
    ),
    report_sections.Figure(
        "distance_matrix.png", cluster_figures.distance_matrix,
        "Distances between the clients, ordered by cluster",
        "Rows and columns are clients. If a grouping has put similar clients together, the "
        "squares along the diagonal are darker than the rest.",
    ),
    report_sections.Figure(
        "label_mix.png", cluster_figures.label_mix,
        "Labels of the clients' training data",
        "Every bar is a client and every colour a label. Bars of different colours mean that "
        "clients have different data; bars of different heights, that some have more.",
    ),
    report_sections.Figure(
        "group_recovery.png", figures.group_recovery,
        "Recovery of the true groups",
        "Each line is one way to represent a client; the circle marks what this run used.",
    ),
)

_FILES = {
    output_folder.REPORT: "this page",
    "figures": "the figures as PNG",
    output_folder.SUMMARY: "the comparison as numbers",
    output_folder.CONFIG: "all settings, seed, versions, and the data that were used",
    "metrics.csv": "every metric per phase, method, cluster and round",
    "client_metrics.csv": "every client's metrics per method",
    "clients.csv": "every client's number of examples and labels",
    "assignments.json": "the clients of every cluster",
    "group_recovery.csv": "how well the true groups are found",
    "client_weights.npz": "the clients' weights that were grouped, and the global model",
    "checkpoints": "the trained models, and the state to resume from",
    "tensorboard": "the same metrics for TensorBoard",
}


def _mean_accuracy(results, method):
  """Returns the clients' mean accuracy under a method, None if it did not run."""
  return results_lib.look_up(
      results.summary, ("methods", method, "clients", "accuracy", "mean")
  )


def _points(difference):
  """Returns a difference of shares in percentage points, as it would be shown."""
  return round(100 * difference, 1)


def _best_grouping(results):
  """Returns the grouping with the highest mean client accuracy, or None."""
  groupings = [m for m in results.summary["methods"] if m not in results_lib.CONTROLS]
  return max(groupings, key=lambda method: _mean_accuracy(results, method), default=None)


def _overlaps(results, grouping):
  # It is unknown for a grouping that is not in `assignments.json`.
  return (results.num_memberships(grouping) or 0) > results.num_clients


def verdict(results):
  """Returns one sentence: whether a grouping beats the FedAvg control, and at what cost."""
  best = _best_grouping(results)
  control = _mean_accuracy(results, results_lib.FEDAVG)
  if best is None:
    return "This run has no grouping, only controls."
  if control is None:
    return "This run has no FedAvg control, so it can't say whether a grouping pays off."
  points = _points(_mean_accuracy(results, best) - control)
  if points < 0:
    return "No grouping beats training everyone together for as many rounds in this run."
  relation = "Grouping the clients beats" if points > 0 else "The best grouping is level with"
  work = ""
  if _overlaps(results, best):
    times = results.num_memberships(best) / results.num_clients
    work = f", with {times:.1f} times the local training"
  return f"{relation} training everyone together for as many rounds in this run{work}."


def _local_sentence(results):
  """Returns that local training is best, None if it is not."""
  others = [m for m in results.summary["methods"] if m != results_lib.LOCAL]
  local = _mean_accuracy(results, results_lib.LOCAL)
  if local is None or any(_points(local - _mean_accuracy(results, m)) <= 0 for m in others):
    return None
  return "Local training, every client alone, is more accurate than any other method."


def _control_sentence(results):
  """Returns what the FedAvg control says of the best grouping, None without one of them."""
  best = _best_grouping(results)
  if best is None or _mean_accuracy(results, results_lib.FEDAVG) is None:
    return None
  sentence = (
      "Only the difference from the FedAvg control can be credited to grouping; the rest of the "
      "change since phase 1 comes from longer training."
  )
  if any(_overlaps(results, grouping) for grouping in results.groupings):
    sentence += (
        " With overlapping clusters, part of that difference may come from more training, as a "
        "client trains once in each of its clusters."
    )
  grouped = results.client_accuracy.get(("cluster", best), {})
  together = results.client_accuracy.get(("cluster", results_lib.FEDAVG), {})
  differences = [grouped[c] - together[c] for c in grouped if c in together]
  if differences:
    better = sum(difference > 0 for difference in differences)
    worse = sum(difference < 0 for difference in differences)
    sentence += (
        f" Compared with the control, {results_lib.method_label(best)} is more accurate for "
        f"{better:,} clients, less for {worse:,} and equal for "
        f"{len(differences) - better - worse:,}."
    )
  return sentence


def _participation_sentence(results):
  """Returns how many clients take part in a round, None if all do."""
  chosen = results.settings["clients_per_round"]
  if chosen is None:
    return None
  return (
      f"In each round {chosen:,} of the {results.num_clients:,} clients take part, the same ones "
      "for every method; memberships and local training are counted as if all did."
  )


def notes(results):
  """Returns what the reader needs to judge the verdict, as sentences."""
  candidates = (
      _local_sentence(results),
      _control_sentence(results),
      _participation_sentence(results),
      f"Results come from a single seed ({results.summary['seed']}); this run does not show how "
      "much they vary with the seed.",
  )
  return [sentence for sentence in candidates if sentence is not None]


def warnings(results):
  """Returns what the reader must not overlook, as (title, text) pairs."""
  found = list(results.finished.warnings)
  dataset = results.dataset
  if dataset["fallback_reason"]:
    found.append((
        f"The data set is {dataset['name']}, and not federated EMNIST",
        f"--dataset={dataset['requested']} fell back to {dataset['name']}: "
        f"{dataset['fallback_reason']}",
    ))
  for text in dataset["warnings"]:
    # The fallback is among the data's warnings too.
    if not dataset["fallback_reason"] or dataset["fallback_reason"] not in text:
      found.append(("The data", text))
  for name, assignment in results.groupings.items():
    if assignment.warning:
      found.append((results_lib.method_label(name), assignment.warning))
  aggregator = results.settings["aggregator"]
  if aggregator != "mean":
    found.append((
        f"Only phase 1 uses --aggregator={aggregator}",
        "The clusters and both controls start from the clients' own weights and average without "
        "it, so the aggregator is one reason why they differ from phase 1.",
    ))
  return found


def privacy_notes(results):
  """Returns what the server sees and what is private, as paragraphs."""
  seen = (
      "To group the clients, the server sees every client's own model weights in the clear. "
      "Weights can reveal a client's data."
  )
  if results.finished.has("client_weights.npz"):
    seen += " The file client_weights.npz holds them."
  privacy = results.summary.get("privacy")
  if privacy is None:
    return [seen, "Nothing in this run is differentially private."]
  relation = privacy["neighboring_relation"].replace("_", " ")
  return [
      seen,
      f"Differential privacy: epsilon {privacy['epsilon']:.3g} at delta "
      f"{privacy['delta']:.3g} (neighbouring data sets: {relation}). It covers "
      f"{privacy['covers']}.",
  ]


def _summary(results):
  return html_page.section(
      "Summary",
      html_page.paragraph(html_page.strong(verdict(results)), *notes(results)),
      *(html_page.warning(title, text) for title, text in warnings(results)),
      html_page.note("What the server sees", *privacy_notes(results)),
  )


def write_report(results):
  """Draws the figures and writes `report.html`, last.

  Args:
    results: The `Results` of a run whose other files are all written.

  Raises:
    OSError: If a file of the run is missing, or the folder can't be written.
  """
  # What is missing is noticed before anything is written.
  dataset, seed = results.dataset, results.summary["seed"]
  model = results.finished.document["model"]
  pictures = report_sections.write_figures(results.finished.path, _FIGURES, results)
  clusters = tables.cluster_tables(results)
  html_page.write_page(
      results.finished.join(output_folder.REPORT),
      f"Three-phase clustering of {results.num_clients:,} clients: {dataset['name']}",
      f"{dataset['source']}. Partition: {results.partition}. Model: {model['name']}, "
      f"{model['num_parameters']:,} parameters. Rounds: "
      f"{results.settings['pretrain_rounds']} in phase 1, "
      f"{results.settings['cluster_rounds']} in phase 2. Seed: {seed}.",
      _summary(results),
      html_page.section("Comparison", *tables.comparison_table(results)),
      html_page.section("Figures", *pictures),
      *([html_page.section("Clusters", *clusters)] if clusters else []),
      html_page.section("Global models", *tables.global_model_tables(results)),
      report_sections.settings_section(
          "Settings, data, model and versions",
          {
              "Settings": results.settings,
              "Data": dataset,
              "Model": model,
              "Versions": results.finished.versions,
          },
      ),
      report_sections.files_section(results.finished.path, _FILES),
  )
