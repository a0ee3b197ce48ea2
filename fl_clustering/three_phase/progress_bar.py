"""Shows how far a run is, in a terminal or a notebook."""

from __future__ import annotations

from typing import Any, Sequence

import tqdm

from fl_clustering.three_phase import stages


class ProgressBar(stages.RunObserver):
  """One bar per stage: round, loss, the clients' accuracy, time left."""

  def __init__(self) -> None:
    self._bar: Any = None
    self._rounds_done = 0

  def __enter__(self) -> ProgressBar:
    return self

  def __exit__(self, *unused_exception: object) -> None:
    self._close()

  def stage_started(self, stage: str, num_rounds: int, rounds_done: int) -> None:
    self._close()
    self._bar = tqdm.tqdm(
        desc=f"{stage:16}", total=num_rounds, initial=rounds_done, unit="round"
    )
    self._rounds_done = rounds_done

  def round_finished(self, stage: str, round_num: int, rows: Sequence[stages.Row]) -> None:
    values = {row.metric: row.value for row in rows if row.cluster == ""}
    losses = [row.value for row in rows if row.metric == "train_loss"]
    if losses:
      values["train_loss"] = sum(losses) / len(losses)
    shown = {"loss": "train_loss", "accuracy": "clients_accuracy_mean"}
    self._bar.set_postfix(
        {short: f"{values[name]:.3f}" for short, name in shown.items() if name in values},
        refresh=False,
    )
    # Rounds replayed from a checkpoint were counted at the start.
    if round_num > self._rounds_done:
      self._bar.update()
    if round_num == self._bar.total:
      # What follows may have a bar of its own.
      self._close()

  def _close(self) -> None:
    if self._bar is not None:
      self._bar.close()
