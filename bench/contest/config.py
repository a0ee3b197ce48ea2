"""The settings of the comparison of peers: everything that changes its numbers."""

import dataclasses
import functools
from typing import Any

from bench.contest import contestants
from bench.contest import workloads as workloads_lib
from clustering_basics import options
from clustering_basics import validate


@dataclasses.dataclass(frozen=True)
class PeersConfig:
  """The settings of a comparison, checked when made."""

  workloads: tuple[str, ...] = options.option(
      str, "Comma-separated, of: " + ", ".join(workloads_lib.WORKLOADS) + ".",
      tuple(workloads_lib.WORKLOADS), several=True, values=workloads_lib.WORKLOADS,
  )
  peers: tuple[str, ...] = options.option(
      str,
      "Comma-separated, of: " + ", ".join(contestants.PEERS) + "; may be empty. Ours and plain "
      "TensorFlow always take part.",
      contestants.PEERS, several=True, values=contestants.PEERS,
  )
  launches: int = options.option(
      int, "Processes of each contestant, one after the other, for each workload.", 3,
      rule=functools.partial(validate.integer, 1),
  )
  rounds: int = options.option(
      int,
      f"Rounds in a launch, at least 2; the first is not timed. {workloads_lib.FLUTE} has its own.",
      10, rule=functools.partial(validate.integer, 2),
  )
  answer_seconds: float = options.option(
      float, "How long a contestant may take to start, and for a round.", 600.0,
      rule=validate.positive,
  )
  seed: int = options.option(
      int, "Seed of clients, first model and order of examples.", 1,
      rule=functools.partial(validate.integer, 0),
  )

  def __post_init__(self) -> None:
    for name in ("workloads", "peers"):
      values = getattr(self, name)
      if len(set(values)) != len(values):
        raise validate.error(name, "name nothing twice", list(values))
    if not self.workloads:
      raise validate.error("workloads", "have at least one value", [])
    options.check(self)

  def contestants(self) -> list[str]:
    """Returns the names of all contestants that take part, in their order."""
    return [
        name for name in contestants.CONTESTANTS
        if name in self.peers or name not in contestants.PEERS
    ]

  def rounds_of(self, workload: str) -> int:
    """Returns the number of rounds of a workload, given by name."""
    return workloads_lib.WORKLOADS[workload].rounds or self.rounds

  def to_json(self) -> dict[str, Any]:
    return options.to_json(self)
