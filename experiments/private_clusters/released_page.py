"""The page of what was released, drawn from its folder alone.

So it holds nothing but what the budget has paid for.  Everything else stays with whoever ran the
program.
"""

from __future__ import annotations

import math
import statistics
from typing import Any, Mapping

import pandas as pd

from experiment_shell import finished_run
from experiment_shell import output_folder
from experiment_shell import tidy_experiment
from experiment_shell import tidy_report
from experiments.private_clusters import figures
from experiments.private_clusters import released
from fl_clustering.points import privacy as privacy_lib
from fl_clustering.private_clusters import plan as plan_lib

# An accuracy whose noise has a larger standard deviation is unknown.
_LARGEST_STD = 0.2
_FALSE_ALARMS = 0.01

FILES = {
    output_folder.REPORT: "this page",
    output_folder.SUMMARY: "the guarantee",
    released.CLUSTERS: "noisy sizes and accuracies",
    released.ROUNDS: "noisy sizes and clip norms by round",
    released.MODELS: "the clusters' models",
    released.LEDGER: "every release, with its noise and its cost",
    output_folder.CONFIG: "the settings",
    tidy_experiment.FIGURES: "the figures as PNG",
}
CAVEAT = (
    "The planning number knows nothing of label skew: where every client has few labels, a small "
    "planning number does not promise a small loss."
)
CLUSTERS = tidy_experiment.Table(
    "clusters", "Clusters",
    "Noisy numbers of the clients with rows for training and for testing, and their noisy mean "
    "accuracy on these, each with the standard deviation of its noise. Unknown: the noise has one "
    f"above {_LARGEST_STD:g}. Without numbers: the answer was lost.",
    {
        "cluster": "{}", "clients": "{:.1f}", "sd of clients": "{:.1f}", "accuracy": "{:.3f}",
        "sd of accuracy": "{:.3f}",
    },
    printed=True,
)
_TABLES = (
    CLUSTERS,
    tidy_experiment.Table(
        "budget", "The parts of the budget",
        "The squares of mu add up, so these are shares of its square. They were fixed before the "
        "first question, whatever the data.",
        {"part": "{}", "share": "{:.0%}"},
    ),
    tidy_experiment.Table(
        "ledger", "What was released",
        "All that was asked of the clients. An answer that was lost is charged all the same.",
        {
            "release": "{}", "sensitivity": "{:.5g}", "std": "{:.5g}", "mu": "{:.5g}",
            "answered": "{}",
        },
        folded=True,
    ),
)
_GUARANTEE = (
    "epsilon {epsilon:g} at delta {delta:g} for {unit}; where its data are replaced, epsilon "
    "{replaced:.3g} at delta {delta:g}"
)
_HEADLINE = "All of this folder together is differentially private: " + _GUARANTEE + "."
_READING = (
    "What is guaranteed covers grouping, training and report. Neighbouring runs differ in the "
    "messages of one client, which are zeros in one of them ({neighboring_relation}). The number "
    "of clients and who takes part are not hidden. The second epsilon is for a client whose data "
    "are replaced by others, and not left out.",
    f"A test for whether a client's data were used, with {_FALSE_ALARMS:.0%} false alarms, finds "
    "at most {detected:.1%} of the clients whose data were (mu = {mu:.3g}).",
    "{trusted} A secure sum must hide the single messages. The noise was {noise}.",
    "Not covered: the guarantee is for one run. Whoever chooses the number of clusters, of rounds "
    "or another setting by several runs on the same clients spends the budget of each.",
    "Known before the run: {advice} " + CAVEAT,
    "Trained: {model} with {num_parameters:,} parameters, by {num_clients:,} clients in "
    "{num_clusters} clusters and {rounds} rounds, on {source}.",
)
# Who sees what without noise.
_TRUSTED = {
    privacy_lib.SERVER: "The server adds the noise to totals over all clients, and is trusted not "
    "to look at them before.",
    privacy_lib.NONE: "Every client adds a share of the noise to its own message, so the server "
    "sees noisy totals only. The guarantee holds as long as at least {least} of the "
    "{num_clients:,} clients add their share to every release and keep it secret. The ledger "
    "states the noise of {least} shares; more add up to more.",
}


def _detected(mu: float) -> float:
  """Returns the most that any test for a client can detect, as a share of those who took part."""
  normal = statistics.NormalDist()
  return normal.cdf(normal.inv_cdf(_FALSE_ALARMS) + mu)


def _values(found: Mapping[str, Any]) -> dict[str, Any]:
  """Returns what the texts name, of a released summary."""
  privacy, data = found["privacy"], found["data"]
  values = {
      **privacy, **data, **found["plan"],
      "replaced": privacy["replacing_one_client"]["epsilon"],
      "detected": _detected(privacy["mu"]),
      "least": privacy["min_clients"] or data["num_clients"],
  }
  return {**values, "trusted": _TRUSTED[privacy["trust"]].format_map(values)}


def clusters(rows: pd.DataFrame) -> pd.DataFrame:
  """Returns the frame of `CLUSTERS` of the tidy rows of a report."""
  found = rows.astype({"value": float}).pivot(index="cluster", columns="metric", values="value")
  found = found.reindex(index=rows["cluster"].unique(), columns=list(CLUSTERS.columns)[1:])
  is_unknown = found["clients"].notna() & ~(found["sd of accuracy"] <= _LARGEST_STD)
  accuracy = found["accuracy"].astype(object).mask(is_unknown, "unknown")
  return found.assign(accuracy=accuracy).reset_index()


def _frames(run: finished_run.FinishedRun) -> dict[str, pd.DataFrame]:
  names = (released.LEDGER, released.CLUSTERS, released.ROUNDS)
  ledger, report, rounds = (
      pd.DataFrame(run.rows(name, ("release", "cluster"))) for name in names
  )
  total = {"release": "all together", "mu": math.hypot(*ledger["mu"])}
  answered = ledger["answered"].map({1: "yes", 0: "no"})
  return {
      "clusters": clusters(report),
      "budget": pd.DataFrame(run.summary["privacy"]["budget"]),
      "ledger": pd.concat([ledger.assign(answered=answered), pd.DataFrame([total])]),
      "rounds": rounds,
  }


def warnings(found: Mapping[str, Any]) -> dict[str, list[dict[str, Any]]]:
  """Returns the rows of what the reader must not overlook, by title, of a released summary."""
  plan = found["plan"]
  too_much = [plan["advice"]] if plan["planning_number"] > plan_lib.LARGE_NOISE else []
  return {
      "Too much noise": [{"warning": text} for text in too_much],
      "The privacy budget protects little": [
          {"warning": text} for text in found["privacy"]["warnings"]
      ],
      "Answers that were lost: they are charged, and the run went on without them": [
          {"release": name} for name in found["lost"]
      ],
  }


def write(folder: str) -> None:
  """Draws the page of what was released, from its folder alone."""
  run = finished_run.FinishedRun(folder)
  found = run.summary
  values = _values(found)
  tidy_report.write_page(
      run, title="Private clusters: what was released", headline=_HEADLINE.format_map(values),
      warned=warnings(found), frames=_frames(run), tables=_TABLES, figures=(figures.ROUNDS,),
      reading=[text.format_map(values) for text in _READING], contents=FILES,
  )


def text(folder: str) -> str:
  """Returns what the program prints of what was released."""
  run = finished_run.FinishedRun(folder)
  lines = f"{{advice}}\n{_GUARANTEE}".format_map(_values(run.summary))
  return tidy_report.text_of(lines, _TABLES, _frames(run), run.settings)
