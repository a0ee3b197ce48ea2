"""Draws the papers' experiments from a finished run: figures, and one page."""

from __future__ import annotations

from typing import Any, Callable, Mapping

from experiment_shell import finished_run
from experiment_shell import html_page
from experiment_shell import output_folder
from experiment_shell import report_sections
from experiment_shell import scores as scores_lib
from experiments.kmeans import cells
from experiments.kmeans import config as config_lib
from experiments.kmeans import data
from experiments.kmeans import figures
from experiments.kmeans import methods
from experiments.kmeans import privacy_box
from experiments.kmeans import results
from fl_clustering.kmeans import kmeans_config
from fl_clustering.points import privacy as privacy_lib

# A fit this much above central k-means has missed clusters, in percent of the inertia.
_MISSED = 1.0

FILES = {
    output_folder.REPORT: "this page",
    "figures": "the figures as PNG",
    output_folder.SUMMARY: "all means and standard deviations",
    config_lib.MEASUREMENTS: "one row per data set, seed and method",
    config_lib.TIMING: "how long a round takes in which clients compute next to nothing",
    output_folder.CONFIG: "all settings, seeds, versions, the data really used",
}

_FIGURES = {
    "regular": [report_sections.Figure(
        "regular.png", figures.regular, "Clients' points and scores on the regular grid",
        "The smaller beta, the fewer clusters a client has. A method that copes has its "
        "three marks close together, and close to central k-means.",
    )],
    "noise": [
        report_sections.Figure(
            "noisy_data.png", figures.noisy_data, "Points with more and more noise",
            "At noise 1.5 neighbouring clusters run into each other, and no method can tell "
            "all points apart.",
        ),
        report_sections.Figure(
            "noise.png", figures.noise, "Adjusted Rand index over noise",
            "The grey dashed line is k-means on all points, the best that can be expected.",
        ),
    ],
    "rounds": [report_sections.Figure(
        "rounds.png", figures.rounds, "Adjusted Rand index by round",
        "The lighter the line, the noisier the data. FKM's server starts afresh in every "
        "round, so nothing tells it when to stop. The default sees totals only, so it is the "
        "same for every beta. It splits one cluster into 48, merges them to 16, and then adds "
        "and drops some in turns; rounds with more clusters score lower. It stops once its "
        "inertia no longer falls.",
    )],
    "extreme": [report_sections.Figure(
        "extreme.png", figures.extreme, "The extreme split",
        "Bars are standard deviations over the seeds. A wide bar means that some runs miss "
        "a cluster.",
    )],
    "real": [report_sections.Figure(
        "real.png", figures.real, "Silhouettes on real data",
        "Clients can compute the simplified silhouette without seeing each other's points; "
        "the full one is shown beside it.",
    )],
    "sse": [report_sections.Figure(
        "sse.png", figures.sse, "Excess of the sum of squared errors",
        "Zero is central k-means. Read from the top: what is gained by weighting the "
        "children's centroids by their counts, then by rounds of Lloyd, then by restarts.",
    )],
    "privacy": [report_sections.Figure(
        "privacy.png", figures.privacy, "Loss of private fits over epsilon",
        "The scale is logarithmic: zero, where the default without privacy is, would be "
        "infinitely far down. Central private k-means (dp_clustering's private_clustering) has "
        "no line of its own: with the same noise it finds the same centers as private sums "
        "whose noise the server adds, bit for bit. The LSH tree gains nothing from a larger "
        "epsilon, because in two dimensions its hyperplanes through the origin tell directions "
        "apart and not distances.",
    )],
}

# Of each figure, with their captions.
_TABLES: dict[str, Callable[[scores_lib.Scores], list[tuple[results.Table, str]]]] = {
    "regular": lambda scores: [
        (results.ari_rows(scores, data.grid_name(beta, 50, 1.0), results.published_regular(beta)),
         f"Regular grid, beta {beta:g}: adjusted Rand index, mean ± sd")
        for beta in data.BETAS
    ],
    "noise": lambda scores: [
        (results.noise_rows(scores, points),
         f"{points} points per cluster: pooled adjusted Rand index over noise")
        for points in data.POINTS
    ],
    "rounds": lambda scores: [],
    "extreme": lambda scores: [
        (results.ari_rows(scores, data.extreme_name(noise), results.published_extreme(noise)),
         f"Extreme split, noise {noise:g}: adjusted Rand index, mean ± sd")
        for noise in data.EXTREME_NOISES
    ],
    "real": lambda scores: [
        (results.real_rows(scores),
         "Real data: silhouettes, inertia, and what is sent (the best restart's rounds, times the "
         "number of restarts)"),
        (results.message_rows(data.DIGIT_CLUSTERS, 784), "One message of one restart"),
    ],
    "sse": lambda scores: [
        (results.sse_rows(scores), "Sum of squared errors: percent over central k-means"),
    ],
    "privacy": lambda scores: [
        (results.privacy_rows(scores, noise),
         f"Noise {noise:g}: inertia over that of the true centers, by epsilon, mean ± sd")
        for noise in data.PRIVATE_NOISES
    ],
}

# Below the tables of a figure.
_REMARKS = {
    "privacy": f"The guarantee is for one point of one client, delta {methods.DELTA:g}, for a "
    f"whole fit. Points farther than {data.PRIVATE_RADIUS:g} from the origin are moved to that "
    "distance. The noise is secure, so it can't be repeated: another run has slightly other "
    "losses. The losses themselves are exact and NOT private; they can be shown because the "
    "points are made up.",
}


