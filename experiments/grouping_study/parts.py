"""A study of parts: what other studies have measured is taken over, not measured again.

So the settings or seeds of a large study can be measured one after another, or on several
machines, and have one report in the end.
"""

from clustering_basics import validate
from experiment_shell import finished_run
from experiments.grouping_study import cells

# What makes a part one.
_OF_PARTS = ("settings", "num_seeds")


def _other(recorded, ours):
  """Returns what another study has differently, in words; "" if it is a part of ours."""
  config = recorded["config"]
  for name in dict.fromkeys((*ours["config"], *config)):
    theirs, own = (values.get(name) for values in (config, ours["config"]))
    if name not in _OF_PARTS and theirs != own:
      return f"{name}={theirs!r} instead of {own!r}"
  fingerprints = ours["data"]["fingerprints"]
  for setting, fingerprint in recorded["data"]["fingerprints"].items():
    if fingerprints.get(setting, fingerprint) != fingerprint:
      return f"other examples for the setting {setting!r}"
  for name, version in ours["versions"].items():
    if recorded["versions"].get(name) != version:
      return f"{name} {recorded['versions'].get(name)} instead of {version}"
  return ""


def check(folders, document):
  """Raises a ValueError unless the folders hold parts of a study.

  Args:
    folders: Paths of folders of studies.
    document: What `config.json` is to say of the whole study, a dict.
  """
  for folder in folders:
    try:
      recorded = finished_run.FinishedRun(folder).document
      other = _other(recorded, document)
    except (OSError, TypeError, AttributeError, finished_run.DamagedFile) as e:
      raise validate.error("parts", "name folders of studies", folder) from e
    if other:
      raise ValueError(
          f"`parts` must be of the same study but for its settings and number of seeds, got "
          f"{folder!r} with {other}."
      )


def take_over(folders, config, study_folder):
  """Copies the tables of all groups that a part has measured and the study has not.

  Args:
    folders: Paths of folders of studies, which `check` has checked.
    config: The `StudyConfig`.
    study_folder: Path of the study's folder.
  """
  for group in config.groups:
    for folder in folders:
      if cells.is_measured(folder, group) and not cells.is_measured(study_folder, group):
        cells.copy_tables(folder, study_folder, group)
