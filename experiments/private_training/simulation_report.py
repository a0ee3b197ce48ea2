"""Draws the page of a simulation from its folder alone; nothing on it is private."""

from __future__ import annotations

from typing import Any, Mapping

from experiment_shell import finished_run
from experiment_shell import html_page
from experiment_shell import output_folder
from experiment_shell import report_sections
from experiment_shell import scores
from experiments.private_training import figures
from experiments.private_training import results

_FIGURES = (
    report_sections.Figure(
        "accuracy.png", figures.accuracy, "Accuracy by method and epsilon",
        "Compare like with like: fine-tuned with fine-tuned. IFCA without privacy is what private "
        "clusters could reach without noise.",
    ),
    report_sections.Figure(
        "recovery.png", figures.recovery, "Adjusted Rand index by method and epsilon",
        "1 means that every client is with those of its true group, 0 that the clusters are no "
        "better than chance.",
    ),
)
_FILES = {
    output_folder.REPORT: "this page",
    output_folder.SUMMARY: "NOT private: means, intervals and comparisons",
    results.SIMULATED: "NOT private: a row for each method, epsilon and seed",
    "figures": "NOT private: the figures as PNG",
}


def _against_finetuned(simulation: Mapping[str, Any]) -> str:
  """Returns one sentence: whether clusters or fine-tuning alone are better."""
  num_pairs = sum(
      found["difference"]["num_seeds"]
      for found in results.comparisons(simulation, results.DP_FEDAVG)
  )
  num_lost = len(simulation["losses"])
  if not num_pairs:
    return "DP-FedAvg was not run with the same seeds, so there is no comparison with it."
  where = f"in {num_lost} of {num_pairs}" if num_lost else f"in none of the {num_pairs}"
  return (
      f"DP-FedAvg is more accurate than private clusters, both fine-tuned, {where} pairs of runs "
      "(epsilon and seed)."
  )


def _cost_of_privacy(simulation: Mapping[str, Any]) -> list[str]:
  """Returns one sentence: how far private clusters are from IFCA; nothing if it was not run."""
  differences = [
      f"{scores.points(found['difference']['mean'])} points at epsilon {found['epsilon']:g}"
      for found in results.comparisons(simulation, results.IFCA)
  ]
  if not differences:
    return []
  return [
      "Accuracy of private clusters, less that of IFCA without privacy: "
      f"{report_sections.listed(differences)}."
  ]


def _comparison_table(
    simulation: Mapping[str, Any], other: str, score: str
) -> list[html_page.Html]:
  """Returns the table of differences from another method; nothing if it was not run."""
  rows = [
      [
          f"{found['epsilon']:g}", scores.score_text(found["relative_noise"], "{:.2f}".format),
          found["difference"]["num_seeds"],
          results.spread_text(found["difference"], scores.points),
      ]
      for found in results.comparisons(simulation, other)
  ]
  if not rows:
    return []
  return [html_page.table(
      ["epsilon", "planning number", "seeds", "difference, points"], rows,
      f"{score} of private clusters, less that of {results.LABELS[other]} with the same seed",
  )]


def _losses_table(simulation: Mapping[str, Any]) -> list[html_page.Html]:
  rows = [
      [
          f"{loss['epsilon']:g}", loss["seed"],
          scores.score_text(loss["relative_noise"], "{:.2f}".format),
          scores.score_text(loss[results.OURS]), scores.score_text(loss[results.DP_FEDAVG]),
          scores.points(loss[results.OURS] - loss[results.DP_FEDAVG]),
      ]
      for loss in simulation["losses"]
  ]
  if not rows:
    return []
  return [html_page.table(
      ["epsilon", "seed", "planning number", "private clusters", "DP-FedAvg",
       "difference, points"],
      rows, "All runs in which DP-FedAvg is more accurate, both fine-tuned",
  )]


def _runs_table(run: finished_run.FinishedRun) -> html_page.Html:
  rows = run.rows(results.SIMULATED)
  columns = list(rows[0]) if rows else ["method"]
  return html_page.details(
      f"All {len(rows)} runs",
      html_page.table(
          columns, [["" if cell is None else cell for cell in row.values()] for row in rows],
          "NOT private: the rows of results.csv",
      ),
  )


def write_simulation(folder: str) -> None:
  """Draws the page of a simulation, from its folder alone."""
  run = finished_run.FinishedRun(folder)
  simulation = run.summary
  data = simulation["data"]
  key = (
      f"Brackets: 95% interval of the mean over {results.LEAST_SEEDS} seeds or more (Student's t, "
      "each interval by itself; it is about other seeds with these data). Parentheses: the range "
      "of two seeds. A single seed tells nothing about chance."
  )
  comparisons = _comparison_table(simulation, results.DP_FEDAVG, "Fine-tuned accuracy")
  if comparisons:
    comparisons += [*_losses_table(simulation), html_page.paragraph(results.CAVEAT)]
  report_sections.write(run, report_sections.Report(
      title="NOT private: a simulation of private clusters",
      subtitle=results.data_line(data),
      verdict=[simulation["note"]],
      findings=[_against_finetuned(simulation), *_cost_of_privacy(simulation)],
      warnings=[],
      notes={},
      sections={
          "Figures": report_sections.write_figures(folder, _FIGURES, simulation),
          "All methods": [
              html_page.table(
                  results.METHODS_HEADER, results.method_rows(simulation, results.spread_text),
                  "Means over seeds; accuracies are means over the clients, on their own test data",
              ),
              html_page.paragraph(key, quiet=True),
          ],
          "Against DP-FedAvg, both fine-tuned": comparisons,
          "Against IFCA without privacy": _comparison_table(
              simulation, results.IFCA, "Accuracy"
          ),
          "Every run": [_runs_table(run)],
      },
      settings=report_sections.settings_section(
          "What was simulated", {"Data": {**data, "delta": simulation["delta"]}}
      ),
      files=_FILES,
  ))
