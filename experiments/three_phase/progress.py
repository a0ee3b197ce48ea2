"""The progress bar of a three-phase run."""

import tqdm

from fl_clustering import stages


class ProgressBar(stages.RunObserver):
  """One bar per stage: round, loss, the clients' accuracy, time left."""

  def __init__(self):
    self._bar = None
    self._rounds_done = 0

  def __enter__(self):
    return self

  def __exit__(self, *unused_exception):
    self._close()

  def stage_started(self, stage, num_rounds, rounds_done):
    self._close()
    self._bar = tqdm.tqdm(
        desc=f"{stage:16}", total=num_rounds, initial=rounds_done, unit="round"
    )
    self._rounds_done = rounds_done

  def round_finished(self, stage, round_num, rows):
    values = {row.metric: row.value for row in rows if row.cluster == ""}
    losses = [row.value for row in rows if row.metric == "train_loss"]
    if losses:
      values["train_loss"] = sum(losses) / len(losses)
    self._bar.set_postfix(
        {
            short: f"{values[name]:.3f}"
            for short, name in (
                ("loss", "train_loss"),
                ("accuracy", "clients_accuracy_mean"),
            )
            if name in values
        },
        refresh=False,
    )
    # Rounds that are told again from a checkpoint were counted at the start.
    if round_num > self._rounds_done:
      self._bar.update()

  def _close(self):
    if self._bar is not None:
      self._bar.close()
