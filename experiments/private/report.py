"""Draws a finished benchmark: figures, and one page with findings and tables."""

import math

from experiment_shell import html_page
from experiment_shell import output_folder
from experiment_shell import report_sections
from experiments.private import cells
from experiments.private import figures
from experiments.private import methods
from experiments.private import results as results_lib

_FEW_RUNS = 5
_LINE_BREAK = html_page.Html("<br>")
_KEY = "mean loss, with 25th–75th percentile below; smallest private loss in bold"

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
    output_folder.SUMMARY: "all means and percentiles, and the ratios to "
    "google/differential-privacy",
    output_folder.CONFIG: "all settings, seed, versions, the data actually used",
    cells.MEASUREMENTS: "the loss of every single run",
    cells.LEDGERS: "what one run of each of our methods released, and with how much noise",
}


def _capitalized(method):
  label = methods.LABELS[method]
  return label[0].upper() + label[1:]


def _cases(results):
  return [(dataset, k) for dataset in results.datasets for k in results.settings["k_to_try"]]


def _wins(results):
  """Returns how often (over data sets and k) each private method has the smallest loss."""
  wins = dict.fromkeys(results.private_methods, 0)
  for dataset, k in _cases(results) if wins else ():
    wins[min(wins, key=lambda method: results.loss(dataset, method, k).mean)] += 1
  return wins


def verdict(results):
  """Returns one sentence: which private method has the smallest loss, and how often."""
  wins = _wins(results)
  if not wins:
    return "No private method was run."
  best = max(wins, key=wins.get)
  if len(wins) == 1:
    return f"{_capitalized(best)} is the only private method that was run."
  num_cases = len(_cases(results))
  if wins[best] == num_cases:
    where = "on every data set and for every k"
  else:
    where = f"in {wins[best]} of {num_cases} cases (data set and k)"
  return (
      f"{_capitalized(best)} has the smallest mean loss of the {len(wins)} private methods "
      f"{where}."
  )


def price(results):
  """Returns one sentence: what privacy costs the best method; None if it can't be said."""
  wins = _wins(results)
  if not wins or methods.NOT_PRIVATE not in results.methods:
    return None
  best = max(wins, key=wins.get)
  ratios = [
      results.loss(dataset, best, k).mean / results.loss(dataset, methods.NOT_PRIVATE, k).mean
      for dataset, k in _cases(results)
  ]
  low, high = f"{min(ratios):.2f}", f"{max(ratios):.2f}"
  times = low if low == high else f"{low} to {high}"
  return (
      f"The cost of privacy: {methods.LABELS[best]} has {times} times the loss of k-means "
      "without privacy."
  )


def warnings(results):
  """Returns (title, text) of what the reader must not overlook."""
  found = [(f"{name} is left out", f"{reason}.") for name, reason in results.skipped.items()]
  runs = results.settings["runs"]
  if runs < _FEW_RUNS:
    found.append((
        "Few runs",
        f"Every mean is over {runs} {'run' if runs == 1 else 'runs'}: small differences and the "
        "percentiles say little. The source's benchmarks had 20.",
    ))
  return found


def notes(results):
  """Returns what the comparison shows and what is private, in sentences."""
  found = [
      "Nothing in this folder is private: losses are computed exactly, and the noise is seeded "
      "so that the benchmark can be repeated.",
      "All data sets but the synthetic one are centered at their mean and divided by their "
      "largest norm, which is not private either. The methods treat the resulting radius of 1 "
      "as public.",
      "scikit-learn's k-means is the best of ten starts. It has no privacy and shows what could "
      "be reached.",
  ]
  if "diffprivlib" in results.methods:
    found.append(
        "IBM diffprivlib runs at the same epsilon with delta = 0, which is stricter than what "
        "the other methods promise. It needs a bound on the coordinates and gets the exact one "
        "of the data. In version 0.6.6, it exchanges the parts of its budget for counts and for "
        "coordinates, so that in d > 4 dimensions it spends more than its epsilon: 1.4 times as "
        "much in 16, 2.7 times in 100. The comparison favors it there."
    )
  found.append(
      "dp-clustering-icml17 (Balcan et al., ICML 2017), which the source's benchmarks include, "
      "is left out: it is for pure epsilon, with delta = 0."
  )
  return found


def _summary_section(results):
  cost = price(results)
  return html_page.section(
      "Summary",
      html_page.paragraph(html_page.strong(verdict(results))),
      *([] if cost is None else [html_page.paragraph(cost)]),
      *report_sections.warnings(results.run),
      *(html_page.warning(title, text) for title, text in warnings(results)),
      html_page.note("What is compared, and what is private", *notes(results)),
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


def _loss_cell(spread, is_best):
  mean, low, high = map(results_lib.loss_text, (spread.mean, spread.low, spread.high))
  shown = html_page.strong(mean) if is_best else mean
  return html_page.joined(shown, _LINE_BREAK, f"{low}–{high}")


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
      [name, f"{description['num_points']:,}", description["dim"], description["source"]]
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
          ["data set", "points", "coordinates", "source"], rows, "Data sets", text_columns=(3,)
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
      html_page.section("Figures", *drawings),
      *_loss_sections(results),
      *_ledger_section(results),
      _settings_section(results),
      report_sections.files_section(run.path, _FILES),
  )
