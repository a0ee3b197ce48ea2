"""A study of parts: what other studies have measured is taken over, not measured again.

So the settings and seeds of a large study can be measured one after another or on several
machines, and have one report in the end.
"""

from typing import Any, Callable, Iterable, Mapping

from clustering_basics import validate
from experiment_shell import finished_run
from experiment_shell import output_folder
from experiments.grouping_study import cells
from experiments.grouping_study import config as config_lib
from experiments.three_phase import data

Tables = dict[config_lib.Group, dict[str, str]]  # What `cells.read_tables` returns.

Fingerprint = Callable[[str, int], str]  # Of a setting's data with a seed.

# What makes a part one.
_OF_PARTS = ("settings", "seed", "num_seeds")


def _different(
    recorded: Mapping[str, Any], config: config_lib.StudyConfig, fingerprint: Fingerprint,
    versions: Mapping[str, str],
) -> str:
  """Returns what another study has differently, in words; "" if nothing."""
  ours = config.to_json()
  for name in dict.fromkeys((*ours, *recorded["config"])):
    theirs, own = (values.get(name) for values in (recorded["config"], ours))
    if name not in _OF_PARTS and theirs != own:
      return f"{name}={theirs!r} instead of {own!r}"
  changed = data.changed_own_method(recorded, data.describe_own_methods(config.run))
  if changed:
    return f"another file of the method {changed!r}"
  for setting, theirs in recorded["data"]["fingerprints"].items():
    if setting in config.settings and theirs != fingerprint(setting, recorded["config"]["seed"]):
      return f"other examples for the setting {setting!r}"
  for found in (recorded["versions"], *recorded.get(output_folder.RESUMED_WITH, ())):
    for name, version in versions.items():
      if found.get(name) != version:
        return f"{name} {found.get(name)} instead of {version}"
  return ""


def _read_part(
    folder: str, config: config_lib.StudyConfig, fingerprint: Fingerprint,
    versions: Mapping[str, str],
) -> Tables:
  validate.regular_files(parts=folder)
  try:
    recorded = finished_run.FinishedRun(folder).document
    different = _different(recorded, config, fingerprint, versions)
  except (OSError, TypeError, AttributeError, finished_run.DamagedFile) as e:
    raise validate.error("parts", "name folders of studies", folder) from e
  if different:
    raise ValueError(
        f"`parts` must be of the same study but for its settings and seeds, got {folder!r} with "
        f"{different}."
    )
  tables = {
      group: cells.read_tables(folder, group)
      for group in config.groups if cells.is_measured(folder, group)
  }
  if not tables:
    raise validate.error("parts", "have measured something of this study", folder)
  return tables


def read(
    folders: Iterable[str], config: config_lib.StudyConfig, fingerprint: Fingerprint,
    versions: Mapping[str, str],
) -> Tables:
  """Returns what parts of a study have measured.

  Args:
    fingerprint: A function of a setting and a part's first seed.

  Raises:
    ValueError: If a folder holds no part of the study, or can't be read.
  """
  tables: Tables = {}
  for folder in folders:
    tables = {**_read_part(folder, config, fingerprint, versions), **tables}
  return tables
