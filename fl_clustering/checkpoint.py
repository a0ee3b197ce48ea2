"""Saves how far a run has come, so that it can be interrupted at any moment.

A run is a sequence of stages (pretraining, then every method), and a stage a
sequence of rounds.  A checkpoint is the state after a round of a stage and the
metrics of all its rounds so far.  Files are replaced in one step: a program
that is killed while it saves leaves the checkpoint before.
"""

import json
import os
import time
import zipfile

import numpy as np

from clustering_basics import atomic_file

# Large models take a while to write. Past its first checkpoint, a stage spends
# at most about this share of its time on saving.
_SAVING_SHARE = 0.05
_META = "meta"


class DamagedCheckpoint(ValueError):
  """A checkpoint can't be read."""


class Checkpoints:
  """Checkpoints of one run in one folder, a file per stage."""

  def __init__(self, directory):
    """Creates the folder if needed and removes what an interrupted save left.

    Args:
      directory: The folder.
    """
    self._directory = directory
    os.makedirs(directory, exist_ok=True)
    for name in os.listdir(directory):
      if name.startswith("."):
        os.remove(os.path.join(directory, name))
    self._not_before = {}

  def _path(self, stage):
    return os.path.join(self._directory, f"{stage}.npz")

  def load(self, stage):
    """Returns (round, state, history) of a stage's checkpoint, or `None`.

    Args:
      stage: The stage's name.

    Raises:
      DamagedCheckpoint: If the file can't be read.
    """
    path = self._path(stage)
    if not os.path.exists(path):
      return None
    try:
      # Opened here, because NumPy leaves a file open that it can't read.
      with open(path, "rb") as f, np.load(f, allow_pickle=False) as file:
        state = {name: file[name] for name in file.files if name != _META}
        meta = json.loads(file[_META].item())
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as e:
      raise DamagedCheckpoint(
          f"the checkpoint {path} can't be read ({e}); remove it to repeat its "
          "stage, or start again with --overwrite."
      ) from e
    return meta["round"], state, meta["history"]

  def save(self, stage, round_num, state, history, at_once):
    """Saves a stage after a round, unless it was saved a moment ago.

    Args:
      stage: The stage's name, part of the file name.
      round_num: The number of the round that ended.
      state: A dict of arrays.
      history: The rows of all rounds so far, as lists of plain values.
      at_once: Whether to save whatever was saved a moment ago: the stage's last round,
        or one that can't be repeated.
    """
    start = time.monotonic()
    if not at_once and start < self._not_before.get(stage, start):
      return
    meta = json.dumps({"round": round_num, "history": history})
    atomic_file.write_arrays(self._path(stage), {_META: np.array(meta), **state})
    end = time.monotonic()
    self._not_before[stage] = end + (end - start) / _SAVING_SHARE


class NoCheckpoints:
  """The same interface for a run that saves nothing."""

  def load(self, stage):
    del stage
    return None

  def save(self, stage, round_num, state, history, at_once):
    del stage, round_num, state, history, at_once
