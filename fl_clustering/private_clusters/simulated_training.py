"""Private clustered training as a method beside others: round by round, and NOT private.

Its noise follows from a seed and the number of releases before, so the same round gives the same
sums again.  A step on all examples of a client counts as the steps of a pass over them;
the linear probe of the sketches doesn't count.
"""

from __future__ import annotations

import dataclasses
import os
from typing import Sequence, TYPE_CHECKING

from clustering_basics import randomness
from fl_clustering.engine import cost as cost_lib
from fl_clustering.private_clusters import fitting
from fl_clustering.private_clusters import progress as progress_lib
from fl_clustering.private_clusters import releases as releases_lib

if TYPE_CHECKING:
  import numpy as np

  from dp_clustering import ledger as ledger_lib
  from fl_clustering.engine import engine as engine_lib
  from fl_clustering.engine import participation
  from fl_clustering.private_clusters import plan


class SimulatedTraining:
  """Trains clusters of an engine's clients."""

  def __init__(self, settings: plan.PrivateClusters, engine: engine_lib.Engine) -> None:
    self._settings = settings
    self._engine = engine
    self._made: fitting.Run | None = None

  def noise_seed(self, rng: np.random.Generator) -> int:
    """Returns a seed that nothing public shares, nor the noise of another number of clusters."""
    purpose = f"noise of {self._settings.num_clusters} private clusters"
    return int(randomness.generator(int(rng.integers(2**63)), purpose).integers(2**63))

  def _run(
      self, noise_seed: int, releases: Sequence[ledger_lib.Release] = ()
  ) -> tuple[fitting.Run, ledger_lib.Ledger]:
    """Returns a run that has made these releases, and its ledger."""
    settings, engine = self._settings, self._engine
    books = releases_lib.Releases(settings.epsilon, settings.delta, noise_seed)
    for release in releases:
      books.ledger.record(release.name, release.mu, release.sensitivity, release.std)
    if self._made is None:
      files = {client_id: engine.files.train[client_id] for client_id in engine.client_ids}
      folder = os.path.join(engine.data_dir, f"private_clusters_{settings.num_clusters}")
      os.makedirs(folder, exist_ok=True)
      self._made = fitting.Run(
          settings, engine.model, dataclasses.replace(engine.files, train=files), folder,
          engine.seed, books,
      )
    return self._made.with_releases(books), books.ledger

  def _count(self, client_ids: Sequence[str], num_bytes: tuple[int, int]) -> None:
    engine = self._engine
    steps = engine.training_cost(client_ids, self._settings.local_steps).client_steps
    down, up = num_bytes
    engine.cost += cost_lib.Cost(steps, len(client_ids) * down, len(client_ids) * up)

  def start(self, noise_seed: int, num_participants: int) -> progress_lib.Progress:
    """Groups the clients by noisy sums, see `fitting.py`.

    Args:
      noise_seed: From `noise_seed`, and the same for all of a run.
      num_participants: The number of clients in a round.
    """
    run, ledger = self._run(noise_seed)
    state, centers = run.start(num_participants)
    self._count(self._engine.client_ids, run.start_bytes)
    return progress_lib.Progress(state, centers, ledger.releases)

  def next(
      self, noise_seed: int, progress: progress_lib.Progress, round_: participation.Round
  ) -> progress_lib.Progress:
    """Returns where the training stands after one more round, of which only the clients count."""
    run, ledger = self._run(noise_seed, progress.releases)
    state = run.next(progress.state, progress.centers, round_.client_ids)
    self._count(round_.client_ids, run.round_bytes)
    return progress_lib.Progress(state, progress.centers, ledger.releases)

  def nonprivate_slots(
      self, noise_seed: int, progress: progress_lib.Progress
  ) -> dict[str, int]:
    """Returns the model that each client takes next, by client id.

    No server knows it; it costs nothing, as it only measures.
    """
    run, _ = self._run(noise_seed, progress.releases)
    return run.nonprivate_slots(run.public(progress.state, progress.centers))
