"""Keeps what a three-phase run tells, and can stop it at one moment."""

from fl_clustering.three_phase import stages


class Stop(Exception):
  """Raised where a run is to be stopped."""


class Recorder(stages.RunObserver):
  """Keeps the rows of all rounds; raises `Stop` after one of them.

  Attributes:
    rows: The `stages.Row`s so far.
    num_rounds: How many rounds every stage has that began, by its name.
    num_planned: How many rounds there will be in all, as told last.
  """

  def __init__(self, stop_at=None):
    """Starts empty.

    Args:
      stop_at: The stage and the round after which to stop; `None` = nowhere.
    """
    self.rows = []
    self.num_rounds = {}
    self.num_planned = None
    self._stop_at = stop_at

  def rounds_planned(self, num_rounds):
    self.num_planned = num_rounds

  def round_finished(self, stage, round_num, rows):
    self.num_rounds[stage] = round_num
    self.rows += rows
    if (stage, round_num) == self._stop_at:
      raise Stop

  def values(self, method, cluster, metric, round_num=None):
    """Returns a metric's values in all rounds, or in one."""
    return [
        row.value
        for row in self.rows
        if (row.method, row.cluster, row.metric) == (method, cluster, metric)
        and round_num in (None, row.round)
    ]
