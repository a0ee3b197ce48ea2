"""Both engines over the clients of one task."""

from fl_clustering.engine.jax import engine as jax_engine
from tests import small_task
from tests.engine.tff import small_engine


def of_jax(task=None, batch_size=20, rate=0.1, seed=3, **more):
  """Returns JAX's engine, given also what only it takes."""
  return jax_engine.Engine(
      task or small_task.small_task(), batch_size, rate, seed, **more
  )


def _in_small_blocks(*args):
  return of_jax(*args, clients_per_block=3)


# By the names of `engines.ENGINES`; clients of JAX's are in several blocks.
ENGINES = {"tff": small_engine.engine, "jax": _in_small_blocks}
