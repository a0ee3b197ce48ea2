"""The tables that compare the methods, as HTML."""

from experiment_shell import html_page
from experiment_shell import scores
from experiments.three_phase import comparison
from experiments.three_phase import results as results_lib


def caption_text(text, summary):
  """Returns a caption that says, for a private run, what is covered."""
  return "; ".join(filter(None, (text, comparison.privacy_text(summary))))


def methods_table(rows, groups, caption):
  """Returns a table whose rows are methods.

  Args:
    rows: `Row`s; those without any value are left out.
    groups: Pairs of a heading and the `Column`s below it.
    caption: The table's caption.
  """
  columns = [column for _, of_group in groups for column in of_group]
  best = [comparison.best_text(rows, column) for column in columns]

  def cell(row, column, best_of_column):
    shown = row.text(column)
    return html_page.strong(shown) if shown == best_of_column else shown

  return html_page.table(
      ["method", *(column.heading for column in columns)],
      [
          [row.label, *(cell(row, *pair) for pair in zip(columns, best))]
          for row in rows
          if any(row.value(column) is not None for column in columns)
      ],
      caption,
      header_groups=[("", 1), *((heading, len(of_group)) for heading, of_group in groups)],
  )


def _accuracy_table(rows, results):
  summary = results.summary
  num_examples = summary["num_test_examples"]["clients"]
  level = f"{summary['comparison']['level']:.0%}"
  return methods_table(
      rows,
      [
          ("", [comparison.NUM_CLUSTERS]),
          ("clients' own test data", comparison.of_clients("clients", results.has_tables)),
          (f"over FedAvg, points, {level} interval", comparison.GAIN),
      ],
      caption_text(
          f"Accuracy after phase 2, of {results_lib.clients_text(summary['num_clients'])} on "
          f"{num_examples:,} test examples of their own, and gain over FedAvg; highest values in "
          "bold",
          summary,
      ),
  )


def _controls_text(summary):
  """Returns what the controls are, in words."""
  sentences = {
      results_lib.LOCAL: "every client trains alone from the beginning, for as many rounds as "
      "both phases have.",
      results_lib.FINETUNED: "every client goes on alone from the global model of phase 1.",
      results_lib.FEDAVG: "everyone trains together, for as many rounds as the methods.",
      results_lib.FEDAVG_MATCHED: "FedAvg goes on until it has at least as many client steps as "
      "the method with the most.",
  }
  return " ".join(
      f"{results_lib.method_name(name)}: {sentence}"
      for name, sentence in sentences.items()
      if name in summary["methods"]
  )


def _accuracy_key(results):
  num_comparisons = results.summary["comparison"]["num_comparisons"]
  balanced = (
      "Balanced accuracy: mean recall of a client's classes, so that rare ones weigh as much as "
      "frequent ones; then the mean over the clients. " if results.has_tables else ""
  )
  return html_page.paragraph(
      "All clients weigh alike, but in the pooled accuracy all their test examples do. sd: "
      "standard deviation over the clients. 10th perc.: a tenth of the clients is below it. Share "
      "at target: clients with an accuracy of at least "
      f"{results.settings['target_accuracy']:g}. {balanced}Gain: mean over the clients, in "
      f"percentage points; its intervals hold for all {num_comparisons} comparisons together. "
      "Can't tell: the interval includes zero, so the highest value may be highest by chance.",
      f"{_controls_text(results.summary)} {scores.ABSENT}: does not apply.",
      quiet=True,
  )


def _global_table(rows, results):
  return methods_table(
      rows,
      [("global test set", comparison.GLOBAL), ("clients' own test data", comparison.BLENDED)],
      caption_text(
          f"Models of phase 3: accuracy on {global_test_text(results)}, and of the blended models "
          "on the clients' own test data; highest values in bold",
          results.summary,
      ),
  )


def global_test_text(results):
  """Returns what the global test set is, for a caption."""
  num_examples = results.summary["num_test_examples"]["global"]
  text = f"the global test set, {num_examples:,} examples ({results.dataset['global_test_source']})"
  return f"{text}, all of them clients' own test data" if results.tests_on_clients else text


def _global_key(results):
  text = (
      "(a): mean of all cluster models. (b): mean weighted by the best accuracy that each cluster "
      "reached on its clients' test data. (c): each cluster's model averaged with (a); its "
      "accuracy is the mean over the clusters (over 100 of them, evenly spaced, where there are "
      "more). Phase 1 has one model, shown under (a)."
  )
  if results.tests_on_clients:
    text += (
        " The weights of (b) were chosen on the data that it is tested on here, so its accuracy "
        "is too high."
    )
  return html_page.paragraph(text, quiet=True)


def _cost_table(rows, summary):
  fedavg = summary["methods"][results_lib.FEDAVG]["cost"]["client_steps"]
  relative = comparison.Column(
      ("cost", "client_steps"), "steps of FedAvg", lambda steps: f"{steps / fedavg:.2f} times"
  )
  steps, *num_bytes = comparison.COSTS
  return methods_table(
      rows,
      [("computing", (steps, relative)), ("communication", num_bytes)],
      caption_text(
          "What the clients had to do, phase 1 included where a method builds on it", summary
      ),
  )


_COST_KEY = (
    "Client steps: steps of SGD of all clients together. Clients that train alone keep their "
    "models, so nothing is sent."
)


def _groups_table(rows, summary):
  return methods_table(
      rows, [("", comparison.TRUE_GROUPS)],
      caption_text(
          "Do the clusters agree with the true groups? (adjusted Rand index: 1 exactly, 0 as by "
          "chance; purity: share of clients whose group is their cluster's most frequent one)",
          summary,
      ),
  )


def comparison_tables(results):
  """Returns the comparison of all methods, as blocks of an HTML page."""
  summary = results.summary
  rows = comparison.comparison_rows(summary)
  blocks = [
      _accuracy_table(rows, results),
      _accuracy_key(results),
      _cost_table(rows, summary),
      html_page.paragraph(_COST_KEY, quiet=True),
      _global_table(rows, results),
      _global_key(results),
  ]
  if any(comparison.applies(column, rows) for column in comparison.TRUE_GROUPS):
    blocks.append(_groups_table(rows, summary))
  return blocks
