"""Shows a run's rounds in TensorBoard, while it lasts."""

from __future__ import annotations

import os
import shutil
from typing import Sequence

from fl_clustering.three_phase import stages


class TensorBoard(stages.RunObserver):
  """Writes every metric of a round as a scalar, by method and cluster, at the round's number.

  Costs are those of the round alone.
  """

  def __init__(self, folder: str | os.PathLike[str]) -> None:
    """Writes into a folder, whose content is replaced: a resumed run repeats its rounds.

    Raises:
      ModuleNotFoundError: If TensorBoard is not installed.
    """
    from tensorboard import summary  # It imports TensorFlow, where that is installed.

    shutil.rmtree(folder, ignore_errors=True)
    self._writer = summary.Writer(os.fspath(folder))

  def __enter__(self) -> TensorBoard:
    return self

  def __exit__(self, *unused_exception: object) -> None:
    self._writer.close()

  def round_finished(self, stage: str, round_num: int, rows: Sequence[stages.Row]) -> None:
    for row in rows:
      curve = row.method if row.cluster == "" else f"{row.method}/cluster {row.cluster}"
      self._writer.add_scalar(f"{row.metric}/{curve}", row.value, round_num)
    self._writer.flush()
