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
from typing import Any, Mapping

from absl import flags
from absl import logging

from experiment_shell import experiment
from experiment_shell import lazy_module
from experiment_shell import output_folder
from experiments.private_training import config as config_lib
from experiments.private_training import data
from experiments.private_training import flags as training_flags
from experiments import reports
from fl_clustering.distribution import worker_lost
from fl_clustering.points import privacy as privacy_lib
from fl_clustering.private_clusters import plan

cells = lazy_module.LazyModule("experiments.private_training.cells")

flags.adopt_module_key_flags(training_flags)


def _lines(
    config: config_lib.PrivateClustersConfig, clients: data.Clients
) -> tuple[str, ...]:
  """Returns what the program prints first: the data, and what the noise will be."""
  budget, num_clients = config.settings(config.epsilon[0]).budget(), len(clients.train)
  num_parameters = clients.model.num_parameters
  noise = budget.relative_noise(config.num_clusters, num_parameters, num_clients)
  return (
      f"data: {clients.source}; {num_clients:,} clients, {config.model} with {num_parameters:,} "
      "parameters",
      f"privacy: epsilon {config.epsilon[0]:g} at delta {config.delta:g}. {plan.advice(noise)}",
  )


class PrivateClusters(experiment.Experiment):
  """The experiment."""

  name = "private_clusters"
  program = "private_clusters"
  files = ()
  folders = ("journal", "released", "simulation")
  versions_of = ("numpy", "tensorflow", "tensorflow-federated", "dp-accounting")
  report = reports.MODULES[name]
  failures = (worker_lost.WorkerLost,)
  check_recorded = staticmethod(data.check_recorded)

  def config(self) -> config_lib.PrivateClustersConfig:
    return config_lib.PrivateClustersConfig(**training_flags.settings())

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
    return cells.run(config, folder, inputs.data)


if __name__ == "__main__":
  launch.run(PrivateClusters().main, training_flags.HELP)
