"""A three-phase run in one call, for notebooks and scripts."""

from __future__ import annotations

import contextlib
import tempfile
from typing import Sequence, TYPE_CHECKING

from fl_clustering.engine import engines
from fl_clustering import runtime
from fl_clustering.three_phase import run as run_lib

if TYPE_CHECKING:
  from fl_clustering.tasks import federated_task
  from fl_clustering.three_phase import config as config_lib
  from fl_clustering.three_phase import result
  from fl_clustering.three_phase import stages


def run(
    config: config_lib.ThreePhaseConfig,
    task: federated_task.FederatedTask,
    observers: Sequence[stages.RunObserver] = (),
) -> result.ThreePhaseResult:
  """Runs all three phases on this machine; for TFF, starts its worker process, and ends it.

  Args:
    config: The settings, such as `ThreePhaseConfig.for_task` returns.
    task: The clients and their data.
    observers: What is told of the rounds; a `progress_bar.ProgressBar()` shows how far they are.

  Returns:
    What the run found.  Its `local_weights` can't be called any more.

  Raises:
    divergence.TrainingDiverged: If a loss, a weight or a model's output is not finite.
    ValueError: If the engine that the settings name is not installed, or as of `run.run`.
  """
  engines.check_installed(config.engine)
  with contextlib.ExitStack() as stack:
    if config.engine == engines.TFF:
      stack.enter_context(runtime.LocalRuntime())
    folder = stack.enter_context(tempfile.TemporaryDirectory())
    return run_lib.run(config, task, folder, observers=observers)
