"""Draws a finished benchmark: figures, and one page with findings and tables."""

import math

from experiment_shell import html_page
from experiment_shell import output_folder
from experiment_shell import report_sections
from experiments.private import cells
from experiments.private import figures
from experiments.private import findings
from experiments.private import methods
from experiments.private import results as results_lib

_LINE_BREAK = html_page.Html("<br>")
_KEY = "mean loss, with the standard deviation below; smallest private loss in bold"

_FIGURES = (
    report_sections.Figure(
        "loss_over_k.png", figures.loss_over_k, "Loss over the number of clusters",
        "Lower is better, on a logarithmic scale. The grey dashed line is k-means without "
        "privacy: the closer a method is to it, the less its privacy costs. Crosses show "
        "another implementation of the LSH tree on the same data.",
    ),
    report_sections.Figure(
        "loss_over_epsilon.png", figures.loss_over_epsilon, "Loss over epsilon",
        "Privacy decreases to the right. If a line still falls at the right end, noise still "
        "costs loss there; if it is level, it does not.",
    ),
)

_FILES = {
    output_folder.REPORT: "this page",
    "figures": "the figures as PNG",
    output_folder.SUMMARY: "all means, standard deviations, percentiles and worst losses, and "
    "the ratios to google/differential-privacy and to the optimum",
    output_folder.CONFIG: "all settings, seed, versions, the data actually used",
    cells.MEASUREMENTS: "the loss of every single run",
    cells.LEDGERS: "what one run of each of our methods released, and with how much noise",
}


def _summary_section(results):
  cost = findings.price(results)
  return html_page.section(
      "Summary",
      html_page.paragraph(html_page.strong(findings.verdict(results))),
      *(html_page.paragraph(text) for text in (cost, findings.new_data(results)) if text is not None),
      *map(html_page.paragraph, findings.federation(results)),
      *report_sections.warnings(results.run),
      *(html_page.warning(title, text) for title, text in findings.warnings(results)),
      html_page.note("What is compared, and what is private", *findings.notes(results)),
  )


def _peer_section(results):
  """Returns the section on the ratios to the peer's losses; nothing if none applies."""
  loss_text = results_lib.loss_text
  rows = [
      [
          comparison.peer.dataset, comparison.peer.k,
          loss_text(comparison.peer.loss), loss_text(comparison.loss),
          html_page.strong(f"{comparison.ratio:.3f}"),
          f"{comparison.peer.target_ratio:.2f}",
          "yes" if comparison.is_reached else "no",
      ]
      for comparison in results.peer_comparisons()
  ]
  if not rows:
    return []
  label = methods.LABELS[results_lib.COMPARED]
  return [html_page.section(
      f"Comparison with {results_lib.PEER}",
      html_page.table(
          ["data set", "k", results_lib.PEER, label, "ratio", "target", "reached"], rows,
          f"Mean loss of {label}, and its ratio to that of {results_lib.PEER}",
      ),
      html_page.paragraph(
          f"{results_lib.PEER_SOURCE}, was not run here. Its losses were measured once, on data "
          "sets prepared in the same way, as means over at least five runs. The synthetic points "
          "are another draw of the same mixture. The target is the largest ratio that is good "
          "enough.",
          quiet=True,
      ),
  )]


def _protected(results, dataset):
  unit_points = results.datasets[dataset]["unit_points"]
  return "one point" if unit_points == 1 else f"one client with at most {unit_points} points"


def _optimum_section(results):
  """Returns the section of ratios to the best loss that is known; nothing if there is none."""
  rows = [
      [
          ratio.dataset, _protected(results, ratio.dataset),
          html_page.strong(f"{ratio.epsilon:g}, the paper's") if ratio.is_of_paper
          else f"{ratio.epsilon:g}",
          methods.LABELS[ratio.method], f"{ratio.mean:.4f}", f"{ratio.sd:.4f}",
          f"{ratio.worst:.4f}",
      ]
      for ratio in results.optimum_ratios()
  ]
  if not rows:
    return []
  return [html_page.section(
      "Loss over the optimum: the mixtures of FedDP-KMeans",
      html_page.table(
          ["data set", "privacy of", "epsilon", "method", "mean ratio", "sd", "worst"], rows,
          "Loss, divided by that of k-means without privacy from the true means; "
          f"runs: {results.settings['runs']}", text_columns=(1, 2, 3),
      ),
      html_page.paragraph(
          "Scott, Lampert, Saulpic (ICML 2025): ten Gaussians of variance 0.5 in 100 dimensions, "
          "means uniform in the unit cube, norms clipped at 11, delta 1e-6. Their method starts "
          "from data that the server has. Here the server has no data.",
          quiet=True,
      ),
  )]


def _lost_section(results):
  """Returns the section of cases that our method loses; nothing if there is none."""
  if results_lib.COMPARED not in results.methods:
    return []
  rows = []
  for dataset, k, epsilon in results.private_cases:
    if findings.is_lost(results, dataset, k, epsilon):
      losses = {m: results.loss(dataset, m, k, epsilon).mean for m in results.central_methods}
      best = min(losses, key=losses.get)
      ours = losses[results_lib.COMPARED]
      rows.append([
          dataset, k, f"{epsilon:g}", methods.LABELS[best], results_lib.loss_text(losses[best]),
          results_lib.loss_text(ours), f"{ours / losses[best]:.3f}",
      ])
  if not rows:
    return []
  label = methods.LABELS[results_lib.COMPARED]
  return [html_page.section(
      f"Where {label} is not the best",
      html_page.table(
          ["data set", "k", "epsilon", "smallest loss", "its loss", label, "ratio"], rows,
          f"All cases in which another central method has a smaller mean loss: {len(rows)} of "
          f"{len(results.private_cases)}", text_columns=(3,),
      ),
  )]


