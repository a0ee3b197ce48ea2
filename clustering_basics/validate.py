"""Checks of arguments; the messages name the argument.

Every check takes the rule first and then exactly one keyword argument.  The keyword is
the argument's name in the message:

  validate.integer(minimum=1, num_clusters=0)
  # ValueError: `num_clusters` must be an integer >= 1, got 0.
"""

import functools
import numbers
import os
import sys
from typing import Any, Callable, Collection

# Characters of a value; a file that others sent may hold a long one.
_MOST_SHOWN = 1000
# Integers may be larger, which are of no use: floats are computed with.
_LARGEST = sys.float_info.max


def _only(argument: Any) -> tuple[str, Any]:
  ((name, value),) = argument.items()
  return name, value


def error(name: str, rule: str, value: Any) -> ValueError:
  """Returns a ValueError that states the argument, the rule it breaks and its value.

  Args:
    rule: What follows "must", such as "be a number > 0".
  """
  try:
    shown = f"{value!r}"
  except ValueError:  # Python makes no text of an integer of more than 4300 digits.
    shown = f"{type(value).__name__} too long to print"
  if len(shown) > _MOST_SHOWN:
    shown = f"{shown[:_MOST_SHOWN]}..."
  return ValueError(f"`{name}` must {rule}, got {shown}.")


def boolean(**argument: Any) -> None:
  """Checks for True or False."""
  name, value = _only(argument)
  if not isinstance(value, bool):
    raise error(name, "be True or False", value)


def utf_8(**argument: str) -> None:
  """Checks for text that UTF-8 has; Python makes other text of other bytes in names of files."""
  name, value = _only(argument)
  try:
    value.encode()
  except UnicodeEncodeError as e:
    encoding = sys.getfilesystemencoding()
    rule = (
        "be in UTF-8" if encoding == "utf-8"
        else f"be in this system's {encoding}, or PYTHONUTF8=1 be set"
    )
    raise error(name, rule, value) from e


def integer(minimum: int, maximum: float | None = None, **argument: Any) -> None:
  """Checks for an integer (not a bool) in [minimum, maximum].

  Args:
    maximum: The largest value allowed; None for that of floats.
  """
  name, value = _only(argument)
  is_integer = isinstance(value, numbers.Integral) and not isinstance(value, bool)
  if maximum is None and is_integer and value > _LARGEST:
    maximum = _LARGEST
  if not is_integer or value < minimum or maximum is not None and value > maximum:
    rule = f">= {minimum}" if maximum is None else f"in [{minimum}, {maximum}]"
    raise error(name, f"be an integer {rule}", value)


AT_LEAST_ZERO = functools.partial(integer, 0)
AT_LEAST_ONE = functools.partial(integer, 1)


def _number(rule: str, fits: Callable[[Any], bool], argument: Any) -> None:
  name, value = _only(argument)
  if isinstance(value, bool) or not isinstance(value, numbers.Real) or not fits(value):
    raise error(name, rule, value)


def positive(**argument: Any) -> None:
  """Checks for a finite number above zero."""
  _number("be a finite number > 0", lambda value: 0 < value <= _LARGEST, argument)


def not_negative(**argument: Any) -> None:
  """Checks for a finite number of at least zero."""
  _number("be a finite number >= 0", lambda value: 0 <= value <= _LARGEST, argument)


def between(low: float, high: float, **argument: Any) -> None:
  """Checks for a number in the open interval (low, high)."""
  _number(f"be a number in ({low}, {high})", lambda value: low < value < high, argument)


def up_to(high: float, **argument: Any) -> None:
  """Checks for a number in the half-open interval (0, high]."""
  _number(f"be a number in (0, {high}]", lambda value: 0 < value <= high, argument)


def within(low: float, high: float, **argument: Any) -> None:
  """Checks for a number in the closed interval [low, high]."""
  _number(f"be a number in [{low:g}, {high:g}]", lambda value: low <= value <= high, argument)


def instance(kind: type, **argument: Any) -> None:
  """Checks for an instance of a class.

  Raises:
    TypeError: If it is of another class.
  """
  name, value = _only(argument)
  if not isinstance(value, kind):
    raise TypeError(f"`{name}` must be a {kind.__name__}, got {type(value).__name__}.")


def one_of(choices: Collection[str], **argument: Any) -> None:
  """Checks for one of `choices`."""
  name, value = _only(argument)
  if value not in choices:
    raise error(name, "be one of " + ", ".join(choices), value)


def regular_files(**argument: str) -> None:
  """Raises a ValueError if a folder holds what a reader may wait for, such as a named pipe."""
  name, folder = _only(argument)
  for parent, _, files in os.walk(folder):
    for path in (os.path.join(parent, file) for file in files):
      if os.path.exists(path) and not os.path.isfile(path):
        raise error(name, "hold files and folders, and nothing else", path)
