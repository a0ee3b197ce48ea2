"""Draws a finished multi-view experiment: figures, and one page that tells it all."""

import dataclasses
import os

from experiment_shell import html_page
from experiment_shell import report_sections
from experiments.multiview import config as config_lib
from experiments.multiview import demonstration
from experiments.multiview import figures
from experiments.multiview import findings
from experiments.multiview import methods
from experiments.multiview import run_folder
from experiments.multiview import summary
from experiments.multiview import tables

_FILES = {
    "report.html": "this page",
    run_folder.FIGURES: "the figures as PNG",
    "summary.json": "the tables as numbers",
    run_folder.MEASUREMENTS: "one row per data set, partition, seed and method: scores, rounds, "
    "view weights, objective by round, points of each class in each cluster",
    run_folder.CLUSTERS: "your points' clusters, with equal weights and the first seed",
    "config.json": "all settings, seeds, versions, the data really used",
}


def _figures(name):
  """Returns the figures of one data set."""
  return (
      report_sections.Figure(
          f"{name}_convergence.png", figures.convergence, "Objective by round",
          "Every line is one fit and ends with its last round: the steeper, the fewer rounds "
          "are needed.",
      ),
      report_sections.Figure(
          f"{name}_view_weights.png", figures.view_weights, "View weights by rule",
          "A rule that helps gives weight to views with a high score alone (numbers on the "
          "right).",
      ),
      report_sections.Figure(
          f"{name}_confusion.png", figures.confusion, "Classes against clusters",
          "A good clustering has all points of a class in one cluster: a dark diagonal and "
          "nothing beside it.",
      ),
  )


def _dataset_section(path, one, results):
  groups, header, rows = tables.method_rows(results)
  if rows:
    scores = html_page.table(
        header, rows, "Scores against the known classes, mean and deviation over the seeds; "
        "'central' methods see all points, which no federated method may",
        header_groups=groups, text_columns=(1,),
    )
  else:
    scores = html_page.table(
        *tables.unscored_rows(results), "Classes are not known, so nothing can be scored"
    )
  header, rows = tables.view_rows(results, list(one.views))
  views = html_page.table(
      header, rows, "The views: k-means on each alone, and their weights by the rules that learn "
      "them; equal weights are one over the number of views"
  )
  return html_page.section(
      one.name, html_page.paragraph(one.source), scores,
      *report_sections.write_figures(path, _figures(one.name), one, results), views,
  )


def _demonstration_section(results):
  header, rows = tables.demonstration_rows(results)
  return html_page.section(
      "The tutorial's simulated DHA, its claims and what comes out",
      html_page.table(
          header, rows, "Claimed: printed in the tutorial. The first two of the three sites share "
          "points; scores are over all sites' points, as the tutorial has them"
      ),
      *map(html_page.paragraph, findings.demonstration_sentences(results)),
  )


def _summary_section(loaded, results):
  sentences = []
  for name, one in loaded.data.items():
    sentences.append(findings.verdict(name, results[name]))
    sentences.append(findings.weights_sentence(name, results[name], list(one.views)))
  sentences = [sentence for sentence in sentences if sentence]
  if not sentences:
    sentences = ["Classes are not known for these points: nothing is scored."]
  return html_page.section(
      "Summary",
      html_page.paragraph(html_page.strong(sentences[0])),
      *map(html_page.paragraph, sentences[1:]),
      *(html_page.warning(f"Left out: {name}", reason) for name, reason in loaded.left_out.items()),
      html_page.note("What the server sees", *findings.privacy_notes()),
  )


def summary_json(loaded, rows):
  """Returns all scores as numbers: by data set, method and partition."""
  found = {}
  for name in loaded.names:
    results = summary.Results(rows, name)
    table = demonstration.ROWS if name == config_lib.DEMONSTRATION else methods.METHODS
    found[name] = {"seeds": results.seeds, "best_view": results.best_view()}
    for method in table:
      found[name][method] = {
          partition: {
              quantity: score and dataclasses.asdict(score)
              for quantity in ("nmi", "ari", "rounds")
              for score in [results.score(method, partition, quantity)]
          }
          for partition in results.partitions
      }
  return found


def write_report(path, loaded, rows, document):
  """Draws the figures and writes report.html, last.

  Args:
    path: The output folder.
    loaded: `LoadedData`.
    rows: The study's rows.
    document: What `config.json` holds.
  """
  results = {name: summary.Results(rows, name) for name in loaded.names}
  sections = [_dataset_section(path, one, results[name]) for name, one in loaded.data.items()]
  if loaded.with_demonstration:
    sections.append(_demonstration_section(results[config_lib.DEMONSTRATION]))
  config = document["config"]
  if config["datasets"] == [config_lib.SITES]:
    clients = "Clients: the sites as given."
  else:
    clients = (
        f"{config['num_clients']} clients, IID and by Dirichlet({config['dirichlet_alpha']:g}) "
        "label skew."
    )
  html_page.write_page(
      os.path.join(path, "report.html"),
      "Federated multi-view k-means",
      f"{', '.join(loaded.names)}. {clients} Seeds: {config['num_seeds']} from {config['seed']}.",
      _summary_section(loaded, results),
      *sections,
      report_sections.settings_section(
          "Settings, data and versions",
          {
              "Settings": config,
              **{f"Data: {name}": one for name, one in document["data"].items()},
              "Versions": document["versions"],
          },
      ),
      report_sections.files_section(path, _FILES),
  )
