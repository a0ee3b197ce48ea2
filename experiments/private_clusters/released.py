"""What a training releases: tidy tables, and the page that is drawn of them alone.

All of it is paid for by the budget, or was known before the run.
"""

from __future__ import annotations

import math
import statistics
from typing import Any, Mapping, Sequence, TYPE_CHECKING

import pandas as pd

from dp_clustering import noise
from dp_clustering import privacy_calculator
from experiment_shell import frames
from experiment_shell import tidy_experiment
from fl_clustering.points import privacy as privacy_lib

if TYPE_CHECKING:
  from dp_clustering import ledger as ledger_lib
  from fl_clustering.private_clusters import fitting
  from fl_clustering.private_clusters import plan as plan_lib
  from fl_clustering.private_clusters import training

# Tidy tables.  The first three say what is guaranteed.
RESULTS, BUDGET, LEDGER = tidy_experiment.RESULTS, "budget", "ledger"
CLUSTERS, ROUNDS = "clusters", "rounds"
TIDY: Mapping[str, Mapping[str, Any]] = {
    RESULTS: {}, BUDGET: {"part": str}, LEDGER: {"release": str}, CLUSTERS: {"cluster": str},
    ROUNDS: {"round": int, "line": str},
}
# A release of `LEDGER`: what all cost together.
TOTAL = "all together"
# Metrics of `ROUNDS`, and a line of the first.
SIZE, NORM, REVIVAL = "clients, noisy", "clip norm", "revival"
# An accuracy whose noise has a larger standard deviation is unknown.
_LARGEST_STD = 0.2
_FALSE_ALARMS = 0.01


def report_rows(report: fitting.Report) -> list[dict[str, Any]]:
  """Returns the rows of `CLUSTERS`, for each cluster and for all clients; None for NaN."""
  columns = {
      "clients": report.counts, "sd of clients": report.count_stds,
      "accuracy": report.accuracies, "sd of accuracy": report.accuracy_stds,
  }
  names = [*map(str, range(len(report.counts) - 1)), "all"]
  return [
      {"cluster": name, "metric": metric, "value": None if math.isnan(value) else float(value)}
      for name, row in zip(names, zip(*columns.values())) for metric, value in zip(columns, row)
  ]


def round_rows(states: Sequence[training.State]) -> list[dict[str, Any]]:
  """Returns the rows of `ROUNDS`: sizes of clusters, clip norm and revivals.

  Args:
    states: Before every round and after the last.
  """
  found = []
  for before, after in zip(states, states[1:]):
    lines = [(f"cluster {number}", SIZE, size) for number, size in enumerate(after.sizes.tolist())]
    lines += [(REVIVAL, SIZE, 0.0)] * (after.revived != before.revived)
    lines.append((NORM, NORM, before.clip_norm))
    found += [
        {"round": after.round_num, "line": line, "metric": metric, "value": value}
        for line, metric, value in lines
    ]
  return found


def _detected(mu: float) -> float:
  """Returns the most that any test for a client can detect, as a share of those who took part."""
  normal = statistics.NormalDist()
  return normal.cdf(normal.inv_cdf(_FALSE_ALARMS) + mu)


def guarantee_rows(
    settings: plan_lib.PrivateClusters, num_parameters: int, num_clients: int
) -> dict[str, list[dict[str, Any]]]:
  """Returns the rows of `RESULTS` and `BUDGET`, which are known before the run."""
  budget = settings.budget(num_clients)
  mu = budget.total
  results = {
      "num_clients": num_clients,
      "num_parameters": num_parameters,
      "planning_number": settings.planning_number(num_parameters, num_clients),
      "own_rounds": budget.own_rounds,
      "mu": mu,
      "detected": _detected(mu),
      "replaced_epsilon": privacy_calculator.gaussian_epsilon(2 * mu, settings.delta),
  }
  return {
      RESULTS: [{"metric": name, "value": value} for name, value in results.items()],
      BUDGET: [
          {"part": part, "metric": "share", "value": share}
          for part, share in budget.shares.items()
      ],
  }


def ledger_rows(ledger: ledger_lib.Ledger, lost: Sequence[str]) -> list[dict[str, Any]]:
  """Returns the rows of `LEDGER`.

  Args:
    lost: The names of releases without an answer.
  """
  return [
      {"release": one.name, "metric": metric, "value": value}
      for one in ledger.releases
      for metric, value in (
          ("sensitivity", one.sensitivity), ("std", one.std), ("mu", one.mu),
          ("answered", int(one.name not in lost)),
      )
  ] + [{"release": TOTAL, "metric": "mu", "value": ledger.mu_spent}]


def clusters(rows: pd.DataFrame) -> pd.DataFrame:
  """Returns the frame of `CLUSTERS_TABLE`, of the rows of `CLUSTERS`."""
  found = frames.wide(rows, ["cluster"], list(CLUSTERS_TABLE.columns)[1:])
  is_unknown = found["clients"].notna() & ~(found["sd of accuracy"] <= _LARGEST_STD)
  return found.assign(accuracy=found["accuracy"].astype(object).mask(is_unknown, "unknown"))


