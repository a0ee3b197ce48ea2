"""What a method asks of its clients: computing and communication."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Cost:
  """The work of all clients together.

  Evaluations on test data are not part of it: they only measure.

  Attributes:
    client_steps: Steps of SGD.
    bytes_down: Bytes sent to the clients.
    bytes_up: Bytes that the clients send.
  """

  client_steps: int = 0
  bytes_down: int = 0
  bytes_up: int = 0

  def __add__(self, other):
    return Cost(*(mine + theirs for mine, theirs in zip(self.values(), other.values())))

  def __sub__(self, other):
    return Cost(*(mine - theirs for mine, theirs in zip(self.values(), other.values())))

  def values(self):
    """Returns the fields' values, in their order."""
    return dataclasses.astuple(self)

  def by_name(self):
    """Returns the values as a dict by field name."""
    return dataclasses.asdict(self)
