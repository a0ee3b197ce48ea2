"""The data of a study: whether every setting can be made of them, and what they are."""

from typing import Any, Mapping

from experiment_shell import experiment
from experiments.grouping_study import cells
from experiments.grouping_study import config as config_lib


def load(config: config_lib.StudyConfig, data_dir: str | None) -> experiment.Inputs:
  """Returns the inputs of a study, whose data are those of no run but their description.

  Raises:
    ValueError: If the data are missing or damaged, or a setting can't be made of them.
  """
  fingerprints = {}
  for group in config.groups:
    # One of each setting; another seed can still fail, which is then a result.
    if group.setting not in fingerprints:
      task = cells.load_task(config, group, data_dir)
      fingerprints[group.setting] = task.fingerprint()
  return experiment.Inputs(
      data=None,
      document={
          "data": {
              "name": task.name,
              "source": task.source,
              "data_dir": data_dir,
              "num_classes": task.num_classes,
              "num_clients": len(task.clients),
              "num_new_clients": len(task.new_clients),
              "fingerprints": fingerprints,
          },
          "model": {"name": task.model.name, "num_parameters": task.num_parameters},
      },
      lines=(
          f"data: {task.source}",
          f"runs: {len(config.groups):,}, one for every setting, seed and fold, each with "
          f"{len(cells.methods_of(config.run)) - 1} methods and controls",
      ),
  )


def check_recorded(recorded: Mapping[str, Any], document: Mapping[str, Any]) -> None:
  """Raises a ValueError if the study to resume, with this `config.json`, had other data."""
  if recorded["data"]["fingerprints"] != document["data"]["fingerprints"]:
    raise ValueError(
        "`data_dir` must give the same data as in the study to resume, got other examples."
    )
