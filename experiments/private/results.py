"""What a finished benchmark measured: losses, the comparison with a peer, the summary.

The peer is google/differential-privacy.  Its losses were measured once with its
`learning/clustering` at commit b5b0286e, on data sets prepared as `data.py` prepares
them, as means over at least five runs.  The synthetic points were another draw of the
same mixture.
"""

import dataclasses
import math

from experiment_shell import finished_run
from experiment_shell import scores
from experiment_shell import text_table
from experiments.private import cells
from experiments.private import methods

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
  """The peer's loss for one data set and k.

  Attributes:
    dataset: Key of `data.DATASETS`.
    num_points: Number of points that it was measured on.
    k: Number of clusters.
    loss: Mean squared distance to the nearest center.
    target_ratio: The largest ratio of our loss to this one that is good enough.
  """

  dataset: str
  num_points: int
  k: int
  loss: float
  target_ratio: float


_PEER_LOSSES = (
    PeerLoss("synthetic", 100_000, 16, 0.563, 0.96),
    PeerLoss("synthetic", 100_000, 64, 0.0756, 0.22),
    PeerLoss("letter", 20_000, 16, 0.0985, 0.82),
    PeerLoss("letter", 20_000, 64, 0.0778, 0.67),
    PeerLoss("sklearn_digits", 1_797, 16, 0.457, 0.86),
    PeerLoss("sklearn_digits", 1_797, 64, 0.486, 0.80),
)


@dataclasses.dataclass(frozen=True)
class PeerComparison:
  """Our compared method beside the peer.

  Attributes:
    peer: The `PeerLoss`.
    loss: Our mean loss.
  """

  peer: PeerLoss
  loss: float

  @property
  def ratio(self):
    return self.loss / self.peer.loss

  @property
  def is_reached(self):
    return self.ratio <= self.peer.target_ratio


@dataclasses.dataclass(frozen=True)
class OptimumRatio:
  """A method's losses, divided by the best loss that is known.

  Attributes:
    dataset: Name of the data set.
    method: Name of the method.
    epsilon: The privacy parameter.
    is_of_paper: Whether epsilon and delta are those of the paper that the data are from.
    mean: The mean over the runs.
    sd: Their standard deviation.
    worst: The largest.
  """

  dataset: str
  method: str
  epsilon: float
  is_of_paper: bool
  mean: float
  sd: float
  worst: float


@dataclasses.dataclass(frozen=True)
class Results:
  """The measurements of one output folder.

  Attributes:
    run: The `FinishedRun`.
    losses: (data set, method, k, epsilon) -> `Spread` of the runs' losses.
    worst: (data set, method, k, epsilon) -> the largest of the runs' losses.
  """

  run: finished_run.FinishedRun
  losses: dict[tuple, scores.Spread]
  worst: dict[tuple, float]

  @property
  def settings(self):
    """Every setting's value, by name."""
    return self.run.settings

  @property
  def datasets(self):
    """What `BenchmarkDataset.describe` says of the data sets that were available, by name."""
    return self.run.document["datasets"]

  @property
  def methods(self):
    """The names of the methods that were run."""
    return tuple(self.run.document["methods"])

  @property
  def private_methods(self):
    return tuple(name for name in self.methods if name != methods.NOT_PRIVATE)

  @property
  def central_methods(self):
    """The names of the private methods that were run on the points of one place."""
    return tuple(name for name in self.private_methods if name not in methods.FEDERATED)

  @property
  def private_cases(self):
    """All (data set, k, epsilon) that the private methods were run at."""
    found = dict.fromkeys(
        (dataset, k, epsilon) for dataset, method, k, epsilon in self.losses
        if method != methods.NOT_PRIVATE
    )
    return tuple(found)

  @property
  def skipped(self):
    """The reasons why data sets and methods were left out, by name."""
    return self.run.document["skipped"]

  def loss(self, dataset, method, k, epsilon=None):
    """Returns the `Spread` of a method's losses.

    Args:
      dataset: Name of the data set.
      method: Name of the method.
      k: Number of clusters.
      epsilon: The privacy parameter, `fixed_epsilon` by default; a method that is not
        private has the same losses for any.
    """
    if method == methods.NOT_PRIVATE:
      epsilon = math.inf
    elif epsilon is None:
      epsilon = self.settings["fixed_epsilon"]
    return self.losses[dataset, method, k, epsilon]

  def peer_losses(self, dataset):
    """Returns the `PeerLoss`es that were measured on the same data with the same privacy."""
    if (self.settings["fixed_epsilon"], self.settings["delta"]) != (_PEER_EPSILON, _PEER_DELTA):
      return []
    return [
        loss for loss in _PEER_LOSSES
        if loss.dataset == dataset and loss.k in self.settings["k_to_try"]
        and loss.num_points == self.datasets[dataset]["num_points"]
    ]

  def peer_comparisons(self):
    """Returns a `PeerComparison` for each loss of the peer that applies."""
    if COMPARED not in self.methods:
      return []
    return [
        PeerComparison(peer, self.loss(dataset, COMPARED, peer.k).mean)
        for dataset in self.datasets for peer in self.peer_losses(dataset)
    ]


  def optimum_ratios(self):
    """Returns an `OptimumRatio` for each private case with a best loss that is known."""
    return [
        _optimum_ratio(self, dataset, method, k, epsilon)
        for dataset, k, epsilon in sorted(self.private_cases, key=lambda case: case[2])
        for method in self.private_methods
        if (self.datasets[dataset]["optimum"] or {}).get("k") == k
    ]


