"""Draws a finished benchmark: figures, and one page with findings and tables."""

from __future__ import annotations

import math
from typing import Any, Mapping

from experiment_shell import finished_run
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

FILES = {
    output_folder.REPORT: "this page",
    "figures": "the figures as PNG",
    output_folder.SUMMARY: "all means, standard deviations, percentiles and worst losses, and "
    "the ratios to google/differential-privacy and to the optimum",
    output_folder.CONFIG: "all settings, seed, versions, the data actually used",
    cells.MEASUREMENTS: "the loss of every single run",
    cells.LEDGERS: "what one run of each of our methods released, and with how much noise",
}


def _figures(results: results_lib.Results) -> tuple[report_sections.Figure, ...]:
  over_k = "Lower is better, on a logarithmic scale."
  if methods.NOT_PRIVATE in results.methods:
    over_k += (
        " The grey dashed line is k-means without privacy: the closer a method is to it, the less "
        "its privacy costs."
    )
  if any(map(results.peer_losses, results.datasets)):
    over_k += " Crosses show another implementation of the LSH tree on the same data."
  return (
      report_sections.Figure(
          "loss_over_k.png", figures.loss_over_k, "Loss over the number of clusters", over_k
      ),
      report_sections.Figure(
          "loss_over_epsilon.png", figures.loss_over_epsilon, "Loss over epsilon",
          "Privacy decreases to the right. If a line still falls at the right end, noise still "
          "costs loss there; if it is level, it does not.",
      ),
  )


def _peer_blocks(results: results_lib.Results) -> list[html_page.Html]:
  """Returns the ratios to the peer's losses; nothing if none applies."""
  loss_text, label = results_lib.loss_text, methods.LABELS[results_lib.COMPARED]
  rows = [
      [
          peer.dataset, peer.k, loss_text(peer.loss), loss_text(peer.ours),
          html_page.strong(f"{peer.ratio:.3f}"), f"{peer.target:.2f}",
          "yes" if peer.is_reached else "no",
      ]
      for peer in results.peer_comparisons()
  ]
  if not rows:
    return []
  return [
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
  ]


def _protected(results: results_lib.Results, dataset: str) -> str:
  unit_points = results.datasets[dataset]["unit_points"]
  return "one point" if unit_points == 1 else f"one client with at most {unit_points} points"


def _optimum_blocks(results: results_lib.Results) -> list[html_page.Html]:
  """Returns the ratios to the best loss that is known; nothing if there is none."""
  rows = [
      [
          ratio["dataset"], _protected(results, ratio["dataset"]),
          html_page.strong(f"{ratio['epsilon']:g}, the paper's") if ratio["is_of_paper"]
          else f"{ratio['epsilon']:g}",
          methods.LABELS[ratio["method"]],
          *(f"{ratio[column]:.4f}" for column in ("mean", "sd", "worst")),
      ]
      for ratio in results.optimum_ratios()
  ]
  if not rows:
    return []
  return [
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
  ]


def _lost_blocks(results: results_lib.Results) -> list[html_page.Html]:
  """Returns the cases that our method loses; nothing if there is none."""
  loss_text, label = results_lib.loss_text, methods.LABELS[results_lib.COMPARED]
  rows = [
      [
          dataset, k, f"{epsilon:g}", methods.LABELS[best], loss_text(least), loss_text(ours),
          f"{ours / least:.3f}",
      ]
      for dataset, k, epsilon, best, least, ours in findings.lost_cases(results)
  ]
  if not rows:
    return []
  return [html_page.table(
      ["data set", "k", "epsilon", "smallest loss", "its loss", label, "ratio"], rows,
      f"All cases in which another central method has a smaller mean loss: {len(rows)} of "
      f"{len(results.private_cases)}", text_columns=(3,),
  )]


