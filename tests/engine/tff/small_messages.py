"""Messages of few bytes, as those of large models, for tests."""

from unittest import mock

from fl_clustering.engine.tff import model_jobs


def limit(num_bytes):
  """Returns a context manager in which a message holds at most so many bytes."""
  return mock.patch.multiple(model_jobs, MESSAGE_BYTES=num_bytes, MOST_MESSAGE_BYTES=num_bytes)
