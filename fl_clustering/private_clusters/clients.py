"""The clients of a run, in either engine."""

from __future__ import annotations

import contextlib
import tempfile
from typing import Iterator, TYPE_CHECKING

from fl_clustering.engine import bounded_sums
from fl_clustering.engine import device_memory
from fl_clustering.engine import engines

if TYPE_CHECKING:
  from fl_clustering.private_clusters import plan as plan_lib
  from fl_clustering.tasks import federated_task
  from fl_clustering.tasks import model as model_lib


@contextlib.contextmanager
def opened(
    engine: str, settings: plan_lib.PrivateClusters, model: model_lib.Model,
    clients: federated_task.PooledClients,
) -> Iterator[bounded_sums.BoundedSums]:
  """Returns the context in which clients compute as settings say; any of them may have no examples.

  Args:
    engine: Of `engines.ENGINES`; it imports a library of its own.

  Raises:
    device_memory.DeviceFull: If the memory of the accelerator is full.
  """
  how = model, settings.num_clusters, settings.local_steps, settings.learning_rate
  if engine == engines.JAX:
    from fl_clustering.engine.jax import bounded_sums as of_jax
    from fl_clustering.engine.jax import own_settings

    with own_settings.without_cache(), device_memory.told():
      yield of_jax.BoundedSums(*how, clients.train, clients.test)
    return
  from fl_clustering import runtime
  from fl_clustering.engine.tff import bounded_sums as of_tff
  from fl_clustering.engine.tff import client_files

  # Elsewhere than what is written of the run, as these are the clients' examples.
  with tempfile.TemporaryDirectory(prefix="fl_clustering_") as folder, runtime.LocalRuntime():
    yield of_tff.BoundedSums(*how, client_files.write_examples(clients, folder), folder)
