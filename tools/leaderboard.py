"""The leaderboards of `docs/results.md`: what the studies in `docs/` found, as tables.

Intervals are those of a study's own page: those of all differences of one study hold at once.
"""

from __future__ import annotations

import glob
import os
from typing import Any, Iterator, Mapping, TYPE_CHECKING

from clustering_basics import intervals
from experiments.study import config as config_lib
from fl_clustering.methods import registry

if TYPE_CHECKING:
  import pandas as pd

# The presets of studies that have none of their name.
_PRESETS = {"study_fashion_mnist": "study_mnist"}
HEADER = (
    "method", "accuracy, mean ± sd", "gain over FedAvg", "gain over fine-tuning", "groups found in",
    "steps", "sent and received",
)


def read(path: str) -> tuple[pd.DataFrame, dict[str, Any]]:
  """Returns the cells of a committed study, and what its settings have to do with differences."""
  import pandas as pd  # It takes long to import.

  cells = pd.read_csv(path)
  names = list(cells["method"].unique())
  return cells, {
      "settings": list(cells["setting"].unique()),
      "methods": list(filter(registry.groups, names)),
      "personal": [name for name in names if name in registry.PERSONAL],
      "num_folds": cells["fold"].max() or None,
  }


def _gain_text(gain: Mapping[str, Any]) -> str:
  """Returns a gain and its interval, in bold if that leaves out zero."""
  text = f"{gain['gain']:+.1f}"
  if gain["low"] == gain["low"]:
    text += f" ({gain['low']:+.1f} to {gain['high']:+.1f})"
  return text if gain["verdict"] == intervals.UNCLEAR else f"**{text}**"


def rows(cells: pd.DataFrame, config: Mapping[str, Any]) -> Iterator[tuple[str, tuple[str, ...]]]:
  """Yields every setting with a row of its table, the most accurate method first."""
  # They take long to import.
  from experiments.study import summary
  from experiments.three_phase_emnist import report

  gains = {
      (gain["setting"], gain["method"], gain["reference"]): _gain_text(gain)
      for gain in summary.gains(cells, config).to_dict("records")
  }
  scores = summary.scores(cells, config).sort_values("accuracy", ascending=False, kind="stable")
  for of_method in scores.to_dict("records"):
    setting, method, found = of_method["setting"], of_method["method"], of_method["found"]
    if method == registry.PRETRAIN:
      continue
    sd = of_method["sd"]
    yield setting, (
        registry.label(method),
        f"{of_method['accuracy']:.3f}" + (f" ± {sd:.3f}" if sd == sd else ""),
        *(gains.get((setting, method, reference), "") for reference in summary.REFERENCES),
        f"{found:.0f} of {of_method['repetitions']}" if found == found else "",
        report.steps_text(of_method["steps"]), report.bytes_text(of_method["bytes"]),
    )


def text(about: Mapping[str, str]) -> str:
  """Returns a section for every study whose table is in `docs/`, with a table for each setting.

  Args:
    about: From the names of the studies' presets to what they are.
  """
  found = ""
  for path in sorted(glob.glob("docs/study_*.csv")):
    file = os.path.basename(path)
    name, (cells, config) = file.removesuffix(".csv"), read(path)
    found += f"### {name}\n\n{about[_PRESETS.get(name, name)]}  [All cells as CSV]({file}).\n\n"
    of_settings = list(rows(cells, config))
    for setting in config["settings"]:
      lines = (HEADER, ("---",) * len(HEADER), *(row for of, row in of_settings if of == setting))
      found += f"`{setting}`: {config_lib.SETTINGS[setting].about}.\n\n"
      found += "".join(f"| {' | '.join(line)} |\n" for line in lines) + "\n"
  return found
