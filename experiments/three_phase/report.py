"""The report of a three-phase run: its figures, its findings, and the page around them."""

from experiment_shell import html_page
from experiment_shell import output_folder
from experiment_shell import report_sections
from experiments.three_phase import cluster_figures
from experiments.three_phase import figures
from experiments.three_phase import num_clusters_figure
from experiments.three_phase import results as results_lib
from experiments.three_phase import tables
from fl_clustering import gains

def _num_clusters(results):
  """Returns the figure of how the number of clusters was chosen; None if it was given."""
  if not results.num_clusters_choice:
    return None
  return num_clusters_figure.num_clusters(
      results.num_clusters_choice, results.data_line, results.settings["num_clusters_criterion"]
  )


_FIRST_FIGURES = (
    report_sections.Figure(
        "gains.png", figures.gains,
        "Gain of every method over FedAvg, with its interval",
        "A dot right of the line is a gain over training everyone together. Only where the bar "
        "leaves out zero can the gain be told from chance; where it doesn't, the dot is open.",
    ),
)
_FIGURES = (
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
        "Every point is a client. A good method has its points far to the right, and none far "
        "to the left.",
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
        "num_clusters.png", _num_clusters,
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

# More client steps than this multiple of FedAvg's are said.
_MORE_STEPS = 1.05

# What a method shows the server beyond the weights after phase 1.
_SEES_MORE = {
    "ifca": "For IFCA it also sees which model fits each client best.",
    "cfl": "For CFL it also sees every client's update in every round.",
    "cfl_as_copied": "For CFL it also sees every client's update in every round.",
    "fesem": "For FeSEM it also sees every client's own weights in every round.",
    "pacfl": "For PACFL it also sees directions of every client's raw data: the first one of a "
    "label looks like the client's average image of that label.",
}

_FILES = {
    output_folder.REPORT: "this page",
    "figures": "the figures as PNG",
    output_folder.SUMMARY: "the comparison as numbers",
    output_folder.CONFIG: "all settings, seed, versions, and the data that were used",
    "metrics.csv": "every metric per phase, method, cluster and round",
    "client_metrics.csv": "every client's metrics per method",
    "clients.csv": "every client's number of examples and labels, and whether it is a new client",
    "assignments.json": "the clients of every cluster after the last round",
    "num_clusters.csv": "the scores by which the number of clusters was chosen",
    "group_recovery.csv": "how well the true groups are found",
    "client_weights.npz": "the clients' weights that were grouped, and the global model",
    "checkpoints": "the trained models, and the state to resume from",
    "tensorboard": "the same metrics for TensorBoard",
}


def _mean_accuracy(results, method):
  """Returns the clients' mean accuracy under a method."""
  return results.summary["methods"][method]["clients"]["accuracy"]["mean"]


def _steps(results, method):
  return results.summary["methods"][method]["cost"]["client_steps"]


def _listed(methods):
  """Returns the names of methods, as words of a sentence."""
  *others, last = map(results_lib.method_name, methods)
  return f"{', '.join(others)} and {last}" if others else last


def _judged(results, methods):
  """Returns the methods by the verdict on their gain over FedAvg."""
  judged = {verdict: [] for verdict in tables.VERDICTS}
  for method in methods:
    judged[results.summary["methods"][method]["gain"]["verdict"]].append(method)
  return judged


def _verdicts_in_words(results, methods, than):
  """Returns for which methods the accuracy is higher, lower or unclear, in words.

  Args:
    results: The `Results`.
    methods: The methods judged, at least one.
    than: Words for what they are compared with.
  """
  judged = _judged(results, methods)
  parts = []
  for verdict, relation in ((gains.BETTER, "more"), (gains.WORSE, "less")):
    if judged[verdict]:
      verb = "is" if len(judged[verdict]) == 1 else "are"
      compared = f" than {than}" if not parts else ""
      parts.append(f"{_listed(judged[verdict])} {verb} {relation} accurate{compared}")
  unclear = judged[gains.UNCLEAR]
  if unclear and parts:
    parts.append(f"for {_listed(unclear)}, this run can't tell")
  elif unclear:
    verb = "is" if len(unclear) == 1 else "are"
    parts.append(
        f"this run can't tell whether {_listed(unclear)} {verb} more or less accurate than {than}"
    )
  return "; ".join(parts)


def verdict(results):
  """Returns one sentence: which methods are better or worse than the FedAvg control."""
  methods = results_lib.chosen_methods(results.summary)
  if not methods:
    sentence = "This run has no methods, only controls"
  else:
    sentence = _verdicts_in_words(
        results, methods, "training everyone together for as many rounds (FedAvg)"
    )
    sentence = sentence[0].upper() + sentence[1:]
  covered = tables.privacy_text(results.summary)
  return f"{sentence} ({covered})." if covered else f"{sentence}."


def _basis_sentences(results):
  """Returns what the verdict rests on, and what it is about."""
  summary = results.summary
  comparison, num_comparisons = summary["comparison"], summary["comparison"]["num_comparisons"]
  clients = "client" if results.num_clients == 1 else "clients"
  yield (
      f"This rests on {summary['num_test_examples']['clients']:,} test examples of "
      f"{results.num_clients:,} {clients}."
  )
  if results.num_clients == 1:
    yield "With one client there is no interval."
    return
  together = "" if num_comparisons == 1 else (
      f", for all {num_comparisons} methods and controls that are compared with FedAvg together"
  )
  yield f"It is said with intervals at {comparison['level']:.0%}{together}."
  repeats = comparison["control_repeats"]
  where = f"these data, this partition and this phase 1 (one seed, {summary['seed']})"
  if repeats:
    times = "once more" if repeats == 1 else f"{repeats:,} times more"
    yield (
        "The intervals include the chance in training, for which FedAvg was trained "
        f"{times}; every method is taken to vary as much as FedAvg. They are about {where}; what "
        "other seeds would say is not known."
    )
  else:
    yield (
        "The intervals leave out the chance in training, as FedAvg was not trained again "
        f"(--control_repeats=0). So they are about these trained models only, on {where}."
    )


def _controls_sentence(results):
  """Returns what is known of the other controls, None without any."""
  methods = results.summary["methods"]
  controls = [c for c in results_lib.CONTROLS if c in methods and c != results_lib.FEDAVG]
  if not controls:
    return None
  return f"Of the controls, {_verdicts_in_words(results, controls, 'FedAvg')}."


def _finetuned_sentence(results):
  """Returns that the fine-tuned control is ahead of every method, None if it is not."""
  chosen = results_lib.chosen_methods(results.summary)
  if not chosen or results_lib.FINETUNED not in results.summary["methods"]:
    return None
  finetuned = _mean_accuracy(results, results_lib.FINETUNED)
  best = max(_mean_accuracy(results, method) for method in chosen)
  if finetuned <= best:
    return None
  return (
      "The global model fitted to each client alone (fine-tuned) beats every method in mean "
      f"accuracy, with {finetuned:.3f} against {best:.3f} at best; there is no interval for this "
      "difference."
  )


def _work_sentence(results):
  """Returns what more work explains, None where no method trains more than FedAvg."""
  fedavg = _steps(results, results_lib.FEDAVG)
  more = [
      method for method in results_lib.chosen_methods(results.summary)
      if _steps(results, method) > _MORE_STEPS * fedavg
  ]
  if not more:
    return None
  times = ", ".join(
      f"{results_lib.method_name(method)} {_steps(results, method) / fedavg:.1f} times"
      for method in more
  )
  sentence = f"Some methods have more client steps than FedAvg: {times}."
  if results_lib.FEDAVG_MATCHED not in results.summary["methods"]:
    return sentence
  accuracies = ", ".join(
      f"{results_lib.method_name(method)} {_mean_accuracy(results, method):.3f}"
      for method in (*more, results_lib.FEDAVG_MATCHED)
  )
  return (
      f"{sentence} Part of their gain may come from that. FedAvg matched goes on until it has as "
      f"many steps as the method with the most. Mean accuracy: {accuracies}."
  )


def _clients_sentence(results):
  """Returns for how many clients each method is better or worse, None without methods."""
  chosen = results_lib.chosen_methods(results.summary)
  if not chosen:
    return None
  together = results.client_accuracy(results_lib.FEDAVG)
  counts = []
  for method in chosen:
    accuracy = results.client_accuracy(method)
    better = sum(accuracy[c] > together[c] for c in together)
    worse = sum(accuracy[c] < together[c] for c in together)
    counts.append(f"{results_lib.method_name(method)} {better:,} and {worse:,}")
  return (
      f"Clients with a higher and with a lower accuracy than under FedAvg: {'; '.join(counts)}."
  )


def _participation_sentence(results):
  """Returns how many clients take part in a round, None if all do."""
  chosen = results.settings["clients_per_round"]
  if chosen is None:
    return None
  return (
      f"In each round {chosen:,} of the {results.num_clients:,} clients take part, the same ones "
      "for every method."
  )


def _global_test_sentence(results):
  """Returns what is wrong with the global test set, None if nothing is."""
  if not results.tests_on_clients:
    return None
  return (
      "The global test set is not apart: all of it is clients' own test data. The weights of the "
      "global model (b) are best accuracies on these data, so its accuracy is too high."
  )


def notes(results):
  """Returns what the reader needs to judge the verdict, as paragraphs."""
  groups = (
      _basis_sentences(results),
      (_controls_sentence(results), _finetuned_sentence(results)),
      (_work_sentence(results),),
      (_clients_sentence(results), _participation_sentence(results)),
      (_global_test_sentence(results),),
  )
  paragraphs = (" ".join(filter(None, sentences)) for sentences in groups)
  return list(filter(None, paragraphs))


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
  for name, assignment in results.assignments.items():
    if assignment.warning:
      found.append((results_lib.method_label(name), assignment.warning))
  aggregator = results.settings["aggregator"]
  if aggregator != "mean":
    found.append((
        f"Only phase 1 uses --aggregator={aggregator}",
        "Phase 2 and the controls average without it, so the aggregator is one reason why they "
        "differ from phase 1.",
    ))
  return found


def privacy_notes(results):
  """Returns what the server sees and what is private, as paragraphs."""
  seen = (
      "When phase 1 ends, the server sees every client's own model weights in the clear. "
      "Weights can reveal a client's data."
  )
  if results.finished.has("client_weights.npz"):
    seen += " The file client_weights.npz holds them."
  sees_more = (_SEES_MORE.get(name) for name in results_lib.chosen_methods(results.summary))
  seen = " ".join([seen, *dict.fromkeys(filter(None, sees_more))])
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
      html_page.paragraph(html_page.strong(verdict(results))),
      *map(html_page.paragraph, notes(results)),
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
  first = report_sections.write_figures(results.finished.path, _FIRST_FIGURES, results)
  pictures = report_sections.write_figures(results.finished.path, _FIGURES, results)
  clusters, new_clients = tables.cluster_tables(results), tables.new_client_tables(results)
  html_page.write_page(
      results.finished.join(output_folder.REPORT),
      f"Three-phase clustering of {results.num_clients:,} clients: {dataset['name']}",
      f"{dataset['source']}. Partition: {results.partition}. Model: {model['name']}, "
      f"{model['num_parameters']:,} parameters. Rounds: "
      f"{results.settings['pretrain_rounds']} in phase 1, "
      f"{results.settings['cluster_rounds']} in phase 2. Seed: {seed}.",
      _summary(results),
      *([html_page.section("Gains", *first)] if first else []),
      html_page.section("Comparison", *tables.comparison_tables(results)),
      *([html_page.section("New clients", *new_clients)] if new_clients else []),
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
