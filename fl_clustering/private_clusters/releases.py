"""What a run releases: its ledger, its noise, and a journal that survives an interruption.

The journal is written ahead: a release is on disk before anything is asked, and its answer when it
is there.  A run that is resumed takes the answers from the journal and asks on from there.  A
release without an answer that can be read was perhaps made, so it is charged, never asked again,
and counts as lost; the run goes on without it.  Where nothing was released, the journal says so:
one whose entries are gone is no new one.
"""

from __future__ import annotations

import dataclasses
import json
import os
import re
from typing import Callable

import numpy as np

from clustering_basics import atomic_file
from clustering_basics import randomness
from dp_clustering import ledger as ledger_lib
from dp_clustering import noise

# The folder's name inside a run's, and the file of its entries.
JOURNAL, ENTRIES = "journal", "releases.jsonl"

_NO_ENTRIES = b"nothing was released"
_ANSWER = "answer"
_ANSWER_NAME = re.compile(r"answer_(\d{5,})\.npz")


class UnusableJournal(ValueError):
  """A journal is damaged, or of a run with other settings."""

  def __init__(self, message: str) -> None:
    super().__init__(
        f"{message} Take another folder; what a private run has released stays charged, and the "
        "budgets add up."
    )


def _entries(journal: str) -> tuple[list[ledger_lib.Release], bytes]:
  """Returns the releases in a journal, and a last line that is not whole."""
  path = os.path.join(journal, ENTRIES)
  with open(path, "rb") as file:
    content = file.read()
  if not content:
    raise UnusableJournal(f"`journal` must not be of an empty file, got {path}.")
  lines = [] if content == _NO_ENTRIES else content.splitlines(keepends=True)
  torn = lines.pop() if lines and not lines[-1].endswith(b"\n") else b""
  try:
    found = [ledger_lib.Release(**json.loads(line.decode("ascii"))) for line in lines]
  except (ValueError, TypeError) as e:
    raise UnusableJournal(f"`journal` must hold a release in every line, got {path}: {e}.") from e
  answered = [int(name[1]) for name in map(_ANSWER_NAME.fullmatch, os.listdir(journal)) if name]
  if max(answered, default=-1) >= len(found):
    raise UnusableJournal(
        f"`journal` must have a line for every answer, got {path} with {len(found)} lines and "
        f"answer {max(answered)}."
    )
  return found, torn


def _read_answer(path: str) -> np.ndarray | None:
  """Returns the array in the file of an answer; None if it is missing or damaged."""
  try:
    return atomic_file.read_arrays(path)[_ANSWER]
  except (FileNotFoundError, ValueError, KeyError):
    return None


class Releases:
  """The releases of one run, in their order; also the source of their noise.

  Attributes:
    ledger: Of the whole run.
    lost: The names of releases that were charged without an answer.
    description, is_private: As in `noise.Source`.
  """

  def __init__(
      self, epsilon: float, delta: float, noise_seed: int | None = None,
      journal: str | None = None, is_complete: bool = False,
  ) -> None:
    """Opens the books.

    Args:
      epsilon: The budget; `inf` for no privacy.
      noise_seed: Of noise that can be repeated, which is NOT private; None for secure noise.
      journal: A folder, made if need be, with the releases so far; None keeps no journal.
      is_complete: Whether all releases must be there, so that nothing is asked any more.

    Raises:
      UnusableJournal: If the journal can't be read.
    """
    self._epsilon = epsilon
    self._noise_seed = noise_seed
    self._source = noise.build_noise_source(epsilon, noise_seed)
    self.description, self.is_private = self._source.description, self._source.is_private
    self.ledger = ledger_lib.Ledger(epsilon, delta, self)
    self.lost: list[str] = []
    self._journal = journal
    self._is_complete = is_complete
    self._before: list[ledger_lib.Release] = []
    self._torn = b""
    if journal is not None:
      os.makedirs(journal, exist_ok=True)
      path = os.path.join(journal, ENTRIES)
      if not os.path.exists(path):
        atomic_file.write_text(path, _NO_ENTRIES.decode("ascii"))
      atomic_file.sync_folder(os.path.dirname(os.path.abspath(journal)))
      self._before, self._torn = _entries(journal)

  def discrete_gaussian(self, shape: int | tuple[int, ...], scale: float) -> np.ndarray:
    return self._source.discrete_gaussian(shape, scale)

  def answer(self, question: Callable[[], np.ndarray]) -> np.ndarray | None:
    """Returns the noisy answer of the ledger's last release; None if it was lost.

    Args:
      question: Asks the clients; its noise must be from this source.

    Raises:
      UnusableJournal: If the journal has another release in its place, or must be complete and
        has none.
    """
    number = len(self.ledger.releases) - 1
    release = self.ledger.releases[number]
    path = os.path.join(self._journal or "", f"answer_{number:05d}.npz")
    if number < len(self._before):
      if self._before[number] != release:
        raise UnusableJournal(
            f"`journal` must be of a run with the same settings, got {self._journal} with "
            f"{self._before[number]} in place of {release}."
        )
      found = _read_answer(path)
      if found is None:
        self.lost.append(release.name)
      return found
    if self._is_complete:
      raise UnusableJournal(
          "`journal` must hold all releases of a run that has published them, got "
          f"{self._journal} without {release.name}."
      )
    if self._noise_seed is not None and self._epsilon < np.inf:
      # Of this release alone, so that a resumed run draws what it would have drawn.
      seed = int(randomness.generator(self._noise_seed, "release", number).integers(2**63))
      self._source = noise.SeededNoise(seed)
    if self._journal is None:
      return question()
    is_torn = bool(self._torn)
    self._enter(release)
    if is_torn:
      self.lost.append(release.name)
      return None
    found = question()
    atomic_file.write_arrays(path, {_ANSWER: found})
    return found

  def _enter(self, release: ledger_lib.Release) -> None:
    """Writes a release to the journal, in the place of a line that is not whole.

    What is left of it is its beginning, and zeros if the machine lost its power.  The line may have
    been whole when the release was asked, and damaged since.
    """
    assert self._journal is not None  # As types can't say.
    path = os.path.join(self._journal, ENTRIES)
    line = json.dumps(dataclasses.asdict(release)).encode("ascii") + b"\n"
    if len(self._torn) > len(line) or not line.startswith(self._torn.rstrip(b"\0")):
      raise UnusableJournal(
          f"`journal` must end with a whole line or with what begins the next, got {path} with "
          f"{len(self._torn)} other bytes at its end."
      )
    with open(path, "ab") as file:
      is_first = len(self.ledger.releases) == 1
      file.truncate(0 if is_first else file.tell() - len(self._torn))
      file.write(line)
      file.flush()
      os.fsync(file.fileno())
    atomic_file.sync_folder(self._journal)
    self._torn = b""
