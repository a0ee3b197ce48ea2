"""The format of what programs write and later ones read: settings of runs, models, checkpoints."""

from typing import Any, Mapping

# It goes up whenever older files would be read wrongly, or not at all.
FORMAT = 7
_KEY = "format"


def stamped(document: Mapping[str, Any]) -> dict[str, Any]:
  """Returns a document with the format of this version in it."""
  return {_KEY: FORMAT, **document}


def check(document: Mapping[str, Any]) -> None:
  """Raises a ValueError unless a document is of the format of this version."""
  found = document.get(_KEY, 1)
  if found != FORMAT:
    raise ValueError(f"it is of format {found!r}, and this version reads format {FORMAT} only")
