"""Shows how far a run is, in a terminal or a notebook."""

from __future__ import annotations

from typing import Any, Sequence

import tqdm

from fl_clustering.three_phase import stages


class ProgressBar(stages.RunObserver):
  """One bar for the whole run: rounds done and planned, time left, stage, its loss and accuracy."""

  def __init__(self) -> None:
    self._bar: Any = None
    self._num_done = 0

  def __enter__(self) -> ProgressBar:
    return self

  def __exit__(self, *unused_exception: object) -> None:
    self._close()

  def rounds_planned(self, num_rounds: int) -> None:
    # All that were planned before may be done, and the bar at its end.
    self._close()
    self._bar = tqdm.tqdm(total=num_rounds, initial=self._num_done, unit="round")

  def stage_begins(self, stage: str) -> None:
    self._bar.set_description(f"{stage:16}", refresh=False)

  def round_finished(self, stage: str, round_num: int, rows: Sequence[stages.Row]) -> None:
    values = {row.metric: row.value for row in rows if row.cluster == ""}
    losses = [row.value for row in rows if row.metric == "train_loss"]
    if losses:
      values["train_loss"] = sum(losses) / len(losses)
    shown = {"loss": "train_loss", "accuracy": "accuracy"}
    self._bar.set_postfix(
        {short: f"{values[name]:.3f}" for short, name in shown.items() if name in values},
        refresh=False,
    )
    if round_num:
      self._num_done += 1
      self._bar.update()
    if self._num_done == self._bar.total:
      self._close()

  def _close(self) -> None:
    if self._bar is not None:
      self._bar.close()
