"""Draws a finished multi-view experiment: figures, and one page with findings and tables."""

from __future__ import annotations

from typing import Any, Collection, Mapping

from experiment_shell import finished_run
from experiment_shell import html_page
from experiment_shell import output_folder
from experiment_shell import report_sections
from experiments.multiview import cells
from experiments.multiview import config as config_lib
from experiments.multiview import data as data_lib
from experiments.multiview import figures
from experiments.multiview import results as results_lib
from experiments.multiview import simulated_dha
from experiments.own_tables import cluster_profiles
from fl_clustering.points import privacy as privacy_lib

_TITLE = "Federated multi-view k-means"
# Smaller differences of means say nothing.
_NOTHING = 0.005
# A score from here on is shown as 1.000.
_PERFECT = 0.9995

FILES = {
    output_folder.REPORT: "this page",
    "figures": "the figures as PNG",
    output_folder.SUMMARY: "the tables as numbers",
    config_lib.MEASUREMENTS: "one row per data set, partition, seed and method: scores, rounds, "
    "view weights, objective by round, points of each class in each cluster",
    config_lib.CLUSTERS: "the cluster of each of your rows, by the model",
    config_lib.CENTROIDS: "the model's centroids in the data's units, with their numbers of rows",
    config_lib.PROFILES: "mean and spread of every column in every cluster",
    config_lib.MODEL: "the model (equal weights, first seed), for experiments:predict and "
    "load_model",
    output_folder.CONFIG: "all settings, seeds, versions, the data actually used",
}


_PRIVACY_NOTES = (
    "In each round, a client sends integers: sums over its points for every cluster and view. "
    "One federated round equals exactly one iteration over all points. The clients' integers "
    "are added up by a secure sum, which one machine can only simulate.",
    "The first centers and the columns' means and deviations come from such totals, too. No "
    f"client's own mean leaves it. {privacy_lib.EXACT_TOTALS}",
    "The method can add noise to the totals, with a stated (epsilon, delta) per point. This "
    "experiment does not use it.",
)


def _compared(ours: float, other: float, what: str) -> str:
  difference = ours - other
  if abs(difference) < _NOTHING:
    return f"level with {what} ({other:.3f})"
  word = "above" if difference > 0 else "below"
  return f"{abs(difference):.3f} {word} {what} ({other:.3f})"


def _warnings(run: finished_run.FinishedRun) -> list[tuple[str, ...]]:
  model = run.summary.get(config_lib.MODEL)  # Only of the user's own data.
  few = model and privacy_lib.few_points_warnings(
      model["num_centers_on_few_points"], model["num_clusters"]
  )
  return [*(few or ()), *run.warnings]


def verdict(results: results_lib.Results) -> str | None:
  """Returns one sentence on a data set with known classes; None without."""
  if not results.has_classes:
    return None
  scores = [results.mean("equal", partition, "ari") for partition in results.partitions]
  reached = " and ".join(
      f"{score:.3f} ({partition})" for score, partition in zip(scores, results.partitions)
  )
  last = results.partitions[-1]
  others = [
      _compared(scores[-1], results.mean(method, last, "ari"), what)
      for method, what in (
          ("concatenated", "k-means on all points and views in one place"),
          ("single_view", f"the best single view, {results.best_view()}"),
          ("local_only", "every client alone"),
          ("mvkm", "the paper's view weights"),
      )
  ]
  where = "" if last == cells.AS_GIVEN else f"with {last} clients "
  return (
      f"{results.name}: federated with equal weights reaches ARI {reached}; {where}that is "
      f"{', '.join(others[:-1])} and {others[-1]}."
  )


def misplaced_weight(results: results_lib.Results) -> str | None:
  """Returns one sentence if the paper's rule prefers a view worse than the best; else None."""
  best = results.best_view()
  if best is None:
    return None
  weights = results.view_weights("mvkm", results.partitions[-1])
  favourite = max(zip(weights, results.view_names), key=lambda pair: pair[0].mean)[1]
  most, reached = (results.single_view(view, "nmi") for view in (best, favourite))
  if most is None or reached is None or most.mean - reached.mean < _NOTHING:
    return None
  return (
      f"{results.name}: the paper's rule gives most weight to {favourite}, not to the best view, "
      f"{best}. It rewards what is easy to compress, not what shows the classes."
  )


def separation(results: results_lib.Results) -> str:
  """Returns one or two sentences on what plain k-means finds in the tutorial's data."""
  score = results.mean("central_kmeans", cells.AS_GIVEN, "ari")
  if score < _PERFECT:
    return (
        f"{results.name}: plain k-means on the pooled points reaches ARI {score:.3f}, so it "
        "does not find all clusters."
    )
  return (
      f"{results.name}: the clusters are so far apart that plain k-means on the pooled points "
      "finds them all. These data can't tell a good method from a bad one, and our score on them "
      "proves nothing."
  )


def _findings(results: results_lib.Results) -> list[str]:
  if results.name == data_lib.DEMONSTRATION:
    return [separation(results)]
  found = (verdict(results), misplaced_weight(results))
  return [sentence for sentence in found if sentence is not None]


