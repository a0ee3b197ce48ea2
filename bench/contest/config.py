"""The settings of the comparison of peers: everything that changes its numbers."""

import dataclasses
from typing import Any

from bench.contest import contestants
from bench.contest import workloads
from clustering_basics import validate


@dataclasses.dataclass(frozen=True)
class PeersConfig:
  """The settings of a comparison, checked when made.

  Attributes:
    workloads: Keys of `workloads.WORKLOADS`.
    peers: Some of `contestants.PEERS`.
    launches: Processes of each contestant, one after the other, for each workload.
    rounds: Rounds in a launch, where the workload does not say; the first is not timed.
    answer_seconds: How long a contestant may take to start, and for a round.
    seed: Seed of the clients, the model to start from and the order of examples.
  """

  workloads: tuple[str, ...] = tuple(workloads.WORKLOADS)
  peers: tuple[str, ...] = contestants.PEERS
  launches: int = 3
  rounds: int = 10
  answer_seconds: float = 600.0
  seed: int = 1

  def __post_init__(self) -> None:
    for name in ("workloads", "peers"):
      values = getattr(self, name)
      if len(set(values)) != len(values):
        raise validate.error(name, "name nothing twice", list(values))
    if not self.workloads:
      raise validate.error("workloads", "have at least one value", [])
    for workload in self.workloads:
      validate.one_of(workloads.WORKLOADS, workloads=workload)
    for peer in self.peers:
      validate.one_of(contestants.PEERS, peers=peer)
    validate.integer(1, launches=self.launches)
    validate.integer(2, rounds=self.rounds)
    validate.positive(answer_seconds=self.answer_seconds)
    validate.integer(0, seed=self.seed)

  def contestants(self) -> list[str]:
    """Returns the names of all contestants that take part, in their order."""
    return [
        name for name in contestants.CONTESTANTS
        if name in self.peers or name not in contestants.PEERS
    ]

  def rounds_of(self, workload: str) -> int:
    """Returns the number of rounds of a workload, given by name."""
    return workloads.WORKLOADS[workload].rounds or self.rounds

  def to_json(self) -> dict[str, Any]:
    """Returns the settings as a dict for JSON."""
    return {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in dataclasses.asdict(self).items()
    }
