"""What a benchmark left in its output folder, read back.

The report knows a benchmark by its files alone, so that it can be drawn again later.
"""

import csv
import dataclasses
import json
import math
import os

from experiment_shell import spread
from experiments.private import benchmark
from experiments.private import clusterers
from experiments.private import peer_losses


@dataclasses.dataclass(frozen=True)
class PeerComparison:
  """Our better method beside the peer: `ratio` is its mean loss over the peer's."""

  peer: peer_losses.PeerLoss
  band: spread.Spread
  ratio: float

  @property
  def is_reached(self):
    return self.ratio <= self.peer.target_ratio


@dataclasses.dataclass(frozen=True)
class FinishedBenchmark:
  """The files of one output folder.

  Attributes:
    output_dir: The folder.
    settings: Every setting's value.
    datasets: What `BenchmarkDataset.describe` says, by name, for those that were had.
    methods: The methods that were run.
    skipped: Why the other data sets and methods were not, by name.
    versions: Versions of the software, by name.
    diffprivlib_versions: Those in the environment of diffprivlib.
    bands: (data set, method, k, epsilon) -> `Spread` of the runs' losses.
    ledgers: `ledgers.json`.
  """

  output_dir: str
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


def _read_bands(path):
  losses = {}
  with open(path, encoding="utf-8", newline="") as file:
    for row in csv.DictReader(file):
      key = row["dataset"], row["method"], int(row["k"]), float(row["epsilon"])
      losses.setdefault(key, []).append(float(row["loss"]))
  return {key: spread.spread(values) for key, values in losses.items()}


def _read_json(output_dir, name):
  with open(os.path.join(output_dir, name), encoding="utf-8") as file:
    return json.load(file)


def read_benchmark(output_dir):
  """Returns the `FinishedBenchmark` in an output folder."""
  config = _read_json(output_dir, "config.json")
  return FinishedBenchmark(
      output_dir=output_dir,
      settings=config["config"],
      datasets=config["datasets"],
      methods=tuple(config["methods"]),
      skipped=config["skipped"],
      versions=config["versions"],
      diffprivlib_versions=config["diffprivlib_versions"],
      bands=_read_bands(os.path.join(output_dir, benchmark.MEASUREMENTS)),
      ledgers=_read_json(output_dir, benchmark.LEDGERS),
  )
