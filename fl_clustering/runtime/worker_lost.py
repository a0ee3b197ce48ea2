"""The error of a lost worker, for programs that may need no TFF, which takes seconds to import."""


class WorkerLost(RuntimeError):
  """The worker process died, hung or did not start."""
