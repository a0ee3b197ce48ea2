"""The engine, the clients' files and models of small tasks."""

import functools
import tempfile

from fl_clustering.engine.tff import client_files
from fl_clustering.engine.tff import engine as engine_lib
from tests import small_task

BATCH_SIZE, RATE = 20, 0.1


@functools.cache
def _folder():
  # It goes with the process.
  return tempfile.TemporaryDirectory()


def folder():
  """Returns a new folder."""
  return tempfile.mkdtemp(dir=_folder().name)


def engine(task=None, batch_size=BATCH_SIZE, rate=RATE, seed=3, schedule=None):
  """Returns an engine of a task, of digits if none is given."""
  return engine_lib.Engine(
      task or small_task.small_task(), folder(), batch_size, rate, seed, schedule
  )


@functools.cache
def files(task):
  """Returns the files of a task's clients, which are written once."""
  return client_files.write_client_files(task, folder())
