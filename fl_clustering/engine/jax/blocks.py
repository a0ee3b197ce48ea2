"""Blocks: so many clients or models as one call computes side by side, or one after the other.

A loop over blocks of one size keeps the memory flat, and one compiled program serves any number of
clients.  Each core of a CPU computes a block at a time.  Results are the same to the last bit on
one device with one size of blocks, however many are computed at a time; but on another number of
cores, XLA may add up a long product in another order, as in the gradient of a convolution.
"""

from __future__ import annotations

import collections
from concurrent import futures
import dataclasses
from typing import Any, Callable, Iterable, Iterator, Sequence, TYPE_CHECKING

import jax
from jax import lax
import numpy as np

from clustering_basics import core_count
from clustering_basics import validate
from fl_clustering.engine import cost
from fl_clustering.engine.jax import devices as devices_lib
from fl_clustering.engine.jax import networks
from fl_clustering.engine.jax import own_settings

if TYPE_CHECKING:
  from fl_clustering.tasks import model as model_lib

# What a block takes of a device, about.
_BLOCK_BYTES = 2**32
_MOST_CLIENTS = 1000
# On a CPU clients come one after the other: a block saves calls, and cores share small ones evenly.
_CLIENTS_ON_CPU = 4
_EXAMPLES_ON_CPU = 1024
_MOST_EXAMPLES = 16_384
# A model, its update, its gradient and the start.
_COPIES = 4


@dataclasses.dataclass(frozen=True)
class Blocks:
  """How work is cut, and where it is done.

  Attributes:
    devices: The devices, of one kind, which share the clients of a block.
    clients: The clients of a block, a multiple of the number of devices.
    examples: The examples that one call evaluates, about.
    cores: How many blocks are computed at a time; those of a CPU, and 1 elsewhere.
  """

  devices: tuple[Any, ...]
  clients: int
  examples: int
  # Programs are compiled for blocks, but not for a number of cores.
  cores: int = dataclasses.field(default=1, compare=False)

  @property
  def side_by_side(self) -> bool:
    """Whether the clients of a block are computed side by side: not on a single CPU."""
    return len(self.devices) > 1 or self.devices[0].platform != "cpu"

  @property
  def shared(self) -> Any:
    """The sharding of what all devices have."""
    return self._sharding(jax.sharding.PartitionSpec())

  def _sharding(self, spec: Any) -> Any:
    mesh = jax.sharding.Mesh(np.array(self.devices), ("clients",))
    return jax.sharding.NamedSharding(mesh, spec)

  def put(self, *arrays: Any) -> list[Any]:
    """Returns arrays whose rows the devices share out."""
    if len(self.devices) == 1:
      return list(arrays)  # A call takes them along, which is faster.
    return jax.device_put(list(arrays), self._sharding(jax.sharding.PartitionSpec("clients")))

  def cut(self, *arrays: np.ndarray) -> Iterator[tuple[slice, list[np.ndarray]]]:
    """Yields blocks of arrays of ints; the last is filled up with -1."""
    for start in range(0, len(arrays[0]), self.clients):
      place = slice(start, min(start + self.clients, len(arrays[0])))
      rest = self.clients - (place.stop - start)
      yield place, [
          np.pad(array[place].astype(np.int32), (0, rest), constant_values=-1) for array in arrays
      ]

  def each(self, work: Callable[..., Any], *arrays: jax.Array) -> Any:
    """Returns the results of work on every row of arrays."""
    if self.side_by_side:
      return jax.vmap(work)(*arrays)
    return lax.map(lambda row: work(*row), arrays)

  def results(self, work: Callable[..., Any], items: Iterable[tuple]) -> Iterator[Any]:
    """Yields work(*item) of items in their order, on all cores."""
    if self.cores == 1:
      for item in items:
        yield work(*item)  # A device that is no CPU computes while the caller goes on.
      return
    # Settings hold for a thread.  It waits, so that no more blocks than cores are computed.
    waited_for = own_settings.own()(lambda item: jax.block_until_ready(work(*item)))
    under_way: collections.deque[futures.Future] = collections.deque()
    with futures.ThreadPoolExecutor(self.cores) as threads:
      for item in items:
        under_way.append(threads.submit(waited_for, item))
        if len(under_way) > 2 * self.cores:  # Not all, which keeps the memory flat.
          yield under_way.popleft().result()
      while under_way:
        yield under_way.popleft().result()


def plan(
    model: model_lib.Model, batch_size: int, devices: Sequence[Any] | None = None,
    clients_per_block: int | None = None, copies: int = _COPIES,
) -> Blocks:
  """Returns blocks that fit the devices.

  Args:
    batch_size: The examples of a step of training.
    devices: The devices; by default all of JAX's, but only one that is a CPU, which has all cores.
    clients_per_block: The clients of a block, rounded up to a multiple of the number of devices; by
      default as many as take about 4 GiB of each device.
    copies: How often a client's parameters are in memory, about.
  """
  found = devices_lib.local() if devices is None else tuple(devices)
  is_cpu = found[0].platform == "cpu"
  devices = found[:1] if devices is None and is_cpu else found
  of_example = cost.BYTES_PER_NUMBER * networks.numbers_per_example(model)
  of_client = cost.BYTES_PER_NUMBER * copies * model.num_parameters + batch_size * of_example
  if clients_per_block is not None:
    validate.integer(1, clients_per_block=clients_per_block)
  elif is_cpu:
    clients_per_block = _CLIENTS_ON_CPU
  else:
    clients_per_block = min(max(1, _BLOCK_BYTES // of_client), _MOST_CLIENTS) * len(devices)
  examples = _EXAMPLES_ON_CPU
  if not is_cpu:
    examples = min(max(1, _BLOCK_BYTES // of_example), _MOST_EXAMPLES) * len(devices)
  clients = -(-clients_per_block // len(devices)) * len(devices)
  cores = core_count.usable() if is_cpu and len(devices) == 1 else 1
  return Blocks(devices, clients, examples, cores)
