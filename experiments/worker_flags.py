"""The flags that say on which machines the clients compute, for every federated program."""

import sys

from absl import flags

from experiment_shell import launch

# The flags belong to the modules that adopt them, for `--help`.
flags.DEFINE_list(
    "workers", None,
    "Workers that compute the clients' part, as host:port,...; each was started by "
    "`bazel run tools:worker`.  Default: this machine.")
flags.DEFINE_float(
    "worker_timeout", 60,
    "Seconds after which a worker that does not answer counts as lost (--workers). Its clients "
    "then go to the others.", lower_bound=1)


@flags.validator("workers")
def _check_workers(workers):
  for address in workers or ():
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) < 2**16:
      raise flags.ValidationError(f"must be host:port,..., got {address!r}.")
  if workers is not None and not 0 < len(set(workers)) == len(workers):
    raise flags.ValidationError(f"must name every worker once, got {','.join(workers)!r}.")
  return True


def open_runtime():
  """Returns where TFF computes, as the flags say: a context manager.

  Raises:
    launch.InputError: If a worker can't be used.
  """
  # pylint: disable=g-import-not-at-top
  import tqdm

  from fl_clustering import runtime
  from fl_clustering.workers import pool
  # pylint: enable=g-import-not-at-top

  if flags.FLAGS.workers is None:
    return runtime.LocalRuntime()
  with launch.input_errors():
    return pool.Pool(
        flags.FLAGS.workers,
        flags.FLAGS.worker_timeout,
        # Above the progress bar, if there is one.
        lambda line: tqdm.tqdm.write(line, file=sys.stderr),
    )
