"""Private clustered federated learning: one client-level (epsilon, delta) for all of it.

  bazel run experiments:private_clusters -- --dataset=digits --output_dir=out
  bazel run experiments:private_clusters -- --dataset=files --data_dir=folder \\
      --schema=schema.json

`released/` in the output folder holds what may be published: models, noisy sizes and accuracies,
the ledger and a report.  A simulation also writes `simulation/`, which is NOT private: exact
accuracies, the groups that were found, and methods to compare with.
"""

from experiment_shell import launch  # First, for Ctrl-C while the others are imported.

import contextlib
import functools
import os
from typing import Any, Mapping

from absl import flags
from absl import logging

from experiment_shell import experiment
from experiment_shell import lazy_module
from experiment_shell import option_flags
from experiment_shell import output_folder
from experiment_shell import path_flag
from experiment_shell import program_help
from experiment_shell import run_flags
from experiments.own_tables import schema_flag
from experiments.private_training import config as config_lib
from experiments.private_training import data
from experiments import reports
from fl_clustering.points import privacy as privacy_lib
from fl_clustering.private_clusters import plan
from fl_clustering.private_clusters import releases
from fl_clustering import runtime
from fl_clustering.tables import schema as schema_lib

cells = lazy_module.LazyModule("experiments.private_training.cells")

flags.adopt_module_key_flags(run_flags)

option_flags.define(config_lib.PrivateClustersConfig)
path_flag.define(
    "data_dir", None,
    "Folder of the clients' files (files), of the IDX files (idx), or TFF's cache folder (emnist, "
    "auto; default ~/.tff).")
flags.adopt_module_key_flags(schema_flag)

_OF_CHOICES = config_lib.PrivateClustersConfig.of_choices

HELP = program_help.Help(
    {
        "data": ("dataset", "data_dir", "schema", "num_clients", "partition"),
        "training": ("model", "rounds", "local_steps", "learning_rate"),
        "methods": ("num_clusters", "simulation", "num_seeds"),
        "privacy": ("epsilon", "delta", "trust"),
        "output": run_flags.NAMES[:2],
    },
    {
        "data": (
            *_OF_CHOICES["partition"], "examples_per_client", "image_size", "seed"
        ),
        "training": (*_OF_CHOICES["model"],),
        "privacy": ("min_clients",),
        "output": run_flags.NAMES,
    },
)


def _lines(
    config: config_lib.PrivateClustersConfig, clients: data.Clients
) -> tuple[str, ...]:
  """Returns what the program prints first: the data, and what the noise will be."""
  budget, num_clients = config.settings(config.epsilon[0]).budget(), len(clients.train)
  num_parameters = clients.model.num_parameters
  noise = budget.relative_noise(config.num_clusters, num_parameters, num_clients)
  advice = plan.advice(noise, config.num_clusters)
  return (
      f"data: {clients.source}; {num_clients:,} clients, {config.model} with {num_parameters:,} "
      "parameters",
      f"privacy: epsilon {config.epsilon[0]:g} at delta {config.delta:g}. {advice}",
  )


class PrivateClusters(experiment.Experiment):
  name = "private_clusters"
  program = "private_clusters"
  files = ()
  folders = (releases.JOURNAL, "released", "simulation")
  versions_of = ("numpy", "tensorflow", "tensorflow-federated", "dp-accounting")
  report = reports.MODULES[name]
  failures = (runtime.WorkerLost,)
  check_recorded = staticmethod(data.check_recorded)

  def config(self) -> config_lib.PrivateClustersConfig:
    values = option_flags.given(config_lib.PrivateClustersConfig)
    if flags.FLAGS.schema is not None:
      values["schema"] = schema_lib.load(flags.FLAGS.schema)
    return config_lib.PrivateClustersConfig(**values)

  def load(
      self, config: config_lib.PrivateClustersConfig, recorded: Any, stack: contextlib.ExitStack
  ) -> experiment.Inputs:
    del recorded, stack
    load = functools.partial(data.load, config, flags.FLAGS.data_dir)
    clients = load(config.seed)
    num_clients = len(clients.train)
    config.settings(config.epsilon[0]).check_clients(num_clients)
    for epsilon in config.epsilon:
      for text in privacy_lib.budget_warnings(epsilon, config.delta, 1, num_clients):
        logging.warning("%s", text)
    return experiment.Inputs(load, {"dataset": clients.document}, _lines(config, clients))

  def measure(
      self, config: config_lib.PrivateClustersConfig, inputs: experiment.Inputs,
      folder: output_folder.OutputFolder,
  ) -> Mapping[str, Any]:
    try:
      return cells.run(config, folder, inputs.data)
    except (releases.UnusableJournal, privacy_lib.BudgetOutOfRange) as e:
      raise launch.InputError(str(e)) from e

  def is_charged(self, recorded: Mapping[str, Any] | None, path: str) -> bool:
    # The noise of a simulation can be drawn again, so it protects nobody.
    is_simulation = recorded is not None and recorded["config"].get("simulation")
    return not is_simulation and releases.has_releases(os.path.join(path, releases.JOURNAL))


if __name__ == "__main__":
  launch.run(PrivateClusters().main, HELP)
