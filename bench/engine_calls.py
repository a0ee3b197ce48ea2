"""What `speed` has an engine do, and a process of another Python that does it with JAX.

That process takes the model as its argument and does what each line of its standard input names.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from typing import Any, Callable, Iterator

import numpy as np

from clustering_basics import child_process
from fl_clustering.engine import participation
from fl_clustering.tasks import registry as task_registry

SEED = 1
BATCH_SIZE = 20
LEARNING_RATE = 0.1
_DONE = "done"


def load_task(model: str) -> Any:
  """Returns the task: the digits of 100 clients."""
  return task_registry.load_task(task_registry.TaskOptions(
      dataset="digits", num_clients=100, partition="dirichlet", model=model, seed=SEED,
  ))


def models(task: Any) -> tuple[np.ndarray, np.ndarray]:
  """Returns a model (P,) and 20 models near it (20, P)."""
  rng = np.random.default_rng(SEED)
  start = np.concatenate([p.ravel() for p in task.model.initial_parameters(rng)])
  return start, start + rng.normal(0, 0.01, (20, len(start))).astype(np.float32)


def calls(engine: Any, start: np.ndarray, vectors: np.ndarray) -> dict[str, Callable[[], Any]]:
  """Returns what an engine is timed with, by name."""
  everyone, round_ = engine.clients, participation.Round(1, engine.clients, 1)
  return {
      "FedAvg round": lambda: engine.train(start[np.newaxis], (everyone,), round_),
      "losses of 4 models": lambda: engine.losses(vectors[:4], everyone),
      "evaluation of 20 models": lambda: engine.global_confusions(vectors),
  }


@contextlib.contextmanager
def in_jax(python: str, model: str) -> Iterator[Callable[[str], None]]:
  """Starts the process; yields a function that has it do what a name of `calls` says."""
  environment = {**os.environ, "PYTHONPATH": child_process.PROJECT_FOLDER}
  with subprocess.Popen(
      [python, "-m", "bench.engine_calls", model], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
      text=True, env=environment,
  ) as process:

    def call(name: str) -> None:
      assert process.stdin is not None and process.stdout is not None
      process.stdin.write(f"{name}\n")
      process.stdin.flush()
      if process.stdout.readline().strip() != _DONE:
        raise RuntimeError(f"The engine in JAX failed at: {name}.")

    yield call


def main() -> None:
  from fl_clustering.engine.jax import engine as engine_lib  # pylint: disable=g-import-not-at-top

  task = load_task(sys.argv[1])
  engine = engine_lib.Engine(task, BATCH_SIZE, LEARNING_RATE, SEED)
  by_name = calls(engine, *models(task))
  for line in sys.stdin:
    by_name[line.strip()]()
    print(_DONE, flush=True)


if __name__ == "__main__":
  main()
