"""What a finished benchmark found, read from its files."""

import dataclasses
import math

from experiment_shell import scores
from experiments.private import benchmark
from experiments.private import clusterers
from experiments.private import peer_losses


@dataclasses.dataclass(frozen=True)
class PeerComparison:
  """Our better method beside the peer: `ratio` is its mean loss over the peer's."""

  peer: peer_losses.PeerLoss
  band: scores.Spread
  ratio: float

  @property
  def is_reached(self):
    return self.ratio <= self.peer.target_ratio


@dataclasses.dataclass(frozen=True)
class FinishedBenchmark:
  """The files of one output folder.

  Attributes:
    settings: Every setting's value.
    datasets: What `BenchmarkDataset.describe` says, by name, for those that were had.
    methods: The methods that were run.
    skipped: Why the other data sets and methods were not, by name.
    versions: Versions of the software, by name.
    diffprivlib_versions: Those in the environment of diffprivlib.
    bands: (data set, method, k, epsilon) -> `Spread` of the runs' losses.
    ledgers: `ledgers.json`.
  """

  settings: dict
  datasets: dict
  methods: tuple[str, ...]
  skipped: dict
  versions: dict
  diffprivlib_versions: dict
  bands: dict
  ledgers: dict

  @property
  def private_methods(self):
    return tuple(name for name in self.methods if name != clusterers.NOT_PRIVATE)

  def band(self, dataset, method, k, epsilon):
    """Returns the `Spread` of a method; what is not private has the same for any epsilon."""
    if method == clusterers.NOT_PRIVATE:
      epsilon = math.inf
    return self.bands[dataset, method, k, epsilon]

  def mean_loss(self, dataset, method, k):
    """Returns a method's mean loss with k clusters, at the fixed epsilon."""
    return self.band(dataset, method, k, self.settings["fixed_epsilon"]).mean

  def peer_losses(self, dataset):
    """Returns the `PeerLoss`es of a data set that were measured as the losses here."""
    settings = (self.settings["fixed_epsilon"], self.settings["delta"])
    if settings != (peer_losses.EPSILON, peer_losses.DELTA):
      return []
    return [
        loss for loss in peer_losses.PEER_LOSSES
        if loss.dataset == dataset and loss.k in self.settings["k_to_try"]
        and loss.num_points == self.datasets[dataset]["num_points"]
    ]

  def peer_comparisons(self):
    """Returns a `PeerComparison` for each loss of the peer that applies."""
    if "refine" not in self.methods:
      return []
    comparisons = []
    for dataset in self.datasets:
      for loss in self.peer_losses(dataset):
        band = self.band(dataset, "refine", loss.k, self.settings["fixed_epsilon"])
        comparisons.append(PeerComparison(loss, band, band.mean / loss.loss))
    return comparisons

  def summary(self):
    """Returns all means and bands, and the ratios to the peer, for JSON."""
    return {
        "losses": [
            {
                "dataset": dataset,
                "method": method,
                "k": k,
                "epsilon": None if epsilon == math.inf else epsilon,
                "mean": band.mean,
                "percentile_25": band.low,
                "percentile_75": band.high,
            }
            for (dataset, method, k, epsilon), band in self.bands.items()
        ],
        "ratios_to_peer": [
            {
                "dataset": comparison.peer.dataset,
                "k": comparison.peer.k,
                "ratio": comparison.ratio,
                "target": comparison.peer.target_ratio,
            }
            for comparison in self.peer_comparisons()
        ],
        # Not why: the reasons may name folders of this machine.
        "skipped": list(self.skipped),
    }


def read_benchmark(finished):
  """Returns the `FinishedBenchmark` of a `finished_run.FinishedRun`."""
  found = scores.Scores(
      finished.rows(benchmark.MEASUREMENTS), ("dataset", "method", "k", "epsilon"), "run"
  )
  document = finished.document
  return FinishedBenchmark(
      settings=finished.settings,
      datasets=document["datasets"],
      methods=tuple(document["methods"]),
      skipped=document["skipped"],
      versions=finished.versions,
      diffprivlib_versions=document["diffprivlib_versions"],
      bands={setting: found.spread("loss", *setting) for setting in found.settings},
      ledgers=finished.json(benchmark.LEDGERS),
  )
