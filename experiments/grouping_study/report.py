"""The report of a study: its findings, heat maps, and a table per setting."""

import functools

from experiment_shell import finished_run
from experiment_shell import html_page
from experiment_shell import output_folder
from experiment_shell import report_sections
from experiment_shell import scores
from experiments.grouping_study import cells
from experiments.grouping_study import figures
from experiments.grouping_study import findings
from experiments.grouping_study import intervals
from experiments.grouping_study import results as results_lib
from experiments.grouping_study import settings as settings_lib
from experiments.three_phase import cost_text
from experiments.three_phase import method_names

_HEAT_MAPS = (
    report_sections.Figure(
        "gains_over_fedavg.png",
        functools.partial(figures.gains, reference=method_names.FEDAVG),
        "Gain of every method over FedAvg in every setting",
        "Look for green: there a method is more accurate than training everyone together. Grey "
        "differences can't be told from chance.",
    ),
    report_sections.Figure(
        "gains_over_finetuned.png",
        functools.partial(figures.gains, reference=method_names.FINETUNED),
        "Gain of every method over the fine-tuned control in every setting",
        "The same against the global model that every client fits to its own data. A method that "
        "is green above and red here helps less than that does.",
    ),
)
_REPETITIONS = (
    report_sections.Figure(
        "gains_by_repetition.png", figures.gains_by_repetition,
        "Gain of every method over FedAvg in every repetition",
        "A dot is a seed, or a fold. Two heaps in a row: the method depends on luck, and its mean "
        "says little.",
    ),
)
_COSTS = (
    report_sections.Figure(
        "accuracy_by_cost.png", figures.accuracy_by_cost,
        "Accuracy of all methods by bytes and by client steps",
        "The further left a line reaches an accuracy, the less it cost. Methods that build on "
        "phase 1 start where its cost ends. FedAvg matched is left out.",
    ),
)

FILES = {
    output_folder.REPORT: "this page",
    "figures": "the figures as PNG",
    output_folder.SUMMARY: "means and differences with their intervals",
    output_folder.CONFIG: "all settings, seeds, versions, and the data that were used",
    cells.RESULTS: "every cell: setting, seed, fold and method with its scores, or why it failed",
    cells.ROUNDS: "accuracy and cost after every round of every cell",
    "cells": "the same tables of every run",
}


def _gain_cells(
    results: results_lib.Results, setting: str, method: str, reference: str
) -> list[str]:
  if method not in results.compared_with(reference):
    return [scores.ABSENT] * 2
  gain = results.gain(setting, method, reference)
  if gain is None:
    return [results.no_gain_text(setting, method), scores.ABSENT]
  mean = scores.points(gain.mean)
  return [
      html_page.strong(mean) if gain.leaves_out_zero else mean, results_lib.ends_text(gain)
  ]


def _setting_table(results: results_lib.Results, setting: str) -> html_page.Html:
  """Returns the table of a setting, with a row per method."""
  rows = []
  for method in results.methods:
    found = results.interval(setting, method)
    if found is None and method == results_lib.MATCHED:
      continue
    up = results.mean(setting, method, "bytes_up") or 0
    rows.append([
        method_names.method_label(method),
        results_lib.accuracy_text(found),
        scores.ABSENT if found is None else results_lib.ends_text(found, scores.score_text),
        *_gain_cells(results, setting, method, method_names.FEDAVG),
        *_gain_cells(results, setting, method, method_names.FINETUNED),
        scores.text(scores.summarize(results.values(setting, method, "adjusted_rand_index"))),
        scores.score_text(results.mean(setting, method, "num_clusters"), "{:.1f}".format),
        scores.score_text(
            results.mean(setting, method, "client_steps"), cost_text.steps_text
        ),
        scores.score_text(
            results.mean(setting, method, "bytes_down"),
            lambda down: cost_text.bytes_text(down + up),
        ),
    ])
  return html_page.table(
      [
          "method", "mean ± sd", f"{intervals.LEVEL:.0%} interval", "gain", "interval", "gain",
          "interval", "ARI", "clusters", "client steps", "bytes",
      ],
      rows,
      "The clients' mean accuracy, over the repetitions, with intervals that each hold alone; "
      "gains in percentage points, bold where the interval leaves out zero, for all comparisons "
      "of the study together; ARI: adjusted Rand index to the true groups",
      header_groups=[
          ("", 1), ("accuracy", 2), ("over FedAvg", 2), ("over fine-tuned", 2), ("clusters", 2),
          ("cost", 2),
      ],
  )


def _global_table(results: results_lib.Results) -> html_page.Html:
  """Returns the table of the global models: phase 1's, and the means of the methods' models."""
  columns = {
      "global_accuracy": "mean: accuracy", "global_recall": "mean: recall",
      "global_weighted_accuracy": "weighted: accuracy",
      "global_weighted_recall": "weighted: recall",
      "blended_accuracy": "blended: accuracy",
  }
  rows = [
      [
          f"{setting}: {method_names.method_label(method)}",
          *(results_lib.accuracy_text(results.interval(setting, method, c)) for c in columns),
      ]
      for setting in results.settings
      for method in (cells.PRETRAIN, *results.chosen_methods)
  ]
  return html_page.table(
      ["setting and method", *columns.values()], rows,
      "The mean and the weighted mean of the clusters' models, on the global test set; and the "
      "clusters' models blended with their mean, on the clients' test data",
  )


def _failures_table(results: results_lib.Results) -> html_page.Html:
  rows = [
      [
          row["setting"], method_names.method_label(row["method"]), row["seed"],
          "" if row["fold"] is None else row["fold"], row["problem"],
      ]
      for row in results.failures
  ]
  return html_page.table(
      ["setting", "method", "seed", "fold", "why"], rows, "Cells that failed", text_columns=(1, 4)
  )


def write_report(run: finished_run.FinishedRun) -> None:
  """Draws the figures and writes `report.html`, last."""
  results = results_lib.read(run)
  data, config = run.document["data"], results.config
  report_sections.write(run, report_sections.Report(
      title=f"Does grouping clients help? A study on {data['name']}",
      subtitle=(
          f"{data['source']}. {data['num_clients']:,} clients, "
          f"{config.run.pretrain_rounds} + {config.run.cluster_rounds} rounds; "
          f"{results.repetitions_text}. Settings: {', '.join(results.settings)}."
      ),
      verdict=[findings.verdict(results)],
      findings=findings.notes(results),
      warnings=findings.warnings(results),
      notes={},
      sections={
          "Gains": report_sections.write_figures(
              run.path, (*_HEAT_MAPS, *_REPETITIONS), results
          ),
          "Failures": [_failures_table(results)] if results.failures else [],
          **{
              f"{setting}: {settings_lib.SETTINGS[setting].about}": [
                  html_page.paragraph(findings.of_setting(results, setting)),
                  _setting_table(results, setting),
              ]
              for setting in results.settings
          },
          "Accuracy by cost": report_sections.write_figures(run.path, _COSTS, results),
          "Global models": [html_page.details("All settings", _global_table(results))],
      },
      settings=report_sections.settings_section(
          "Settings, data, model and versions",
          {
              "Settings": run.settings, "Data": data, "Model": run.document["model"],
              "Versions": run.versions,
          },
      ),
      files=FILES,
  ))