def _loss_cell(spread, is_best):
  mean = results_lib.loss_text(spread.mean)
  shown = html_page.strong(mean) if is_best else mean
  return html_page.joined(shown, _LINE_BREAK, f"± {results_lib.loss_text(spread.sd)}")


def _loss_table(results, dataset, columns, caption):
  """Returns the table of a data set's losses, with a row per method.

  Args:
    results: The `Results`.
    dataset: Name of the data set.
    columns: Heading -> (k, epsilon).
    caption: The table's caption.
  """
  means = {
      heading: [
          results_lib.loss_text(results.loss(dataset, method, *setting).mean)
          for method in results.private_methods
      ]
      for heading, setting in columns.items()
  }
  rows = []
  for method in results.methods:
    row = [methods.LABELS[method]]
    for heading, setting in columns.items():
      spread = results.loss(dataset, method, *setting)
      is_best = method in results.private_methods and (
          results_lib.loss_text(spread.mean) == min(means[heading], key=float)
      )
      row.append(_loss_cell(spread, is_best))
    rows.append(row)
  return html_page.table(
      ["method", *columns], rows, f"{results_lib.dataset_title(results, dataset)} {caption}: {_KEY}"
  )


def _loss_sections(results):
  """Returns the sections of losses over k and, if any were tried, over epsilon."""
  settings = results.settings
  fixed_k, fixed_epsilon = settings["fixed_k"], settings["fixed_epsilon"]
  over_k = {f"k = {k}": (k, fixed_epsilon) for k in settings["k_to_try"]}
  over_epsilon = {
      f"epsilon = {epsilon:g}": (fixed_k, epsilon) for epsilon in settings["epsilon_to_try"]
  }
  sections = []
  for title, columns, caption in (
      ("Loss over k", over_k, f"at epsilon {fixed_epsilon:g}"),
      ("Loss over epsilon", over_epsilon, f"with {fixed_k} clusters"),
  ):
    if columns:
      tables = [_loss_table(results, dataset, columns, caption) for dataset in results.datasets]
      sections.append(html_page.section(title, *tables))
  return sections


def _ledger_table(method, ledger):
  """Returns what one run of a method released, as a folded table."""
  rows = [
      [
          release["name"],
          "∞" if release["sensitivity"] == math.inf else f"{release['sensitivity']:g}",
          f"{release['std']:.5g}", f"{release['mu']:.5g}",
      ]
      for release in ledger["releases"]
  ]
  rows.append(["all together", "", "", f"{ledger['mu_spent']:.5g}"])
  return html_page.details(
      f"{methods.LABELS[method]}: {len(ledger['releases'])} releases, epsilon "
      f"{ledger['epsilon_spent']:.6g} of {ledger['epsilon']:g} at delta {ledger['delta']:g}",
      html_page.table(
          ["release", "sensitivity", "standard deviation", "mu"], rows,
          f"{ledger['dataset']}, {ledger['k']} clusters; noise: {ledger['noise_source']}",
      ),
  )


def _ledger_section(results):
  """Returns the section of what our methods released; nothing if none was run."""
  ledgers = results.run.json(cells.LEDGERS)
  tables = [_ledger_table(method, ledger) for method, ledger in ledgers.items()]
  return [html_page.section("What was released", *tables)] if tables else []


def _settings_section(results):
  rows = [
      [
          name, f"{description['num_points']:,}", description["dim"],
          f"{description['num_clients']:,}", "yes" if description["is_new"] else "no",
          description["source"],
      ]
      for name, description in results.datasets.items()
  ]
  versions = {"Versions": results.run.versions}
  of_diffprivlib = results.run.document["diffprivlib_versions"]
  if of_diffprivlib:
    versions["Versions in the environment of diffprivlib"] = of_diffprivlib
  return report_sections.settings_section(
      "Settings and versions",
      {"Settings": results.settings, **versions},
      html_page.table(
          ["data set", "points", "coordinates", "clients", "new", "source"], rows,
          "Data sets; clients: of the federated methods; new: never used to choose the constants "
          "of split and refine, and not a mixture of Gaussians", text_columns=(4, 5),
      ),
  )


def write_report(run):
  """Draws the figures and writes report.html, last.

  Args:
    run: The `FinishedRun`.
  """
  results = results_lib.read(run)
  settings = results.settings
  drawings = report_sections.write_figures(run.path, _FIGURES, results)
  html_page.write_page(
      run.join(output_folder.REPORT),
      "Differentially private k-means: how much loss for how much privacy",
      f"Data sets: {', '.join(results.datasets)}. Loss: mean squared distance of the points to "
      f"the nearest center. Epsilon {settings['fixed_epsilon']:g}, delta {settings['delta']:g}, "
      f"runs: {settings['runs']}, seed: {settings['seed']}.",
      _summary_section(results),
      *_peer_section(results),
      *_optimum_section(results),
      html_page.section("Figures", *drawings),
      *_lost_section(results),
      *_loss_sections(results),
      *_ledger_section(results),
      _settings_section(results),
      report_sections.files_section(run.path, _FILES),
  )
