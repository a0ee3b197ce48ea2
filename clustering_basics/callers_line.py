"""Warnings that point at the line of the caller, not at one of this project."""

import inspect
import warnings

# The caller's line may come first in a pipeline of scikit-learn's.
_INNER = ("clustering_basics", "dp_clustering", "fl_clustering", "sklearn")


def warn(text: str, category: type[Warning] = UserWarning) -> None:
  """Warns at the innermost line outside of the estimators' packages."""
  level, frame = 1, inspect.currentframe()
  while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] in _INNER:
    level, frame = level + 1, frame.f_back
  warnings.warn(text, category, stacklevel=level)
