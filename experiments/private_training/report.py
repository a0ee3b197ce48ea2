"""Draws the pages of private clusters: what was released, and what may be published.

The page of what was released is drawn from its folder alone, so it holds nothing but what the
budget has paid for.  That of a simulation is drawn from its folder, too, and nothing on it is
private.  Everything else stays with whoever ran the program.
"""

from __future__ import annotations

import math
from typing import Any, Mapping

from experiment_shell import finished_run
from experiment_shell import html_page
from experiment_shell import output_folder
from experiment_shell import report_sections
from experiment_shell import scores
from experiments.grouping_study import intervals
from experiments.kmeans import privacy_box
from experiments.private_training import figures
from experiments.private_training import results
from fl_clustering.points import privacy as privacy_lib

_FALSE_ALARMS = 0.01

_FIGURES = (
    report_sections.Figure(
        "budget.png", figures.budget, "The parts of the privacy budget",
        "The squares of mu add up, so these are shares of mu². They were fixed before the first "
        "question, whatever the data.",
    ),
    report_sections.Figure(
        "rounds.png", figures.rounds, "Sizes of the clusters and clip norm by round",
        "Level lines at the end mean that the clients have settled on their clusters. The clip "
        "norm follows the median of the updates' norms. In a round of revival, the smallest "
        "cluster had hardly any clients and took over one half of the largest.",
    ),
)
FILES_RELEASED = {
    output_folder.REPORT: "this page",
    output_folder.SUMMARY: "the guarantee, noisy sizes and accuracies",
    results.MODELS: "the clusters' models",
    results.LEDGER: "every release, with its noise and its cost",
    output_folder.CONFIG: "the settings",
    "figures": "the figures as PNG",
}
_FIGURES_OF_SIMULATION = (
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
_FILES_OF_SIMULATION = {
    output_folder.REPORT: "this page",
    output_folder.SUMMARY: "NOT private: means, intervals and comparisons",
    results.SIMULATED: "NOT private: a row for each method, epsilon and seed",
    "figures": "NOT private: the figures as PNG",
}
# Of the folder around both.
FILES = {
    output_folder.REPORT: "NOT for publication: this page",
    "journal": "every release and its answer, for --resume",
    results.SIMULATION: "NOT private: exact and fine-tuned accuracies, and comparisons of methods",
    output_folder.SUMMARY: "NOT for publication: the summaries of both folders",
    output_folder.CONFIG: "NOT for publication: all settings, versions, the data's names",
}


def _privacy_notes(released: Mapping[str, Any]) -> list[html_page.Html | str]:
  """Returns the privacy box: who is protected, from whom, and how much."""
  privacy, num_clients = released["privacy"], released["data"]["num_clients"]
  replaced = privacy["replacing_one_client"]
  labelled = privacy_box.labelled
  guaranteed = (
      "What is guaranteed" if privacy["is_private"] else "What secure noise would guarantee"
  )
  found = [
      labelled(
          guaranteed,
          f"All of this folder together is ({privacy['epsilon']:g}, {privacy['delta']:g})-"
          f"differentially private for {privacy['unit']}: grouping, training and report. "
          "Neighbouring runs differ in the messages of one client, which are zeros in one of them "
          f"({privacy['neighboring_relation']}). The number of clients and who takes part are not "
          "hidden.",
      ),
      labelled(
          "Replaced data",
          "For a client whose data are replaced by others, and not left out, epsilon is "
          f"{replaced['epsilon']:.3g} at delta {replaced['delta']:g}.",
      ),
      labelled(
          "What that means",
          "A test for whether a client's data were used, with "
          f"{_FALSE_ALARMS:.0%} false alarms, finds at most "
          f"{results.detected(privacy['mu'], _FALSE_ALARMS):.1%} of the clients whose data were "
          f"(mu = {privacy['mu']:.3g}).",
      ),
      labelled("Who is trusted", privacy_box.trust_text(privacy["trust"])),
  ]
  if privacy["trust"] == privacy_lib.NONE:
    least = privacy["min_clients"] or num_clients
    shares = (
        f"The guarantee holds as long as at least {least} of the {num_clients:,} clients add their "
        "share to every release and keep it secret."
    )
    if least < num_clients:
      shares += (
          f" The ledger states the noise of {least} shares; all {num_clients:,} add up to more."
      )
    found.append(labelled("Shares of the noise", shares))
  return [
      *found,
      f"The noise was {privacy['noise']}.",
      labelled(
          "Not covered",
          "The guarantee is for one run. Whoever chooses the number of clusters, of rounds or "
          "another setting by several runs on the same clients spends the budget of each.",
      ),
  ]


def _released_warnings(released: Mapping[str, Any]) -> list[tuple[str, str]]:
  privacy = released["privacy"]
  found = []
  if not privacy["is_private"]:
    found.append((
        "Nothing here is private",
        f"The noise was {privacy['noise']}. Whoever can draw it again can take it off, so the "
        "guarantee below does not hold.",
    ))
  found += [("The privacy budget protects little", text) for text in privacy["warnings"]]
  if released["lost"]:
    found.append((
        "Answers were lost",
        f"The run was interrupted while it waited for {report_sections.listed(released['lost'])}. "
        "What was asked is charged to the budget and not asked again; the run went on without "
        "the answers.",
    ))
  return found


def _clusters_table(released: Mapping[str, Any]) -> html_page.Html:
  rows = [
      [
          name, scores.score_text(found["num_clients"], "{:.1f}".format),
          scores.score_text(found["num_clients_std"], "{:.1f}".format),
          results.accuracy_text(found), scores.score_text(found["accuracy_std"]),
      ]
      for name, found in results.report_rows(released)
  ]
  return html_page.table(
      ["cluster", "clients", "sd of noise", "accuracy", "sd of noise"], rows,
      "Noisy numbers of the clients with rows for training and for testing, and their noisy mean "
      f"accuracy on these; {results.UNKNOWN}: the noise has a standard deviation above "
      f"{results.LARGEST_STD:g}",
  )


def _ledger_table(run: finished_run.FinishedRun, mu: float) -> html_page.Html:
  releases = run.rows(results.LEDGER, ("release",))
  rows = [
      [
          release["release"], f"{release['sensitivity']:.5g}", f"{release['std']:.5g}",
          f"{release['mu']:.5g}", "yes" if release["answered"] else "no",
      ]
      for release in releases
  ]
  spent = math.hypot(*(release["mu"] for release in releases))
  rows.append(["all together", "", "", f"{spent:.5g}", ""])
  return html_page.details(
      f"{len(releases)} releases, mu {spent:.4g} of {mu:.4g}",
      html_page.table(
          ["release", "sensitivity", "sd of noise", "mu", "answered"], rows,
          "Everything that was asked of the clients",
      ),
  )


def write_released(folder: str) -> None:
  """Draws the page of what was released, from its folder alone."""
  run = finished_run.FinishedRun(folder)
  released = run.summary
  privacy, data, plan = released["privacy"], released["data"], released["plan"]
  found = released["all_clients"]
  accuracy = results.accuracy_text(found)
  if accuracy == scores.ABSENT:
    verdict = "The report was lost, so there is no accuracy."
  else:
    verdict = (
        f"Mean accuracy of all clients with test data: {accuracy}, at epsilon "
        f"{privacy['epsilon']:g} and delta {privacy['delta']:g}."
    )
    if found["accuracy_std"] is not None:
      verdict += f" The noise on it has a standard deviation of {found['accuracy_std']:.3f}."
  report_sections.write(run, report_sections.Report(
      title=f"{'' if privacy['is_private'] else 'NOT private: '}Private clusters of "
      f"{data['num_clients']:,} clients",
      subtitle=results.data_line(data),
      verdict=[verdict],
      findings=[
          f"The planning number, known before the run: {plan['relative_noise']:.2f}. "
          f"{plan['advice']} {results.CAVEAT}",
      ],
      warnings=_released_warnings(released),
      notes={"Privacy": _privacy_notes(released)},
      sections={
          "Clusters": [_clusters_table(released)],
          "Figures": report_sections.write_figures(folder, _FIGURES, released),
          "What was released": [_ledger_table(run, privacy["mu"])],
      },
      settings=report_sections.settings_section(
          "All settings", {"Settings": run.settings}
      ),
      files=FILES_RELEASED,
  ))


def _against_finetuned(simulation: Mapping[str, Any]) -> str:
  """Returns one sentence: whether clusters or fine-tuning alone are better."""
  num_pairs = sum(
      found["difference"]["num_seeds"]
      for found in results.comparisons(simulation, results.DP_FEDAVG)
  )
  num_lost = len(simulation["losses"])
  if results.OURS not in simulation["methods"]:
    return "With one cluster, private clusters are DP-FedAvg: there is nothing to compare."
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
      f"Brackets: 95% interval of the mean over {intervals.LEAST_COUNT} seeds or more (Student's "
      "t, each interval by itself; it is about other seeds with these data). Parentheses: the "
      "range of two seeds. A single seed tells nothing about chance."
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
          "Figures": report_sections.write_figures(folder, _FIGURES_OF_SIMULATION, simulation),
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
      files=_FILES_OF_SIMULATION,
  ))


