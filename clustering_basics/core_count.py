"""Counts the processor's cores before scikit-learn does, without a warning."""

import contextlib
import functools
import io
import warnings


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
