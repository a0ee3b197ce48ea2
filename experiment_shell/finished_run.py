"""A finished run, read back from its output folder.

Reports are drawn from these files alone, so they can be drawn again later or elsewhere
without measuring anything.
"""

import contextlib
import csv
import dataclasses
import functools
import json
import os
from typing import Any, Iterator, Mapping, NoReturn

from clustering_basics import file_format

CONFIG = "config.json"


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
  """An object of a JSON file, or a folder's tables; what it lacks is damage."""

  def __init__(self, values: Mapping[str, Any], path: str) -> None:
    super().__init__(values)
    self._path = path

  def __missing__(self, name: str) -> NoReturn:
    raise DamagedFile(self._path, f"it has no {name!r}")


@dataclasses.dataclass(frozen=True)
class FinishedRun:
  """The files of one output folder; `tidy_tables.read` reads its tables."""

  path: str

  def join(self, name: str) -> str:
    """Returns the path of a file in the folder."""
    return os.path.join(self.path, name)

  def has(self, name: str) -> bool:
    return os.path.exists(self.join(name))

  @functools.cached_property
  def document(self) -> dict[str, Any]:
    """The content of `config.json`: settings, data, versions.

    If it can't be read, that is a `DamagedFile`; so is looking up what one of its objects lacks.
    """
    path = self.join(CONFIG)
    with damage(path), open(path, encoding="utf-8") as file:
      document = json.load(file, object_hook=lambda values: Part(values, path))
      if not isinstance(document, dict) or not isinstance(document.get("config"), dict):
        raise ValueError("it has no settings")
      file_format.check(document)
      return document

  @property
  def settings(self) -> dict[str, Any]:
    """The settings, a dict from name to value."""
    return self.document["config"]