def result_text(finished: finished_run.FinishedRun) -> str:
  """Returns the lines that the program prints last."""
  return results.text(finished.summary)


def write_report(finished: finished_run.FinishedRun) -> None:
  """Draws the page of each folder, and last the page that says which of them may be published."""
  released, simulation = finished.summary["released"], finished.summary["simulation"]
  data = released["data"]
  write_released(finished.join(results.RELEASED))
  may_be = (
      "may be published" if released["privacy"]["is_private"]
      else "NOT private, as its noise can be drawn again"
  )
  pages = [html_page.joined(
      html_page.link(f"{results.RELEASED}/{output_folder.REPORT}", "What was released"),
      f"with all of its folder: {may_be}.",
  )]
  if simulation is not None:
    write_simulation(finished.join(results.SIMULATION))
    pages.append(html_page.joined(
        html_page.link(f"{results.SIMULATION}/{output_folder.REPORT}", "The simulation"),
        f"with all of its folder: {simulation['note']}",
    ))
  report_sections.write(finished, report_sections.Report(
      title="Private clusters: what may be published",
      subtitle=results.data_line(data),
      verdict=[],
      findings=pages,
      warnings=finished.warnings,
      notes={},
      sections={},
      settings=report_sections.settings_section(
          "Settings and versions", {"Settings": finished.settings, "Versions": finished.versions}
      ),
      files={results.RELEASED: f"{may_be}: models, ledger, noisy numbers and their page", **FILES},
  ))
