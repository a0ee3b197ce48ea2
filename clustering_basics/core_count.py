"""Counts the processor's cores: all of them before scikit-learn does, and those to be used."""

import contextlib
import functools
import io
import warnings


def usable() -> int:
  """Returns how many cores this process may use, by its affinity and its container's quota."""
  import joblib  # pylint: disable=g-import-not-at-top

  return joblib.cpu_count()


@functools.lru_cache(maxsize=None)  # joblib warns the first time only.
def count_quietly() -> None:
  """Has joblib count the physical cores, and drops its warning if it can't.

  scikit-learn's k-means and nearest points choose their threads by this number.  Where
  `lscpu` does not work, as in a bare container, joblib takes the logical cores and
  prints a warning with a part of a traceback.  Call this before either of them.
  """
  import joblib  # pylint: disable=g-import-not-at-top

  with warnings.catch_warnings(), contextlib.redirect_stderr(io.StringIO()):
    warnings.simplefilter("ignore")
    joblib.cpu_count(only_physical_cores=True)
