"""The output folder of an experiment: checks whether it can be used, and prepares it.

`config.json` is written first and `report.html` last, so a folder with a report is a
finished run.  Before anything is released, `config.json` also says whether that counts for good:
such a run is not removed, nor is anything without a `config.json`.
"""

import contextlib
import csv
import importlib.metadata
import io
import json
import os
import platform
import shutil
from typing import Any, Iterable, Mapping, Sequence
import weakref

from absl import logging

from clustering_basics import atomic_file
from clustering_basics import file_format
from clustering_basics import validate
from experiment_shell import finished_run

REPORT = "report.html"
SUMMARY = "summary.json"
# The file that a run has locked.  It is no result, and a killed run leaves it.
LOCK = ".lock"
# The part of `config.json` that states with which other versions the run was resumed.
RESUMED_WITH = "resumed_with"
# The part that states whether what the run releases counts for good.
_CHARGED = "charged"
_STAYS_CHARGED = (
    "Take another folder; what a private run has released stays charged, and the budgets add up."
)


def json_text(value: Any) -> str:
  """Returns a value as the text of a JSON file."""
  return json.dumps(value, indent=1, allow_nan=False) + "\n"


def csv_text(header: Iterable[str], rows: Iterable[Iterable[Any]]) -> str:
  """Returns a table as the text of a CSV file."""
  text = io.StringIO()
  writer = csv.writer(text, lineterminator="\n")
  writer.writerow(header)
  writer.writerows(rows)
  return text.getvalue()


def versions(packages: Iterable[str]) -> dict[str, str]:
  """Returns the versions of Python and of those packages that are installed, by name."""
  found = {"python": platform.python_version()}
  for name in packages:
    # Some runs need no TensorFlow.
    with contextlib.suppress(importlib.metadata.PackageNotFoundError):
      found[name] = importlib.metadata.version(name)
  return found


def version_changes(before: Mapping[str, str], now: Mapping[str, str]) -> str:
  """Returns in words which versions differ, or "" if none does."""
  changes = []
  for name in dict.fromkeys((*before, *now)):
    if name not in now:
      changes.append(f"no {name} (before: {before[name]})")
    elif now[name] != before.get(name):
      changes.append(f"{name} {now[name]} (before: {before.get(name, 'none')})")
  return ", ".join(changes)


class OtherConfig(ValueError):
  """The settings are not those of the run to resume."""


def _release(path: str, descriptor: int) -> None:
  """Removes a lock's file, while no other run can have it, and releases the lock."""
  with contextlib.suppress(OSError):
    os.unlink(path)
  os.close(descriptor)