def summarise(
    tidy: Mapping[str, pd.DataFrame], document: Mapping[str, Any]
) -> frames.Frames:
  """Returns the frames of the page."""
  settings, results = document["config"], tidy[RESULTS]
  values: dict[str, Any] = {
      **settings, **dict(zip(results["metric"], results["value"])),
      "epsilon": settings["epsilon"][0],
  }
  fewest = settings["min_clients"]
  values["least"] = "all" if fewest is None else f"at least {fewest:,}"
  ledger = frames.wide(tidy[LEDGER], ["release"])
  is_lost = ledger["answered"] == 0
  texts = {**_GUARANTEE, "trust": _TRUSTED[settings["trust"]]}
  return {
      "headline": pd.DataFrame([{
          "verdict": "lost" if is_lost.any() else "",
          **{name: values[name] for name in ("epsilon", "delta", "replaced_epsilon")},
      }]),
      "lost": ledger.loc[is_lost, ["release"]],
      "guarantee": pd.DataFrame([
          {"of": name, "what": text.format_map(values)} for name, text in texts.items()
      ]),
      CLUSTERS: clusters(tidy[CLUSTERS]),
      BUDGET: frames.wide(tidy[BUDGET], ["part"]),
      LEDGER: ledger.assign(answered=ledger["answered"].map({0: "no", 1: "yes"})),
      ROUNDS: tidy[ROUNDS],
  }


_HEADLINE = (
    "The folder released/ may be published, and nothing else of the run. It is differentially "
    "private: epsilon {epsilon:g} at delta {delta:g} for one client with all of its data; where "
    "its data are replaced, epsilon {replaced_epsilon:.3g} at delta {delta:g}."
)
HEADLINES = {
    "": _HEADLINE,
    "lost": f"{_HEADLINE} Answers were lost: they are charged, and the run went on without them.",
}
_GUARANTEE = {
    "neighbours": "The messages of one client are zeros in one of them (zero_out_one_client). The "
    "number of clients and who takes part are not hidden. The second epsilon is for a client whose "
    "data are replaced by others, and not left out.",
    "membership": f"A test for whether a client's data were used, with {_FALSE_ALARMS:.0%} false "
    "alarms, finds at most {detected:.1%} of the clients whose data were (mu = {mu:.3g}).",
    "noise": f"It was {noise.SecureNoise.description}. A secure sum must hide the single messages.",
    "training": "{model} with {num_parameters:,.0f} parameters, by {num_clients:,.0f} clients in "
    "{num_clusters} clusters and {rounds} rounds, of which each took part in {own_rounds:.0f}; "
    "planning number {planning_number:.2f}",
}
# Who sees what without noise.
_TRUSTED = {
    privacy_lib.SERVER: "The server adds the noise to totals over all clients, and is trusted not "
    "to look at them before.",
    privacy_lib.NONE: "Every client adds a share of the noise to its own message, so the server "
    "sees noisy totals only. The guarantee holds as long as {least} of the clients that a release "
    "asks add their share to it and keep it secret. The ledger states the noise of these shares; "
    "more add up to more.",
}
CLUSTERS_TABLE = tidy_experiment.Table(
    CLUSTERS, "Clusters",
    "Noisy numbers of the clients with rows for training and for testing, and their noisy mean "
    "accuracy on these, each with the standard deviation of its noise. Unknown: the noise has one "
    f"above {_LARGEST_STD:g}. Without numbers: the answer was lost.",
    {
        "cluster": "{}", "clients": "{:.1f}", "sd of clients": "{:.1f}", "accuracy": "{:.3f}",
        "sd of accuracy": "{:.3f}",
    },
    printed=True,
)
TABLES = (
    tidy_experiment.Table(
        "lost", "Answers that were lost",
        "They are charged, and the run went on without them.",
    ),
    CLUSTERS_TABLE,
    tidy_experiment.Table(
        "guarantee", "What is guaranteed", "It covers grouping, training and report.", is_text=True
    ),
    tidy_experiment.Table(
        BUDGET, "The parts of the budget",
        "The squares of mu add up, so these are shares of its square. They were fixed before the "
        "first question, whatever the data.",
        {"part": "{}", "share": "{:.0%}"},
    ),
    tidy_experiment.Table(
        LEDGER, "What was released",
        "All that was asked of the clients. An answer that was lost is charged all the same. Of "
        "the rounds of a pass, in which every client takes part once, one counts for the total.",
        {
            "release": "{}", "sensitivity": "{:.5g}", "std": "{:.5g}", "mu": "{:.5g}",
            "answered": "{}",
        },
        folded=True,
    ),
)
CAVEAT = (
    "The planning number knows nothing of label skew: where every client has few labels, a small "
    "planning number does not promise a small loss."
)
READING = (
    "Not covered: the guarantee is for one run. Whoever chooses the number of clusters, of rounds "
    "or another setting by several runs on the same clients spends the budget of each.",
    CAVEAT,
)
