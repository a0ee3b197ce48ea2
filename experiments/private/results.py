"""What a finished benchmark measured: losses, the comparison with a peer, the summary.

The peer is google/differential-privacy.  Its losses were measured once with its
`learning/clustering` at commit b5b0286e, on data sets prepared as `data.py` prepares
them, as means over at least five runs.  The synthetic points were another draw of the
same mixture.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any, Iterable, TYPE_CHECKING

from experiment_shell import finished_run
from experiment_shell import lazy_module
from experiment_shell import scores
from experiment_shell import text_table
from experiments.private import cells
from experiments.private import methods

if TYPE_CHECKING:
  import pandas as pd
else:
  pd = lazy_module.LazyModule("pandas")  # It takes long to import.

PEER = "google/differential-privacy"
PEER_SOURCE = f"{PEER}, learning/clustering, commit b5b0286e"
# The privacy parameters of the peer's losses.
_PEER_EPSILON = 1.0
_PEER_DELTA = 1e-6
# Of FedDP-KMeans, see `client_mixtures`.
_PAPER_DELTA = 1e-6
# Our method that is compared with the peer.
COMPARED = "refine"


@dataclasses.dataclass(frozen=True)
class PeerLoss:
  """The peer's mean loss for one data set and number of clusters, and ours if it is known.

  Attributes:
    target: The largest ratio of our loss to this one that is good enough.
  """

  dataset: str
  num_points: int
  k: int
  loss: float
  target: float
  ours: float = math.nan

  @property
  def ratio(self) -> float:
    return self.ours / self.loss

  @property
  def is_reached(self) -> bool:
    return self.ratio <= self.target


_PEER_LOSSES = (
    PeerLoss("synthetic", 100_000, 16, 0.563, 0.96),
    PeerLoss("synthetic", 100_000, 64, 0.0756, 0.22),
    PeerLoss("letter", 20_000, 16, 0.0985, 0.82),
    PeerLoss("letter", 20_000, 64, 0.0778, 0.67),
    PeerLoss("sklearn_digits", 1_797, 16, 0.457, 0.86),
    PeerLoss("sklearn_digits", 1_797, 64, 0.486, 0.80),
)


@dataclasses.dataclass(frozen=True)
class Results:
  """The measurements of one output folder.

  Attributes:
    losses: By data set, method, k and epsilon, which are its index: the columns of
      `scores.summary`, and the `worst` loss of any run.
  """

  run: finished_run.FinishedRun
  losses: pd.DataFrame

  @property
  def settings(self) -> dict[str, Any]:
    return self.run.settings

  @property
  def datasets(self) -> dict[str, dict[str, Any]]:
    """What `BenchmarkDataset.describe` says of the data sets that were available, by name."""
    return self.run.document["datasets"]

  @property
  def methods(self) -> tuple[str, ...]:
    return tuple(self.run.document["methods"])

  @property
  def private_methods(self) -> tuple[str, ...]:
    return tuple(name for name in self.methods if name != methods.NOT_PRIVATE)

  @property
  def central_methods(self) -> tuple[str, ...]:
    """The names of the private methods that were run on the points of one place."""
    return tuple(name for name in self.private_methods if name not in methods.FEDERATED)

  @property
  def private_cases(self) -> list[tuple[str, int, float]]:
    """All (data set, k, epsilon) that the private methods were run at."""
    found = dict.fromkeys(
        (dataset, k, epsilon) for dataset, method, k, epsilon in self.losses.index
        if method != methods.NOT_PRIVATE
    )
    return list(found)

  @property
  def skipped(self) -> dict[str, str]:
    """The reasons why data sets and methods were left out, by name."""
    return self.run.document["skipped"]

  def loss(
      self, dataset: str, method: str, k: int, epsilon: float | None = None, column: str = "mean"
  ) -> float:
    """Returns a method's mean loss, or another column of `losses`.

    Args:
      epsilon: The privacy parameter, `fixed_epsilon` by default; a method that is not
        private has the same losses for any.
    """
    if method == methods.NOT_PRIVATE:
      epsilon = math.inf
    elif epsilon is None:
      epsilon = self.settings["fixed_epsilon"]
    return float(self.losses.at[(dataset, method, k, epsilon), column])

  def losses_at(self, dataset: str, settings: Iterable[tuple[int, float]]) -> pd.DataFrame:
    """Returns the losses of all methods at pairs of k and epsilon, with these as columns."""
    columns = ("mean", "low", "high")
    return pd.DataFrame([
        {"method": method, "k": k, "epsilon": epsilon}
        | {column: self.loss(dataset, method, k, epsilon, column) for column in columns}
        for method in self.methods for k, epsilon in settings
    ])

  def peer_losses(self, dataset: str) -> list[PeerLoss]:
    """Returns the losses that were measured on the same data with the same privacy."""
    if (self.settings["fixed_epsilon"], self.settings["delta"]) != (_PEER_EPSILON, _PEER_DELTA):
      return []
    return [
        loss for loss in _PEER_LOSSES
        if loss.dataset == dataset and loss.k in self.settings["k_to_try"]
        and loss.num_points == self.datasets[dataset]["num_points"]
    ]

  def peer_comparisons(self) -> list[PeerLoss]:
    if COMPARED not in self.methods:
      return []
    return [
        dataclasses.replace(peer, ours=self.loss(dataset, COMPARED, peer.k))
        for dataset in self.datasets for peer in self.peer_losses(dataset)
    ]

  def optimum_ratios(self) -> list[dict[str, Any]]:
    """Returns losses divided by the best one that is known, for the private cases that have one.

    `is_of_paper` is whether epsilon and delta are those of the paper that the data are from.
    """
    found = []
    for dataset, k, epsilon in sorted(self.private_cases, key=lambda case: case[2]):
      optimum = self.datasets[dataset]["optimum"] or {}
      for method in self.private_methods if optimum.get("k") == k else ():
        found.append({
            "dataset": dataset, "method": method, "epsilon": epsilon,
            "is_of_paper": epsilon == optimum["paper_epsilon"]
            and self.settings["delta"] == _PAPER_DELTA,
        } | {
            column: self.loss(dataset, method, k, epsilon, column) / optimum["loss"]
            for column in ("mean", "sd", "worst")
        })
    return found


def read(run: finished_run.FinishedRun) -> Results:
  *setting, repetition = cells.KEYS
  measured = scores.table(run.rows(cells.MEASUREMENTS), (*cells.KEYS, "loss"), repetition)
  losses = scores.summary(measured, setting, "loss").set_index(setting)
  losses["worst"] = measured.groupby(setting)["loss"].max()
  return Results(run, losses)


def summary(results: Results) -> dict[str, Any]:
  """Returns means and spreads, and the ratios to the peer and to the optimum, for JSON."""
  losses = results.losses.drop(columns="count").reset_index()
  names = {"low": "percentile_25", "high": "percentile_75"}
  return {
      "losses": [
          {**row, "epsilon": None if row["epsilon"] == math.inf else row["epsilon"]}
          for row in losses.rename(columns=names).to_dict("records")
      ],
      "ratios_to_peer": [
          {"dataset": peer.dataset, "k": peer.k, "ratio": peer.ratio, "target": peer.target}
          for peer in results.peer_comparisons()
      ],
      "ratios_to_optimum": results.optimum_ratios(),
      # Without the reasons, which may name folders of this machine.
      "skipped": list(results.skipped),
  }


def loss_text(loss: float) -> str:
  """Returns a loss as text, with three digits."""
  return f"{loss:#.3g}"


def dataset_title(results: Results, dataset: str) -> str:
  description = results.datasets[dataset]
  return f"{dataset} ({description['num_points']:,} x {description['dim']})"


def _dataset_text(results: Results, dataset: str) -> str:
  num_clusters = results.settings["k_to_try"]
  rows = [
      [methods.LABELS[method],
       *(loss_text(results.loss(dataset, method, k)) for k in num_clusters)]
      for method in results.methods
  ]
  peer = {one.k: loss_text(one.loss) for one in results.peer_losses(dataset)}
  if peer:
    rows.append([PEER, *(peer.get(k, "-") for k in num_clusters)])
  header = [dataset_title(results, dataset), *(f"k={k}" for k in num_clusters)]
  return text_table.text_table(header, rows)


def text(results: Results) -> str:
  """Returns the mean losses over k of every data set, as tables for the terminal."""
  settings = results.settings
  heading = (
      f"mean squared distance to the nearest center, epsilon {settings['fixed_epsilon']:g}, "
      f"delta {settings['delta']:g}; runs: {settings['runs']}; seeded noise, for benchmarks only"
  )
  return "\n\n".join(
      [heading, *(_dataset_text(results, dataset) for dataset in results.datasets)]
  )
