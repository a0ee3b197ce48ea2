"""What a run releases: its ledger, its noise, and a journal that survives an interruption.

The journal is written ahead: a release is on disk before anything is asked, and its answer when it
is there.  A run that is resumed takes the answers from the journal and asks on from there.  A
release without an answer was perhaps made, so it is charged, never asked again, and counts as
lost; the run goes on without it.
"""

from __future__ import annotations

import dataclasses
import json
import os
from typing import Callable

import numpy as np

from clustering_basics import atomic_file
from clustering_basics import randomness
from dp_clustering import ledger as ledger_lib
from dp_clustering import noise

_ENTRIES = "releases.jsonl"


class OtherReleases(ValueError):
  """A journal is of a run with other settings."""


def _entries(path: str) -> list[ledger_lib.Release]:
  """Returns the releases in a journal, and cuts off a last line that is not whole.

  Nothing was asked before its line was whole.
  """
  if not os.path.exists(path):
    return []
  with open(path, "rb+") as file:
    lines = file.read().splitlines(keepends=True)
    if lines and not lines[-1].endswith(b"\n"):
      file.truncate(sum(map(len, lines[:-1])))
      lines.pop()
  try:
    return [ledger_lib.Release(**json.loads(line)) for line in lines]
  except (ValueError, TypeError) as e:
    raise ValueError(f"`journal` must hold a release in every line, got {path}: {e}.") from e


class Releases:
  """The releases of one run, in their order; also the source of their noise.

  Attributes:
    ledger: Of the whole run.
    lost: The names of releases that were charged without an answer.
    description: As in `noise.Source`.
    is_private: Likewise.
  """

  def __init__(
      self, epsilon: float, delta: float, noise_seed: int | None = None,
      journal: str | None = None,
  ) -> None:
    """Opens the books.

    Args:
      epsilon: The budget; `inf` for no privacy.
      delta: Likewise.
      noise_seed: Of noise that can be repeated, which is NOT private; None for secure noise.
      journal: A folder, made if need be, with the releases so far; None keeps no journal.

    Raises:
      ValueError: If the journal can't be read.
    """
    self._epsilon = epsilon
    self._noise_seed = noise_seed
    self._source = noise.build_noise_source(epsilon, noise_seed)
    self.description, self.is_private = self._source.description, self._source.is_private
    self.ledger = ledger_lib.Ledger(epsilon, delta, self)
    self.lost: list[str] = []
    self._journal = journal
    self._before: list[ledger_lib.Release] = []
    if journal is not None:
      os.makedirs(journal, exist_ok=True)
      self._before = _entries(os.path.join(journal, _ENTRIES))

  def discrete_gaussian(self, shape: int | tuple[int, ...], scale: float) -> np.ndarray:
    return self._source.discrete_gaussian(shape, scale)

  def answer(self, question: Callable[[], np.ndarray]) -> np.ndarray | None:
    """Returns the noisy answer of the ledger's last release; None if it was lost.

    Args:
      question: Asks the clients; its noise must be from this source.

    Raises:
      OtherReleases: If the journal has another release in its place.
    """
    number = len(self.ledger.releases) - 1
    release = self.ledger.releases[number]
    path = os.path.join(self._journal or "", f"answer_{number:05d}.npy")
    if number < len(self._before):
      if self._before[number] != release:
        raise OtherReleases(
            f"`journal` must be of a run with the same settings, got {self._before[number].name!r} "
            f"with mu {self._before[number].mu:g} in place of {release.name!r} with {release.mu:g}."
        )
      if os.path.exists(path):
        return np.load(path)
      self.lost.append(release.name)
      return None
    if self._noise_seed is not None and self._epsilon < np.inf:
      # Of this release alone, so that a resumed run draws what it would have drawn.
      seed = int(randomness.generator(self._noise_seed, "release", number).integers(2**63))
      self._source = noise.SeededNoise(seed)
    if self._journal is None:
      return question()
    with open(os.path.join(self._journal, _ENTRIES), "a", encoding="utf-8") as file:
      file.write(json.dumps(dataclasses.asdict(release)) + "\n")
      file.flush()
      os.fsync(file.fileno())
    found = question()
    with atomic_file.atomic_path(path) as temporary:
      np.save(temporary, found, allow_pickle=False)
    return found