def _optimum_ratio(results, dataset, method, k, epsilon):
  optimum = results.datasets[dataset]["optimum"]
  setting = dataset, method, k, epsilon
  spread = results.losses[setting]
  return OptimumRatio(
      dataset, method, epsilon,
      is_of_paper=epsilon == optimum["paper_epsilon"]
      and results.settings["delta"] == _PAPER_DELTA,
      mean=spread.mean / optimum["loss"],
      sd=spread.sd / optimum["loss"],
      worst=results.worst[setting] / optimum["loss"],
  )


def read(run):
  """Returns the `Results` of a `FinishedRun`."""
  *setting, repetition = cells.KEYS
  found = scores.Scores(run.rows(cells.MEASUREMENTS), setting, repetition)
  return Results(
      run,
      losses={keys: found.spread("loss", *keys) for keys in found.settings},
      worst={keys: max(found.values("loss", *keys)) for keys in found.settings},
  )


def summary(results):
  """Returns means and spreads, and the ratios to the peer and to the optimum, for JSON."""
  return {
      "losses": [
          {
              "dataset": dataset,
              "method": method,
              "k": k,
              "epsilon": None if epsilon == math.inf else epsilon,
              "mean": spread.mean,
              "sd": spread.sd,
              "percentile_25": spread.low,
              "percentile_75": spread.high,
              "worst": results.worst[dataset, method, k, epsilon],
          }
          for (dataset, method, k, epsilon), spread in results.losses.items()
      ],
      "ratios_to_peer": [
          {
              "dataset": comparison.peer.dataset,
              "k": comparison.peer.k,
              "ratio": comparison.ratio,
              "target": comparison.peer.target_ratio,
          }
          for comparison in results.peer_comparisons()
      ],
      "ratios_to_optimum": [dataclasses.asdict(ratio) for ratio in results.optimum_ratios()],
      # Without the reasons, which may name folders of this machine.
      "skipped": list(results.skipped),
  }


def loss_text(loss):
  """Returns a loss as text, with three digits."""
  return f"{loss:#.3g}"


def dataset_title(results, dataset):
  """Returns a data set's name and size."""
  description = results.datasets[dataset]
  return f"{dataset} ({description['num_points']:,} x {description['dim']})"


def _dataset_text(results, dataset):
  num_clusters = results.settings["k_to_try"]
  rows = [
      [methods.LABELS[method],
       *(loss_text(results.loss(dataset, method, k).mean) for k in num_clusters)]
      for method in results.methods
  ]
  peer = {one.k: loss_text(one.loss) for one in results.peer_losses(dataset)}
  if peer:
    rows.append([PEER, *(peer.get(k, "-") for k in num_clusters)])
  header = [dataset_title(results, dataset), *(f"k={k}" for k in num_clusters)]
  return text_table.text_table(header, rows)


def text(results):
  """Returns the mean losses over k of every data set, as tables for the terminal."""
  settings = results.settings
  heading = (
      f"mean squared distance to the nearest center, epsilon {settings['fixed_epsilon']:g}, "
      f"delta {settings['delta']:g}; runs: {settings['runs']}"
  )
  return "\n\n".join(
      [heading, *(_dataset_text(results, dataset) for dataset in results.datasets)]
  )
