"""What a method asks of its clients: computing and communication."""

import dataclasses

# Numbers travel as float32.
BYTES_PER_NUMBER = 4


@dataclasses.dataclass(frozen=True)
class Cost:
  """The work of all clients together: steps of SGD, bytes sent to them and bytes they send.

  Evaluations on test data are not part of it: they only measure.
  """

  steps: int = 0
  bytes_down: int = 0
  bytes_up: int = 0

  def __add__(self, other: "Cost") -> "Cost":
    return Cost(*(mine + theirs for mine, theirs in zip(self.values(), other.values())))

  def __sub__(self, other: "Cost") -> "Cost":
    return Cost(*(mine - theirs for mine, theirs in zip(self.values(), other.values())))

  def values(self) -> tuple[int, int, int]:
    """Returns the fields' values, in their order."""
    return dataclasses.astuple(self)

  def by_name(self) -> dict[str, int]:
    """Returns the values by field name, and `bytes`, those in both directions."""
    return {**dataclasses.asdict(self), "bytes": self.bytes_down + self.bytes_up}
