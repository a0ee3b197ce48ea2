"""Three phases at sites: the task of their clients, and what happens if a site is lost."""

import contextlib
import dataclasses
import os
import shutil

from experiment_shell import finished_run
from experiment_shell import launch
from experiment_shell import output_folder
from experiments import site_runs
from experiments.three_phase import data
from experiments.three_phase import measure
from fl_clustering import config as config_lib
from fl_clustering.tasks import federated_task
from fl_clustering.tasks import site_task


@dataclasses.dataclass(frozen=True, eq=False)
class SiteInputs:
  """What a run at sites starts with.

  Attributes:
    opened: The `OpenSites`.
    config: The `ThreePhaseConfig`.
    task: The `FederatedTask` of their clients.
  """

  opened: site_runs.OpenSites
  config: config_lib.ThreePhaseConfig
  task: federated_task.FederatedTask

  def describe(self):
    """Returns what `config.json` says of the data, the model and privacy."""
    document = data.describe(self.config, self.task, None)
    document["dataset"][site_runs.MISSING] = self.opened.summary()
    return document


def _inputs(opened, config):
  options = federated_task.TaskOptions(
      dataset=config.dataset,
      model=config.model,
      seed=config.seed,
      model_options=config.model_options,
      test_share=config.test_share,
      num_new_clients=config.num_new_clients,
  )
  task = site_task.load_task(options, opened.sites)
  if len(task.clients) != config.num_clients:
    raise ValueError(
        f"`workers` must be sites that stay while the run begins, got {len(task.clients)} clients "
        f"after {config.num_clients}."
    )
  task = federated_task.hold_out(task, config.num_new_clients, config.seed)
  return SiteInputs(opened, config, task)


def load(config, recorded, stack):
  """Connects to the sites; returns the `SiteInputs`.

  Args:
    config: The run's `ThreePhaseConfig`.
    recorded: `config.json` of the run to resume, or None.
    stack: A `contextlib.ExitStack`; TFF computes at the sites as long as it is open.

  Raises:
    launch.InputError: If a site can't be used.
    ValueError: If their data can't be used.
    runtime.WorkerLost: If a site is lost and does not come back.
  """
  opened = site_runs.open_sites(stack)
  if recorded is not None and opened.missing:
    # They did not answer this time; the run said whose clients they were.
    known = recorded["dataset"][site_runs.MISSING]["clients"]
    opened = dataclasses.replace(opened, missing_clients=tuple(known))
  return _inputs(opened, config)


def _begin_again(before, opened, folder):
  """Returns the `SiteInputs` of the sites that are left, and makes the folder theirs.

  Args:
    before: The `SiteInputs` so far.
    opened: The `OpenSites` that are left.
    folder: The run's `OutputFolder`.
  """
  config = before.config
  with launch.input_errors():  # Settings may not fit fewer clients.
    left = site_task.num_clients(opened.sites, config.test_share, config.seed)
    inputs = _inputs(opened, dataclasses.replace(config, num_clients=left))
  # Those of other clients don't fit.
  shutil.rmtree(folder.join("checkpoints"), ignore_errors=True)
  recorded = finished_run.FinishedRun(folder.path).document
  document = {**recorded, "config": inputs.config.to_json(), **inputs.describe()}
  folder.write_text(output_folder.CONFIG, output_folder.json_text(document))
  return inputs


def measure_all(inputs, folder, reuse):
  """Runs all three phases at the sites that are there to the end.

  Args:
    inputs: What `load` returned.
    folder: The `OutputFolder`, which is started.
    reuse: As of `measure.run`.

  Returns:
    The summary, a dict for JSON.

  Raises:
    launch.InputError: If a site was left out, and the settings don't fit the other clients.
    pool.SiteMissing: If a site was lost that may not be left out, or the last one.
  """

  def of_sites(opened):
    used = inputs
    if opened is not inputs.opened:
      used = _begin_again(inputs, opened, folder)
    summary = measure.run(used.config, used.task, folder, contextlib.nullcontext, reuse)
    return {**summary, site_runs.MISSING: opened.summary()}

  return site_runs.run(inputs.opened, of_sites)
