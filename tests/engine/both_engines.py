"""Both engines over the clients of one task."""

from fl_clustering.engine.jax import engine as jax_engine
from fl_clustering.engine.tff import client_update
from tests import small_task
from tests.engine.tff import small_engine

# More than any client has, so that no order is drawn.
ALL_EXAMPLES = 100


def of_tff(task=None, batch_size=20, rate=0.1, seed=3):
  """Returns TFF's engine of a task, of digits if none is given."""
  return small_engine.engine(task, client_update.LocalTraining(batch_size, rate), seed)


def of_jax(task=None, batch_size=20, rate=0.1, seed=3, **more):
  """Returns JAX's engine, given also what only it takes."""
  return jax_engine.Engine(
      task or small_task.small_task(), batch_size, rate, seed, **more
  )


def _in_small_blocks(*args):
  return of_jax(*args, clients_per_block=3)


# By the names of `engines.ENGINES`; clients of JAX's are in several blocks.
ENGINES = {"tff": of_tff, "jax": _in_small_blocks}
