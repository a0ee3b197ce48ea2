"""A finished run, read back from its output folder.

Reports are drawn from these files alone, so they can be drawn again later or elsewhere
without measuring anything.
"""

import contextlib
import csv
import dataclasses
import functools
import io
import json
import os
from typing import Any, Callable, Collection, Iterator, Mapping, NoReturn

from experiment_shell import output_folder


class DamagedFile(ValueError):
  """A file of a finished run can't be read."""

  def __init__(self, path: str, reason: object) -> None:
    super().__init__(f"{path!r} can't be read ({reason}).")
    self.name = os.path.basename(path)
    self.reason = reason


@contextlib.contextmanager
def damage(path: str) -> Iterator[None]:
  """Turns errors in the content of a file into `DamagedFile`."""
  try:
    yield
  except (ValueError, csv.Error) as e:
    raise DamagedFile(path, e) from e


class Part(dict):
  """An object of a JSON file, a row of a table, or a folder's tables; what it lacks is damage."""

  def __init__(self, values: Mapping[str, Any], path: str) -> None:
    super().__init__(values)
    self._path = path

  def __missing__(self, name: str) -> NoReturn:
    raise DamagedFile(self._path, f"it has no {name!r}")


def _parsed(text: str) -> Any:
  """Returns a number if the text is one, None if it is empty, and else the text."""
  for kind in (int, float):
    with contextlib.suppress(ValueError):
      return kind(text)
  return text or None


@dataclasses.dataclass(frozen=True)
class FinishedRun:
  """The files of one output folder.

  Reading a file raises a `DamagedFile` if its content can't be read.  So does looking up what a
  JSON object or a row lacks.
  """

  path: str

  def join(self, name: str) -> str:
    """Returns the path of a file in the folder."""
    return os.path.join(self.path, name)

  def has(self, name: str) -> bool:
    return os.path.exists(self.join(name))

  def _json(self, name: str, read: Callable[..., Any]) -> Any:
    """Returns what a function like `json.load` reads of a file."""
    path = self.join(name)
    with damage(path), open(path, encoding="utf-8") as file:
      return read(file, object_hook=lambda values: Part(values, path))

  def check(self) -> None:
    """Raises a `DamagedFile` unless `config.json` and `summary.json` can be read."""
    self.document  # pylint: disable=pointless-statement
    self.summary  # pylint: disable=pointless-statement

  @functools.cached_property
  def document(self) -> dict[str, Any]:
    """The content of `config.json`: settings, data, versions."""
    return self._json(output_folder.CONFIG, output_folder.read_config)

  @functools.cached_property
  def summary(self) -> dict[str, Any]:
    """The content of `summary.json`."""
    summary = self._json(output_folder.SUMMARY, json.load)
    if not isinstance(summary, dict):
      raise DamagedFile(self.join(output_folder.SUMMARY), "it is no JSON object")
    return summary

  @property
  def settings(self) -> dict[str, Any]:
    """The settings, a dict from name to value."""
    return self.document["config"]

  def rows(self, name: str, text_columns: Collection[str] = ()) -> list[dict[str, Any]]:
    """Returns the rows of a CSV file in the folder, dicts by column.

    Args:
      text_columns: Names of columns that stay text even if it reads as a number.
    """
    header, lines = self.table(name, text_columns)
    path = self.join(name)
    return [Part(dict(zip(header, line)), path) for line in lines]

  def table(
      self, name: str, text_columns: Collection[str] = ()
  ) -> tuple[list[str], list[list[Any]]]:
    """Returns header and rows of a CSV file in the folder, where columns may share a name."""
    path = self.join(name)
    with damage(path), open(path, encoding="utf-8", newline="") as file:
      text = file.read()
      if not text.endswith("\n"):
        raise ValueError("its last line is not complete")
      header, *lines = csv.reader(io.StringIO(text, newline=""), strict=True)
      for number, line in enumerate(lines, start=1):
        if len(line) != len(header):
          raise ValueError(f"row {number} has {len(line)} cells, not {len(header)}")
    parsers = [str if name in text_columns else _parsed for name in header]
    return header, [[parse(cell) for parse, cell in zip(parsers, line)] for line in lines]