class OutputFolder:
  """The output folder of one run.

  Attributes:
    path: The folder's absolute path.
    recorded: The content of `config.json` if its run is to be resumed, else None.
    is_finished: Whether the run to resume is finished.
  """

  def __init__(
      self, path: str, resume: bool, overwrite: bool, files: Iterable[str],
      folders: Sequence[str] = (),
  ) -> None:
    """Inspects the folder without changing it.

    Args:
      files: Names of the files that the experiment writes, besides `config.json`,
        `summary.json` and `report.html`.
      folders: Names of the folders that it writes.

    Raises:
      ValueError: If the folder can't be used this way.
    """
    self.path = os.path.abspath(path)
    validate.utf_8(output_dir=self.path)
    self._files = (finished_run.CONFIG, SUMMARY, REPORT, *files)
    self._folders = folders
    self._unlock = lambda: None
    if resume and overwrite:
      raise ValueError("`resume` must not be given together with `overwrite`.")
    names = self._names()
    if names and not (resume or overwrite):
      raise ValueError(
          "`output_dir` must be empty without --resume or --overwrite, got "
          f"{path!r} with {len(names)} entries."
      )
    # A run that was killed while it wrote the settings has left a part of these.
    others = sorted(name for name in names if not name.startswith(f".{finished_run.CONFIG}."))
    if others and finished_run.CONFIG not in names:
      raise ValueError(
          f"`output_dir` must hold {finished_run.CONFIG}, which says whether a run is private, for "
          f"--resume or --overwrite, got {path!r} with {others[0]!r} and without it. "
          f"{_STAYS_CHARGED}"
      )
    validate.regular_files(output_dir=self.path)
    # Read for --overwrite too: an unreadable file may belong to something else.
    self._there = self._found_config()
    self.recorded = self._there if resume else None
    self.is_finished = self.recorded is not None and REPORT in names

  def _is_ours(self, name: str) -> bool:
    # An interrupted write leaves a temporary file called `.NAME.PID.EXTENSION`.
    return name in self._folders or any(
        name == file or name.startswith(f".{file}.") for file in self._files
    )

  def _names(self) -> list[str]:
    if not os.path.lexists(self.path):
      return []
    try:
      return [name for name in os.listdir(self.path) if name != LOCK]
    except OSError as e:
      raise self._unusable(e) from e

  def _unusable(self, error: OSError) -> ValueError:
    """Returns the ValueError for a folder that can't be used because of an OSError."""
    return ValueError(
        "`output_dir` must be a folder that can be read and written, got "
        f"{self.path!r} ({error.strerror or error})."
    )

  def damaged(self, error: object) -> ValueError:
    """Returns the ValueError for a `config.json` that can't be used."""
    return ValueError(
        f"`output_dir` must hold a readable {finished_run.CONFIG} of this program for --resume or "
        f"--overwrite, got {self.join(finished_run.CONFIG)!r} ({error})."
    )

  def _found_config(self) -> dict[str, Any] | None:
    """Returns the content of `config.json`; None if it is missing."""
    if finished_run.CONFIG not in self._names():
      return None
    try:
      return finished_run.FinishedRun(self.path).document
    except finished_run.DamagedFile as e:
      raise self.damaged(e.reason) from e

  def join(self, name: str) -> str:
    """Returns the path of a file in the folder."""
    return os.path.join(self.path, name)

  def check_same_config(self, config: Mapping[str, Any], experiment: str | None = None) -> None:
    """Raises an `OtherConfig` unless `config` is that of the run to resume.

    It raises a ValueError if the run to resume or to overwrite is another program's.

    Args:
      experiment: The experiment's name in `config.json`; None if it has none.
    """
    if self._there is None:
      return
    if self._there.get("experiment") != experiment:
      raise ValueError(
          f"`output_dir` must hold a run of this program ({experiment}) for --resume or "
          f"--overwrite, got {self.path!r} with one of {self._there.get('experiment')}."
      )
    if self.recorded is None:
      return
    recorded = self.recorded["config"]
    for name in dict.fromkeys((*config, *recorded)):
      if recorded.get(name) != config.get(name):
        raise OtherConfig(
            f"`{name}` must be {recorded.get(name)!r}, as in the run to resume, got "
            f"{config.get(name)!r}."
        )

  def start(self, document: Mapping[str, Any], charged_in: str | None = None) -> None:
    """Prepares the folder and writes `config.json`.

    If a run is resumed, its `config.json` stays.  A warning tells if the versions of the
    software differ, and `config.json` states them too, as `resumed_with`.  A report and a
    summary go: the run is not finished any more.

    No other run can start in the folder until `close` or the end of the program.

    Args:
      document: The content of `config.json`, a dict with the settings under "config" and
        the versions under "versions".
      charged_in: Of a run whose releases count for good, the file from which it goes on, and
        without which it doesn't; None for other runs.

    Raises:
      ValueError: If the folder can't be written, or, of such a run, not locked; another run is
        writing it; the run that is there must not be removed, or lacks the file from which it
        would go on.
    """
    try:
      os.makedirs(self.path, exist_ok=True)
      self._lock(is_charged=charged_in is not None)
      if self.recorded is None:
        if self._there is not None and self._there.get(_CHARGED):
          raise ValueError(
              "`output_dir` must not hold a private run that would be removed, got "
              f"{self.path!r}. --resume goes on with it. {_STAYS_CHARGED}"
          )
        self._clear()
        stated = {**document, _CHARGED: charged_in is not None}
        self.write_text(finished_run.CONFIG, json_text(file_format.stamped(stated)))
      else:
        if charged_in is not None and not os.path.exists(self.join(charged_in)):
          raise ValueError(
              f"`output_dir` must hold {charged_in} for a private run to be resumed, got "
              f"{self.path!r} without it. {_STAYS_CHARGED}"
          )
        self._record_resumption(self.recorded, document.get("versions", {}))
        for name in (REPORT, SUMMARY):
          with contextlib.suppress(FileNotFoundError):
            os.remove(self.join(name))
    except OSError as e:
      raise self._unusable(e) from e

  def close(self) -> None:
    """Lets other runs start in the folder."""
    self._unlock()

  def _lock(self, is_charged: bool) -> None:
    in_use, problem = False, None
    try:
      import fcntl  # pylint: disable=g-import-not-at-top
    except ImportError:
      problem = "not on this system"
    else:
      # The kernel releases the lock when the program ends, however it ends.  NFS locks for one
      # program only what it has open for writing.
      path = self.join(LOCK)
      descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
      try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # Another run may have removed it since, and a third one made a new one.
        in_use = not os.path.exists(path) or not os.path.samestat(
            os.fstat(descriptor), os.stat(path)
        )
      except BlockingIOError:
        in_use = True
      except OSError as e:
        problem = e.strerror
      if in_use:
        os.close(descriptor)
      else:
        self._unlock = weakref.finalize(self, _release, path, descriptor)
    if problem is not None and is_charged:  # Two runs would spend the budget twice.
      raise ValueError(
          f"`output_dir` must be where a private run can lock files, got {self.path!r} ({problem})."
      )
    if problem is not None:
      logging.warning(
          "%s can't be locked (%s), so nothing keeps a second run out of it.", self.path, problem
      )
    if in_use or self._found_config() != self._there:  # Another run has started since.
      raise ValueError(
          f"`output_dir` must not be in use by another run, got {self.path!r}."
      )

  def _record_resumption(self, recorded: dict[str, Any], now: Mapping[str, str]) -> None:
    """Adds the versions with which the run goes on to `config.json`, if they are others."""
    changes = version_changes(recorded.get("versions", {}), now)
    if not changes:
      return
    logging.warning(
        "The run is resumed with other versions: %s. Its numbers may differ from those of an "
        "uninterrupted run.", changes,
    )
    others = recorded.get(RESUMED_WITH, [])
    if now not in others:
      self.recorded = {**recorded, RESUMED_WITH: [*others, now]}
      self.write_text(finished_run.CONFIG, json_text(self.recorded))

  def _clear(self) -> None:
    # The user's own files stay.  The settings go last: as long as they exist, the rest can
    # be recognized as part of their run.
    ours = sorted(filter(self._is_ours, self._names()), key=lambda n: n == finished_run.CONFIG)
    for name in ours:
      path = self.join(name)
      # Of a link, only the link is the run's own.
      if name in self._folders and not os.path.islink(path):
        shutil.rmtree(path)
      else:
        os.remove(path)

  def write_text(self, name: str, text: str) -> None:
    """Writes the text to a file in the folder, wholly or not at all."""
    atomic_file.write_text(self.join(name), text)
