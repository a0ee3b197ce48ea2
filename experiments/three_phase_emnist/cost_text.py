"""What methods cost, as short texts: numbers of steps and of bytes."""

from typing import Sequence


def _in_units(value: float, units: Sequence[str]) -> str:
  """Returns a number of three digits, and the unit with which it is `value`."""
  position = 0
  while value >= 999.5 and position < len(units) - 1:
    value /= 1000
    position += 1
  return f"{value:.3g}{units[position]}"


def steps_text(value: float) -> str:
  """Returns a number of steps in a few characters, such as `12.3 k`."""
  return _in_units(value, ("", " k", " M", " G", " T"))


def bytes_text(value: float) -> str:
  """Returns a number of bytes in a few characters, such as `1.2 GB`."""
  return _in_units(value, (" B", " kB", " MB", " GB", " TB", " PB"))