def _loss_table(
    results: results_lib.Results,
    dataset: str,
    columns: Mapping[str, tuple[int, float]],
    caption: str,
) -> html_page.Html:
  """Returns the table of a data set's losses, with a row per method.

  Args:
    columns: From the heading to k and epsilon.
  """

  def mean(method: str, setting: tuple[int, float]) -> str:
    return results_lib.loss_text(results.loss(dataset, method, *setting))

  def cell(method: str, setting: tuple[int, float]) -> html_page.Html:
    shown = mean(method, setting)
    best = min((mean(other, setting) for other in results.private_methods), key=float, default="")
    is_best = method in results.private_methods and shown == best
    sd = results_lib.loss_text(results.loss(dataset, method, *setting, column="sd"))
    return html_page.joined(
        html_page.strong(shown) if is_best else shown, _LINE_BREAK, f"± {sd}"
    )

  rows = [
      [methods.LABELS[method], *(cell(method, setting) for setting in columns.values())]
      for method in results.methods
  ]
  return html_page.table(
      ["method", *columns], rows, f"{results_lib.dataset_title(results, dataset)} {caption}: {_KEY}"
  )


def _loss_tables(results: results_lib.Results) -> dict[str, list[html_page.Html]]:
  """Returns the tables of losses over k and, if any were tried, over epsilon, by their title."""
  settings = results.settings
  fixed_k, fixed_epsilon = settings["fixed_k"], settings["fixed_epsilon"]
  over_k = {f"k = {k}": (k, fixed_epsilon) for k in settings["k_to_try"]}
  over_epsilon = {
      f"epsilon = {epsilon:g}": (fixed_k, epsilon) for epsilon in settings["epsilon_to_try"]
  }
  return {
      title: [_loss_table(results, dataset, columns, caption) for dataset in results.datasets]
      for title, columns, caption in (
          ("Loss over k", over_k, f"at epsilon {fixed_epsilon:g}"),
          ("Loss over epsilon", over_epsilon, f"with {fixed_k} clusters"),
      )
      if columns
  }


def _ledger_table(method: str, ledger: Mapping[str, Any]) -> html_page.Html:
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
      f"{methods.LABELS[method]}: {len(ledger['releases'])} releases for a budget of epsilon "
      f"{ledger['epsilon']:g} at delta {ledger['delta']:g}",
      html_page.table(
          ["release", "sensitivity", "standard deviation", "mu"], rows,
          f"{ledger['dataset']}, {ledger['k']} clusters; noise: {ledger['noise_source']}",
      ),
  )


def _settings_section(results: results_lib.Results) -> html_page.Html:
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


def write_report(run: finished_run.FinishedRun) -> None:
  """Draws the figures and writes report.html, last."""
  results = results_lib.read(run)
  settings = results.settings
  ledgers = run.json(cells.LEDGERS)
  lost = f"Where {methods.LABELS[results_lib.COMPARED]} is not the best"
  report_sections.write(run, report_sections.Report(
      title="Differentially private k-means: how much loss for how much privacy",
      subtitle=f"Data sets: {', '.join(results.datasets)}. Loss: mean squared distance of the "
      f"points to the nearest center. Epsilon {settings['fixed_epsilon']:g}, delta "
      f"{settings['delta']:g}, runs: {settings['runs']}, seed: {settings['seed']}.",
      verdict=[findings.verdict(results)],
      findings=[
          *filter(None, (findings.price(results), findings.new_data(results))),
          *findings.federation(results),
      ],
      warnings=[*run.warnings, *findings.warnings(results)],
      notes={"What is compared, and what is private": findings.notes(results)},
      sections={
          f"Comparison with {results_lib.PEER}": _peer_blocks(results),
          "Loss over the optimum: the mixtures of FedDP-KMeans": _optimum_blocks(results),
          "Figures": report_sections.write_figures(run.path, _figures(results), results),
          lost: _lost_blocks(results),
          **_loss_tables(results),
          "What was released": [_ledger_table(*item) for item in ledgers.items()],
      },
      settings=_settings_section(results),
      files=FILES,
  ))
