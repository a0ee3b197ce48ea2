"""Three phases at sites: the task of their clients, and what happens if a site is lost."""

import contextlib
import dataclasses
import shutil
from typing import Any, Mapping

from absl import logging

from experiment_shell import finished_run
from experiment_shell import launch
from experiment_shell import output_folder
from experiments import site_runs
from experiments.three_phase import data as data_lib
from experiments.three_phase import measure
from fl_clustering import config as config_lib
from fl_clustering.tasks import federated_task
from fl_clustering.tasks import files
from fl_clustering.tasks import held_out
from fl_clustering.tasks import site_rows
from fl_clustering.tasks import task_options


@dataclasses.dataclass(frozen=True, eq=False)
class SiteInputs:
  """What a run at sites starts with.

  Attributes:
    data: What `config.json` says of all sites that the run began with.
    begins_again: Whether the folder's `config.json` is that of other sites.
  """

  opened: site_runs.OpenSites
  config: config_lib.ThreePhaseConfig
  task: federated_task.FederatedTask
  data: Mapping[str, Any]
  begins_again: bool = False

  def describe(self) -> dict[str, Any]:
    """Returns what `config.json` says of the data, the model and privacy."""
    document = data_lib.describe(self.config, self.task, None)
    document["dataset"][site_runs.MISSING] = self.opened.summary()
    return {**document, "data": self.data}


def _inputs(
    opened: site_runs.OpenSites, config: config_lib.ThreePhaseConfig, data: Mapping[str, Any],
    begins_again: bool = False,
) -> SiteInputs:
  names = ("dataset", "model", "seed", "model_options", "test_share", "validation_share",
           "num_new_clients")
  task = files.load_task(task_options.TaskOptions(
      rows=site_rows.open_rows(opened.sites), **{name: getattr(config, name) for name in names}
  ))
  for warning in task.warnings:
    logging.warning("%s", warning)
  task = held_out.hold_out(task, config.num_new_clients, config.seed)
  return SiteInputs(opened, config, task, data, begins_again)


def config_of(
    settings: Mapping[str, Any], sites: Any, resumed: str | None = None
) -> config_lib.ThreePhaseConfig:
  """Returns the `ThreePhaseConfig` of settings for the clients of sites.

  Args:
    sites: The `Sites` of tables.
    resumed: The folder of a run to resume, which may have begun with other sites: the settings
      then have as many clients as that run.

  Raises:
    ValueError: If the settings or the clients don't fit.
  """
  rows = site_rows.open_rows(sites)
  num_clients = files.num_clients(rows, settings.get("test_share"), settings["seed"])
  if resumed is not None:
    # What is wrong with the folder is said when it is opened.
    with contextlib.suppress(OSError, ValueError, AttributeError):
      recorded = finished_run.FinishedRun(resumed).settings
      num_clients = recorded.get("num_clients") or num_clients
  return config_lib.ThreePhaseConfig(
      **{**settings, "tables": sites.format.options, "num_clients": num_clients}
  )


def load(
    opened: site_runs.OpenSites, settings: Mapping[str, Any], recorded: Mapping[str, Any] | None
) -> SiteInputs:
  """Returns what a run starts with, which is loaded where TFF computes.

  A run to resume goes on with the same sites, and begins again with more or fewer of those that
  it began with.

  Args:
    settings: As of `config_of`.
    recorded: `config.json` of the run to resume, or None.

  Raises:
    ValueError: If the data can't be used, or have other rows than those of the run to resume.
    dealing.SiteMissing: If a site is lost that may not be left out, or the last one.
  """
  format_: Any = opened.sites.format
  data: Mapping[str, Any] = opened.describe_tables() | {"classes": list(format_.classes)}
  missing_before = opened.missing_clients
  if recorded is not None:
    opened = opened.resuming(recorded["data"], data)
    data, missing_before = recorded["data"], recorded["dataset"][site_runs.MISSING]["clients"]

  def of_sites(there: site_runs.OpenSites) -> SiteInputs:
    begins_again = sorted(missing_before) != sorted(there.missing_clients)
    return _inputs(there, config_of(settings, there.sites), data, begins_again)

  inputs = site_runs.run(opened, of_sites)
  if recorded is not None and not inputs.begins_again:
    data_lib.check_recorded(recorded, inputs.describe())
  return inputs


def _begin_again(inputs: SiteInputs, folder: output_folder.OutputFolder) -> None:
  """Makes the folder that of the sites that take part now."""
  # Those of other clients don't fit.
  shutil.rmtree(folder.join("checkpoints"), ignore_errors=True)
  recorded = finished_run.FinishedRun(folder.path).document
  document = {**recorded, "config": inputs.config.to_json(), **inputs.describe()}
  folder.write_text(output_folder.CONFIG, output_folder.json_text(document))


def measure_all(
    inputs: SiteInputs, settings: Mapping[str, Any], folder: output_folder.OutputFolder,
    reuse: str | None,
) -> dict[str, Any]:
  """Runs all three phases at the sites that are there to the end; returns the summary.

  Args:
    inputs: What `load` returned.
    settings: As of `config_of`.
    reuse: As of `measure.run`.

  Raises:
    launch.InputError: If a site was left out, and the settings don't fit the other clients.
    dealing.SiteMissing: If a site was lost that may not be left out, or the last one.
  """

  def of_sites(opened: site_runs.OpenSites) -> dict[str, Any]:
    used = inputs
    if opened is not inputs.opened:
      with launch.input_errors():  # Settings may not fit fewer clients.
        used = _inputs(opened, config_of(settings, opened.sites), inputs.data, begins_again=True)
    if used.begins_again:
      _begin_again(used, folder)
    summary = measure.run(
        used.config, used.task, folder, contextlib.nullcontext, reuse, opened.last_columns
    )
    return {**summary, site_runs.MISSING: opened.summary()}

  return site_runs.run(inputs.opened, of_sites)