def _synthetic(scores: scores_lib.Scores) -> list[str]:
  names = [
      data.grid_name(beta, points, noise)
      for beta in data.BETAS for points in data.POINTS for noise in data.NOISES
  ]
  names += map(data.extreme_name, data.EXTREME_NOISES)
  return [name for name in names if scores.has(name, methods.DEFAULT)]


def _missed(scores: scores_lib.Scores, method: str) -> tuple[int, int, float]:
  """Returns how many fits missed clusters, of how many, and the worst excess in percent."""
  found = [
      excess for name in _synthetic(scores)
      for excess in scores.values(results.EXCESS, name, method)
  ]
  return sum(excess > _MISSED for excess in found), len(found), max(found, default=0.0)


def verdict(scores: scores_lib.Scores) -> str:
  """Returns the first sentence of the report."""
  if not _synthetic(scores):
    return "The tables of the report show how close federated k-means comes to central k-means."
  missed, total, worst = _missed(scores, methods.DEFAULT)
  return (
      f"{missed or 'None'} of {total} default fits on the synthetic data exceeded the inertia of "
      f"central k-means with ten restarts by more than {_MISSED:g}% (the worst: {worst:+.2f}%)."
  )


def others_missed(scores: scores_lib.Scores) -> str | None:
  """Returns the sentence on the other methods, or None if none was measured."""
  parts = []
  for method in ("fkm_lloyd", "fkm", "kfed"):
    missed, total, _ = _missed(scores, method)
    if total:
      parts.append(f"{methods.METHODS[method].label} in {missed} of {total} fits")
  return f"Others exceeded that limit: {'; '.join(parts)}." if parts else None


_NOTES = (
    "The reason to federate is privacy, not traffic: with many columns and few points per "
    "client, a few rounds send more than the points themselves.",
    "The paper averages the clients' own adjusted Rand indices, and pools the points for the "
    "central method; both are shown. Differences below 0.005 are noise: compare the inertia.",
    "The synthetic data have five clients, as in the paper's figures (its text says four). Points "
    "that no client claims go to the nearest one: 94% of them at beta 0.1, 55% at 1 and 1% at 10.",
)


def _privacy_notes() -> list[html_page.Html | str]:
  """Returns for every algorithm what leaves a client."""
  private = [
      privacy_box.labelled(
          report_sections.capitalized(kind.label),
          "Totals as for the default, but with noise: (epsilon, delta)-differential privacy for "
          f"one point of one client, for a whole fit. {privacy_box.trust_text(key)}",
      )
      for key, kind in methods.PRIVATE.items() if key in privacy_lib.TRUST
  ]
  exact = [
      privacy_box.labelled(
          methods.METHODS[name].label,
          privacy_box.leaves_client(name, getattr(algorithm, "min_count", None)),
      )
      for name, algorithm in kmeans_config.ALGORITHMS.items()
  ]
  return [
      exact[0], *private, *exact[1:],
      "One machine plays the server and the clients here: messages, modulus and noise are real, "
      "the secrecy of a secure sum is not.",
  ]


def _seeds_text(config: Mapping[str, Any]) -> str:
  first, last = config["seed"], config["seed"] + config["num_seeds"] - 1
  if first == last:
    return f"One seed: {first}"
  joined = "and" if last == first + 1 else "to"
  return f"Mean and standard deviation over the seeds {first} {joined} {last}"


def _blocks(
    finished: finished_run.FinishedRun, scores: scores_lib.Scores, name: str
) -> list[html_page.Html]:
  """Returns the blocks of one of `cells.FIGURES`."""
  remark = _REMARKS.get(name)
  return [
      *report_sections.write_figures(finished.path, _FIGURES[name], scores),
      *(html_page.table(*table, caption) for table, caption in _TABLES[name](scores)),
      *([html_page.paragraph(remark, quiet=True)] if remark else []),
  ]


def write_report(finished: finished_run.FinishedRun) -> None:
  """Draws the figures and writes the page, last."""
  scores, document = results.read(finished), finished.document
  others, timing = others_missed(scores), finished.json(config_lib.TIMING)
  report_sections.write(finished, report_sections.Report(
      title="Federated k-means: the papers' experiments",
      subtitle=f"{_seeds_text(finished.settings)}. Real data: "
      f"{document['data'].get('real', 'none')}.",
      verdict=[verdict(scores)],
      findings=[
          *([others] if others else []),
          "All federated fits but those of FKM as printed ran in TensorFlow Federated. A round in "
          f"which {timing['num_clients']} clients compute next to nothing took "
          f"{timing['seconds_per_round']:.3f} s on the machine that ran them.",
      ],
      warnings=finished.warnings,
      notes={"What leaves a client": _privacy_notes(), "How to read the numbers": _NOTES},
      sections={
          cells.FIGURES[name].title: _blocks(finished, scores, name)
          for name in finished.settings["figures"]
      },
      settings=report_sections.settings_section(
          "Settings, data and versions",
          {"Settings": finished.settings, "Data": document["data"], "Versions": finished.versions},
      ),
      files=FILES,
  ))


def result_text(finished: finished_run.FinishedRun) -> str:
  """Returns the verdict, which the program prints last."""
  return verdict(results.read(finished))
