"""Draws a finished experiment: figures, and one page that tells it all."""

import os

from experiment_shell import html_page
from experiment_shell import output_folder
from experiment_shell import report_sections
from experiments.kmeans import cells
from experiments.kmeans import figures
from experiments.kmeans import findings
from experiments.kmeans import real_data
from experiments.kmeans import run_folder
from experiments.kmeans import tables

_FILES = {
    output_folder.REPORT: "this page",
    run_folder.FIGURES: "the figures as PNG",
    output_folder.SUMMARY: "all means and deviations",
    run_folder.MEASUREMENTS: "one row per data set, seed and method",
    run_folder.TIMING: "how long a round takes that computes next to nothing",
    output_folder.CONFIG: "all settings, seeds, versions, the data really used",
}

_DRAWN = {
    "regular": (
        report_sections.Figure(
            "regular.png", figures.regular, "Clients' points and scores on the regular grid",
            "The smaller beta, the more a client has of few clusters. A method that can cope "
            "has its three marks together, beside central k-means.",
        ),
    ),
    "noise": (
        report_sections.Figure(
            "noisy_data.png", figures.noisy_data, "Points with more and more noise",
            "At noise 1.5 neighbouring clusters run into each other, and no method can tell "
            "all points apart.",
        ),
        report_sections.Figure(
            "noise.png", figures.noise, "Adjusted Rand index over noise",
            "The grey dashed line is k-means on all points: what can be had.",
        ),
    ),
    "rounds": (
        report_sections.Figure(
            "rounds.png", figures.rounds, "Adjusted Rand index by round",
            "The lighter, the noisier. FKM's server starts afresh in every round, so that "
            "nothing says when it is done; the default ends once its inertia no longer falls.",
        ),
    ),
    "extreme": (
        report_sections.Figure(
            "extreme.png", figures.extreme, "The extreme split",
            "Bars are standard deviations over the seeds: a wide one means that some runs miss "
            "a cluster.",
        ),
    ),
    "real": (
        report_sections.Figure(
            "real.png", figures.real, "Silhouettes on real data",
            "The simplified silhouette is what clients can compute without seeing each other's "
            "points; beside it the full one.",
        ),
    ),
    "sse": (
        report_sections.Figure(
            "sse.png", figures.sse, "Excess of the sum of squared errors",
            "Zero is central k-means. From above: what weighting the children's centroids by "
            "their counts gains, then rounds of Lloyd, then restarts.",
        ),
    ),
}


def _regular_tables(results):
  return [
      html_page.table(
          *tables.ari_rows(results, cells.grid_name(beta, 50, 1.0), tables.regular_paper(beta)),
          f"Regular grid, beta {beta:g}: adjusted Rand index, mean ± sd",
      )
      for beta in cells.BETAS
  ]


def _noise_tables(results):
  return [
      html_page.table(
          *tables.noise_rows(results, points),
          f"{points} points per cluster: pooled adjusted Rand index over noise",
      )
      for points in cells.POINTS
  ]


def _extreme_tables(results):
  return [
      html_page.table(
          *tables.ari_rows(results, cells.extreme_name(noise), tables.extreme_paper(noise)),
          f"Extreme split, noise {noise:g}: adjusted Rand index, mean ± sd",
      )
      for noise in cells.EXTREME_NOISES
  ]


def _real_tables(results):
  return [
      html_page.table(
          *tables.real_rows(results),
          "Real data: silhouettes, inertia, and what is sent: the best restart's rounds, times "
          "the restarts",
      ),
      html_page.table(
          *tables.message_rows(real_data.DIGIT_CLUSTERS, 784),
          "One message of one restart",
      ),
  ]


def _sse_tables(results):
  return [
      html_page.table(
          *tables.sse_rows(results), "Sum of squared errors: percent over central k-means"
      )
  ]


_TABLES = {
    "regular": _regular_tables,
    "noise": _noise_tables,
    "rounds": lambda results: [],
    "extreme": _extreme_tables,
    "real": _real_tables,
    "sse": _sse_tables,
}


def _seeds_text(config):
  first, last = config["seed"], config["seed"] + config["num_seeds"] - 1
  if first == last:
    return f"One seed: {first}"
  joined = "and" if last == first + 1 else "to"
  return f"Mean and standard deviation over the seeds {first} {joined} {last}"


def write_report(path, results, document, timing):
  """Draws the figures and writes report.html, last.

  Args:
    path: The output folder.
    results: `Results`.
    document: What `config.json` holds.
    timing: What `timing.measure_dispatch` returned.
  """
  config = document["config"]
  sections = [
      html_page.section(
          cells.FIGURES[name].title,
          *report_sections.write_figures(path, _DRAWN[name], results),
          *_TABLES[name](results),
      )
      for name in config["figures"]
  ]
  html_page.write_page(
      os.path.join(path, output_folder.REPORT),
      "Federated k-means: the papers' experiments",
      f"{_seeds_text(config)}. Real data: {document['data'].get('real', 'none')}.",
      html_page.section(
          "Summary",
          html_page.paragraph(html_page.strong(findings.verdict(results))),
          *map(html_page.paragraph, findings.sentences(results)),
          html_page.paragraph(
              f"All federated fits ran in TensorFlow Federated, where a round of "
              f"{timing['num_clients']} clients that compute next to nothing took "
              f"{timing['seconds_per_round']:.3f} s on this machine."
          ),
          html_page.note("How to read the numbers, and what is private", *findings.notes()),
      ),
      *sections,
      report_sections.settings_section(
          "Settings, data and versions",
          {"Settings": config, "Data": document["data"], "Versions": document["versions"]},
      ),
      report_sections.files_section(path, _FILES),
  )
