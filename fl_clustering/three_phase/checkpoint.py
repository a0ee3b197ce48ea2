"""Saves how far a run has come, so that it can be interrupted at any moment.

A run is a sequence of stages (pretraining, then every method), and a stage a
sequence of rounds.  A checkpoint is the state after a round of a stage, the metrics
of all its rounds so far, and a digest of what the stage started from: a stage never
goes on from the state of another start.  Files are replaced in one step: a program
that is killed while it saves leaves the checkpoint before.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from typing import Mapping

from absl import logging
import numpy as np

from clustering_basics import atomic_file

# Large models take a while to write. Past its first checkpoint, a stage spends
# at most about this share of its time on saving.
SAVING_SHARE = 0.05
_META = "meta"
_ADVICE = "remove it to repeat its stage, or start again with --overwrite"


# The round that ended, the state after it, and the rows of all rounds so far as lists of values.
Saved = tuple[int, dict[str, np.ndarray], list]


class DamagedCheckpoint(ValueError):
  """A checkpoint can't be read, or is of another start of its stage."""


def _damaged(path: str, error: Exception, advice: str) -> DamagedCheckpoint:
  return DamagedCheckpoint(f"the checkpoint {path} can't be read ({error}); {advice}.")


def _read(path: str, advice: str = _ADVICE) -> tuple[str, Saved]:
  """Returns the digest of what a file's stage started from, and the stage as saved."""
  try:
    state = atomic_file.read_arrays(path)
    meta = json.loads(state.pop(_META).item())
    return meta["started_from"], (int(meta["round"]), state, list(meta["history"]))
  except (OSError, ValueError, KeyError, TypeError) as e:
    raise _damaged(path, e, advice) from e


class Checkpoints:
  """Checkpoints of one run in one folder, a file per stage."""

  def __init__(self, directory: str, reuse: str | None = None):
    """Creates the folder if needed and removes what an interrupted save left.

    Args:
      reuse: The folder of another run's checkpoints, which is only read.  A stage that
        started from the same there, and has no checkpoint here, goes on from there.
    """
    self._directory = directory
    self._reuse = reuse
    os.makedirs(directory, exist_ok=True)
    for name in os.listdir(directory):
      if name.startswith("."):
        os.remove(os.path.join(directory, name))
    self._not_before: dict[str, float] = {}
    self._warned = False

  def _path(self, stage: str, directory: str | None = None) -> str:
    return os.path.join(directory or self._directory, f"{stage}.npz")

  def damaged(self, stage: str, error: Exception) -> DamagedCheckpoint:
    """Returns the error for a stage whose file can't be used, and why."""
    return _damaged(self._path(stage), error, _ADVICE)

  def load(self, stage: str, started_from: str) -> Saved | None:
    """Returns a stage's checkpoint, or `None`.

    Args:
      started_from: The digest of what the stage starts from.

    Raises:
      DamagedCheckpoint: If the file can't be read, or is of another start.
    """
    path = self._path(stage)
    if os.path.exists(path):
      found_start, found = _read(path)
      if found_start != started_from:
        raise DamagedCheckpoint(
            f"the checkpoint {path} does not fit this run: its stage started from another "
            "state; remove it to repeat its stage, or start again with --overwrite."
        )
      return found
    other = self._reuse and self._path(stage, self._reuse)
    if other and os.path.exists(other):
      found_start, found = _read(other, "--resume without --reuse continues this run")
      if found_start == started_from:
        with atomic_file.atomic_path(path) as temporary:
          shutil.copyfile(other, temporary)
        return found
      if not self._warned:
        logging.warning(
            "The stage %s started from other data or settings in %s, so it is trained again, and "
            "so is every other stage for which this holds.", stage, self._reuse,
        )
        self._warned = True
    return None

  def save(
      self, stage: str, started_from: str, round_num: int, state: Mapping[str, np.ndarray],
      history: list, at_once: bool,
  ) -> None:
    """Saves a stage after a round, unless it was saved a moment ago.

    Args:
      stage: The stage's name, part of the file name.
      started_from: The digest of what the stage started from.
      round_num: The number of the round that ended.
      history: The rows of all rounds so far, as lists of plain values.
      at_once: Whether to save whatever was saved a moment ago: the stage's last round.
    """
    start = time.monotonic()
    if not at_once and start < self._not_before.get(stage, start):
      return
    meta = json.dumps(
        {"started_from": started_from, "round": round_num, "history": history}
    )
    atomic_file.write_arrays(self._path(stage), {_META: np.array(meta), **state})
    end = time.monotonic()
    self._not_before[stage] = end + (end - start) / SAVING_SHARE
