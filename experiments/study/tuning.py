"""The choice of a candidate for every method and control, by validation rows of seeds of its own.

Every candidate of the option that is tuned is a run of all methods with every tuning seed.  In each
setting, a method gets the candidate with the highest mean accuracy on validation rows; of several,
the first.  One with which it failed in any of these runs, as where it diverged, is not taken.
"""

from typing import Any, Iterable, Iterator, Sequence

import pandas as pd

from experiment_shell import frames as frames_lib
from experiments.study import config as config_lib
from fl_clustering.methods import registry

# The table of the tuning runs, and that of what follows from them.
TUNING, CHOSEN = "tuning", "chosen"
CANDIDATE, NUM_ROUNDS, FAILED = "candidate", "rounds", "failed"
_VALIDATION, _TEST = "validation_accuracy", "accuracy"
_COSTS = (NUM_ROUNDS, "steps", "bytes")
# What the first table has of every method that did not fail.
METRICS = (_VALIDATION, _TEST, *_COSTS)
# Those of the second.
COLUMNS = {
    "setting": str, "method": str, "option": str, CANDIDATE: str, "mean": float, "se": float,
    "runs": int, FAILED: int, **dict.fromkeys(_COSTS, float), "chosen": int, "end": str,
}
_KEYS = ["setting", "method", CANDIDATE]
LOWEST, HIGHEST = "lowest", "highest"


def _ends(candidates: Iterable[str]) -> dict[str, str]:
  """Returns the candidates at the ends of their range; none where they are no numbers."""
  try:
    by_size = sorted(candidates, key=float)
  except ValueError:
    return {}
  return {by_size[0]: LOWEST, by_size[-1]: HIGHEST}


def _by_run(rows: pd.DataFrame) -> pd.DataFrame:
  """Returns a row for every run and method of the tuning runs, with a column for every metric."""
  return frames_lib.wide(rows, [*_KEYS, "seed", "fold"], [*METRICS, FAILED])


def _not_needed(of_runs: pd.DataFrame) -> pd.Series:
  """Returns in how many runs a candidate needed no FedAvg matched, by `_KEYS`."""
  run = ["setting", CANDIDATE, "seed", "fold"]
  is_well = (of_runs["method"] == registry.FEDAVG) & of_runs[_VALIDATION].notna()
  is_matched = of_runs["method"] == registry.FEDAVG_MATCHED
  both = of_runs.loc[is_well, run].merge(of_runs.loc[is_matched, run], "left", indicator="which")
  without = both[both["which"] == "left_only"].assign(method=registry.FEDAVG_MATCHED)
  return without.groupby(_KEYS).size()


def choose(
    rows: pd.DataFrame, tuned: config_lib.Tuned, settings: Sequence[str], methods: Sequence[str],
    runs: int,
) -> pd.DataFrame:
  """Returns every candidate of every method and setting, with `COLUMNS`.

  Mean and standard error are of the accuracy on validation rows, over the runs; costs are those of
  all its runs together.  Test rows play no part.

  Args:
    rows: The table of the tuning runs.
    methods: In their order.  Those without rows in a setting, where FedAvg matched is not needed,
      are left out there.
    runs: How many of them every candidate has in a setting.
  """
  of_runs = _by_run(rows)
  groups = of_runs.groupby(_KEYS)
  found = groups[_VALIDATION].agg(mean="mean", se="sem", well="count")
  measured = set(zip(of_runs["setting"], of_runs["method"]))
  found = found.join(groups[[*_COSTS]].sum()).reindex(pd.MultiIndex.from_tuples([
      (setting, name, candidate) for setting in settings for name in methods
      if (setting, name) in measured for candidate in tuned.texts()
  ], names=_KEYS)).reset_index().fillna(dict.fromkeys(_COSTS, 0))
  # Not all that fail have a row that says so: FedAvg matched has none where FedAvg fails.  Nor has
  # it one where FedAvg does as many steps as the others, which is no failure.
  failed = runs - found["well"].fillna(0).astype(int)
  failed -= _not_needed(of_runs).reindex(pd.MultiIndex.from_frame(found[_KEYS]), fill_value=0).array
  allowed = found["mean"].where(failed == 0)
  is_best = allowed == allowed.groupby([found["setting"], found["method"]]).transform("max")
  chosen = found.index.isin(found[is_best].drop_duplicates(_KEYS[:2]).index)
  return found.assign(**{
      "option": tuned.name, "runs": runs, FAILED: failed, "chosen": chosen.astype(int),
      "end": found[CANDIDATE].map(_ends(tuned.texts())).where(chosen),
  })[[*COLUMNS]]


def takers(chosen: pd.DataFrame, setting: str) -> dict[str, tuple[str, ...]]:
  """Returns the methods that take each candidate in a setting; without those that none takes."""
  own = chosen[(chosen["setting"] == setting) & (chosen["chosen"] == 1)]
  return {
      candidate: tuple(of_candidate["method"])
      for candidate, of_candidate in own.groupby(CANDIDATE, sort=False)
  }


def on_test(rows: pd.DataFrame, chosen: pd.DataFrame) -> Iterator[dict[str, Any]]:
  """Yields for every setting how often a choice is the best on the test rows of the tuning runs.

  A method without the tuned option, to which all candidates are alike, had no choice.

  Args:
    rows: The table of the tuning runs.
    chosen: What `choose` made of it.
  """
  means = _by_run(rows).groupby(_KEYS)[_TEST].mean().rename("test").reset_index()
  found = chosen[chosen[FAILED] == 0].merge(means, on=_KEYS)
  distinct = found.groupby(_KEYS[:2])[["mean", "test"]].transform("nunique")
  for setting, own in found[(distinct > 1).any(axis=1)].groupby("setting", sort=False):
    taken = own[own["chosen"] == 1].set_index("method")["test"]
    lost = 100 * (own.groupby("method")["test"].max() - taken)
    yield {
        "setting": setting, "choices": len(lost), "best on test": int((lost == 0).sum()),
        "lost": lost.mean(), "most lost": lost.max(),
    }


def with_candidates(found: pd.DataFrame, chosen: pd.DataFrame) -> pd.DataFrame:
  """Returns rows of settings and methods with what each has of the option that was tuned."""
  taken = chosen[chosen["chosen"] == 1]
  names = {CANDIDATE: option for option in taken["option"].unique()}
  return found.merge(taken[_KEYS].rename(columns=names), "left", on=_KEYS[:2])