def _figures(results: results_lib.Results) -> list[report_sections.Figure]:
  weights = "A view of small weight hardly counts."
  if results.has_classes:
    weights = (
        "A rule that helps gives weight to views with a high score alone (numbers on the right)."
    )
  return [
      report_sections.Figure(
          f"{results.name}_convergence.png", figures.convergence, "Objective by round",
          "Every line is one fit and ends with its last round: the steeper the line, the fewer "
          "rounds are needed.",
      ),
      report_sections.Figure(
          f"{results.name}_view_weights.png", figures.view_weights, "View weights by rule", weights
      ),
      report_sections.Figure(
          f"{results.name}_confusion.png", figures.confusion, "Classes against clusters",
          "A good clustering has all points of a class in one cluster: a dark diagonal and "
          "nothing beside it.",
      ),
  ]


def _dataset_blocks(
    run: finished_run.FinishedRun, results: results_lib.Results
) -> list[html_page.Html]:
  """Returns scores, figures and views of one data set of a run."""
  groups, header, rows = results_lib.method_table(results)
  if rows:
    scores = html_page.table(
        header, rows, "Scores against the known classes, mean and deviation over the seeds; "
        "'central' methods see all points, which no federated method may",
        header_groups=groups, text_columns=(1,),
    )
  else:
    scores = html_page.table(
        *results_lib.unscored_table(results), "Classes are not known, so nothing can be scored"
    )
  views = html_page.table(
      *results_lib.view_table(results),
      f"The views: {'k-means on each alone, and ' if rows else ''}their weights by the rules that "
      "learn them; equal weights are one over the number of views"
  )
  pictures = report_sections.write_figures(run.path, _figures(results), results)
  return [html_page.paragraph(results.source), scores, *pictures, views]


def _demonstration_blocks(results: results_lib.Results) -> list[html_page.Html]:
  return [
      html_page.table(
          *results_lib.demonstration_table(results), "Claimed: printed in the tutorial, of its own "
          "local and federated programs. The first two of the three sites share points"
      ),
  ]


def _model_blocks(run: finished_run.FinishedRun) -> list[html_page.Html]:
  """Returns what there is to say of the saved model."""
  table = run.rows(config_lib.PROFILES, ("feature",))
  about = html_page.paragraph(
      f"The folder {config_lib.MODEL} has one fit: equal weights, seed {run.settings['seed']}. "
      f"{config_lib.CLUSTERS}, {config_lib.CENTROIDS}, {config_lib.PROFILES} and this figure are "
      "of the same fit. "
      f"{cluster_profiles.about(run.settings)}"
  )
  pictures = report_sections.write_figures(run.path, (cluster_profiles.FIGURE,), table)
  return [about, *pictures]


def _settings_section(run: finished_run.FinishedRun) -> html_page.Html:
  """Returns the section of settings, data and versions."""
  settings = {name: value for name, value in run.settings.items() if name != "schemas"}
  return report_sections.settings_section(
      "Settings, data and versions",
      {
          "Settings": settings,
          **{f"Data: {name}": one for name, one in run.document["data"].items()},
          "Versions": run.versions,
      },
  )


def _sections(
    run: finished_run.FinishedRun, results: Mapping[str, results_lib.Results]
) -> dict[str, list[html_page.Html]]:
  sections = {
      name: _dataset_blocks(run, one)
      for name, one in results.items() if name != data_lib.DEMONSTRATION
  }
  if data_lib.DEMONSTRATION in results:
    title = "The tutorial's simulated DHA: its claims and our measurements"
    sections[title] = _demonstration_blocks(results[data_lib.DEMONSTRATION])
  if run.settings["datasets"] == [data_lib.OWN]:
    sections["Clusters of the saved model"] = _model_blocks(run)
  return sections


def _setting(settings: Mapping[str, Any], names: Collection[str]) -> str:
  """Returns the clients and the seeds of data sets, in sentences."""
  num_seeds, found = settings["num_seeds"], []
  if set(names) != {data_lib.DEMONSTRATION}:
    clients = "Clients: the sites as given"
    if settings["datasets"] != [data_lib.OWN]:
      skew = f"Dirichlet({settings['dirichlet_alpha']:g}) label skew"
      clients = f"{settings['num_clients']} clients, IID and by {skew}"
    found.append(f"{clients}. Seeds: {num_seeds} from {settings['seed']}.")
  if data_lib.DEMONSTRATION in names:
    found.append(
        f"The tutorial's data: its three sites. Seeds: {num_seeds} from "
        f"{simulated_dha.SOURCE_SEED}."
    )
  return " ".join(found)


def write_report(run: finished_run.FinishedRun) -> None:
  """Draws the figures and writes report.html, last."""
  results, settings = results_lib.read(run), run.settings
  sentences = [sentence for one in results.values() for sentence in _findings(one)]
  if not sentences:
    sentences = ["Classes are not known for these points: nothing is scored."]
  left_out = [(f"Left out: {name}", why) for name, why in run.document["left_out"].items()]
  report_sections.write(run, report_sections.Report(
      title=_TITLE,
      subtitle=f"{', '.join(results)}. {_setting(settings, results)}",
      verdict=sentences[:1],
      findings=sentences[1:],
      warnings=[*_warnings(run), *left_out],
      notes={"What the server sees": _PRIVACY_NOTES},
      sections=_sections(run, results),
      settings=_settings_section(run),
      files=FILES,
  ))


def result_text(run: finished_run.FinishedRun) -> str:
  """Returns the table for the terminal."""
  return results_lib.text(results_lib.read(run))
