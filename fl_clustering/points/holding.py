"""Who computes for the clients of a fit: TFF, or this process where nothing needs TFF."""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import sys
import tempfile
from typing import Iterator, TYPE_CHECKING

from clustering_basics import extras
from fl_clustering.points import point_arrays

if TYPE_CHECKING:
  from fl_clustering.points import secure_sums


def _has_tff_context() -> bool:
  """Returns whether the caller has set a TFF context, which takes TFF to be imported."""
  if "tensorflow_federated" not in sys.modules:
    return False
  from fl_clustering import runtime  # pylint: disable=g-import-not-at-top

  return runtime.has_context_of_the_caller()


def _check_tff() -> None:
  """Raises an error unless TFF is installed."""
  if importlib.util.find_spec("tensorflow_federated") is None:
    raise ModuleNotFoundError(
        f"TensorFlow Federated must be installed for this algorithm, and isn't; {extras.advice()}. "
        "The default algorithm needs no extra."
    )


@contextlib.contextmanager
def open_clients(needs_tff: bool, in_files: bool = False) -> Iterator[secure_sums.Hold]:
  """Returns what gives points to those who compute: TFF's clients, or this process.

  TFF's clients compute in the caller's context, if there is one, such as a
  `fl_clustering.runtime.LocalRuntime` or workers.  Without one this process computes, without TFF,
  or a runtime that ends with the block if TFF is needed.

  Args:
    needs_tff: Whether clients compute more than answers to a `secure_sums.Question`.
    in_files: Whether this process keeps the points in files, too, as they may exceed the memory.

  Raises:
    ModuleNotFoundError: If TFF is needed and not installed.
  """
  with tempfile.TemporaryDirectory() as folder:
    if not needs_tff and not _has_tff_context():
      yield functools.partial(point_arrays.hold, directory=folder if in_files else None)
      return
    _check_tff()
    # TensorFlow Federated takes seconds to import.
    # pylint: disable=g-import-not-at-top
    from fl_clustering import runtime
    from fl_clustering.points import point_files
    # pylint: enable=g-import-not-at-top

    with runtime.of_the_caller_or_own():
      yield functools.partial(point_files.write_files, directory=folder)
