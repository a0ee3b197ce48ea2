"""The flags that say on which machines the clients compute, for every federated program."""

import contextlib
import sys
from typing import Any, Mapping, Sequence

from absl import flags
import tqdm

from clustering_basics import validate
from experiment_shell import launch
from experiment_shell import lazy_module
from experiments import token_flag
from fl_clustering.distribution import token_file
from fl_clustering.distribution import worker_lost

pool = lazy_module.LazyModule("fl_clustering.distribution.pool")
runtime = lazy_module.LazyModule("fl_clustering.runtime")

NAMES = ("workers", "worker_timeout", "site_timeout", "missing_sites", "token_file")

# The flags belong to the modules that adopt them.
flags.adopt_module_key_flags(token_flag)
flags.DEFINE_list(
    "workers", None,
    "Workers that compute the clients' part, as host:port,...; each was started by "
    "`bazel run tools:worker`, or by `bazel run tools:site` if it owns its clients.  Default: this "
    "machine.")
flags.DEFINE_float(
    "worker_timeout", 60,
    "Seconds after which a worker that does not answer counts as lost (--workers). Its clients "
    "then go to the others.", lower_bound=1)
flags.DEFINE_float(
    "site_timeout", 600,
    "Seconds that a round waits for a worker that was lost and owns its clients (--workers).",
    lower_bound=1)
flags.DEFINE_enum(
    "missing_sites", "stop", ["stop", "skip"],
    "What happens if workers that own their clients do not answer, or are lost for longer than "
    "--site_timeout: `stop` ends the program, and --resume continues; `skip` starts again without "
    "their clients.")


@flags.validator("workers")
def _check_workers(workers: Sequence[str] | None) -> bool:
  for address in workers or ():
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) < 2**16:
      raise flags.ValidationError(f"must be host:port,..., got {address!r}.")
  if workers is not None and not 0 < len(set(workers)) == len(workers):
    raise flags.ValidationError(f"must name every worker once, got {','.join(workers)!r}.")
  return True


@flags.multi_flags_validator(("workers", "token_file"))
def _check_token_file(given: Mapping[str, Any]) -> bool:
  path = given["token_file"]
  if path is None:
    return True
  try:
    if given["workers"] is None:
      raise validate.error("token_file", "be left out without `workers`", path)
    token_file.read(path)
  except ValueError as e:
    raise flags.ValidationError(str(e)) from e
  return True


def addresses() -> Sequence[str]:
  """Returns the addresses of the workers; none if this machine computes."""
  return flags.FLAGS.workers or ()


def may_skip_sites() -> bool:
  """Returns whether sites that are lost are left out."""
  return flags.FLAGS.missing_sites == "skip"


def _tell(line: str) -> None:
  """Writes a line above the progress bar, if there is one."""
  tqdm.tqdm.write(line, file=sys.stderr)


def _open_pool() -> Any:
  path = flags.FLAGS.token_file
  with launch.input_errors():
    return pool.Pool(
        flags.FLAGS.workers,
        flags.FLAGS.worker_timeout,
        _tell,
        flags.FLAGS.site_timeout,
        may_skip_sites(),
        b"" if path is None else token_file.read(path),
    )


def open_workers(with_sites: str) -> contextlib.AbstractContextManager:
  """Returns the workers where TFF computes on this machine's data, a context manager.

  Without `--workers` it does nothing.

  Args:
    with_sites: What to do with the flags if the workers' own clients are meant, such as
      "give --dataset=files".

  Raises:
    launch.InputError: If a worker can't be used.
  """
  if flags.FLAGS.workers is None:
    return contextlib.nullcontext()
  opened = _open_pool()
  if opened.sites:
    opened.close()
    raise launch.InputError(
        "`workers` must own no clients where the data are on this machine, got "
        f"{', '.join(opened.sites)}; if the clients are those of the sites, {with_sites}; else "
        "`bazel run tools:worker` starts workers that compute for any client."
    )
  for address, num_clients in opened.clients_at_a_time.items():
    _tell(f"worker {address}: clients at a time: {num_clients}")
  return opened


def open_runtime(with_sites: str) -> contextlib.AbstractContextManager:
  """Returns `open_workers`, or without `--workers` a runtime of this machine."""
  return runtime.LocalRuntime() if flags.FLAGS.workers is None else open_workers(with_sites)


def open_documents(stack: contextlib.ExitStack) -> Mapping[str, Mapping[str, Any]]:
  """Connects to the workers of `--workers`, which own the clients.

  The connections are open, and TFF computes there, as long as `stack` is.

  Returns:
    What every site says of itself, dicts of `Site.to_json` by address.

  Raises:
    launch.InputError: If a worker can't be used, or owns no clients.
    launch.RunFailed: If this machine's own worker process does not start.
  """
  try:
    opened = stack.enter_context(_open_pool())
  except worker_lost.WorkerLost as e:
    raise launch.RunFailed(str(e)) from e
  if not opened.sites:
    raise launch.InputError(
        "`workers` must own clients if there is no --data_dir, got "
        f"{','.join(flags.FLAGS.workers)}; `bazel run tools:site` starts a worker that does."
    )
  return opened.sites
