"""A three-phase run in one call, for notebooks and scripts."""

import tempfile

from fl_clustering import config as config_lib
from fl_clustering import runtime
from fl_clustering.tasks import federated_task
from fl_clustering.three_phase import three_phase
from fl_clustering.three_phase import three_phase_result


def run(
    config: config_lib.ThreePhaseConfig, task: federated_task.FederatedTask, observers=()
) -> three_phase_result.ThreePhaseResult:
  """Runs all three phases on this machine: starts TFF's worker process, and ends it.

  Args:
    config: The settings, such as `ThreePhaseConfig.for_task` returns.
    task: The clients and their data.
    observers: `stages.RunObserver`s.

  Returns:
    A `three_phase_result.ThreePhaseResult`, whose `local_weights` can't be called any more.

  Raises:
    divergence.TrainingDiverged: If a client's loss is not finite.
  """
  with runtime.LocalRuntime(), tempfile.TemporaryDirectory() as folder:
    return three_phase.run(config, task, folder, observers=observers)
