"""Deals clients to workers, and says what follows when one is lost.

The workers of a pool compute for any client, and the clients of one that is lost go to the
others.  A site computes for the clients that it owns, and a round waits for one that is lost.
"""

import collections
import concurrent.futures
import time
from typing import Any, Iterable, Sequence

from fl_clustering import runtime
from fl_clustering.distribution import remote_worker

# Between two attempts to reach a lost worker, and for each of them.
_RECONNECT_SECONDS = 1

# Pairs of a worker and the positions of the clients that it computes.
Shares = list[tuple[remote_worker.RemoteWorker, list[int]]]


class SiteMissing(runtime.WorkerLost):
  """A site was lost and did not come back in time, or not as it was."""

  def __init__(self, worker: remote_worker.RemoteWorker, seconds: float | None = None):
    """Takes the site, and how long it was waited for; None if there was nothing to wait for."""
    waited = "" if seconds is None else f", and was not back within {seconds:g} s"
    super().__init__(f"the site at {worker.address} {worker.reason}{waited}.")
    self.address = worker.address


class Reconnector:
  """Asks lost workers to come back, in the background."""

  def __init__(self, num_workers: int):
    self._threads = concurrent.futures.ThreadPoolExecutor(num_workers)
    self._attempts: dict[remote_worker.RemoteWorker, concurrent.futures.Future[None]] = {}

  def ask(self, worker: remote_worker.RemoteWorker) -> concurrent.futures.Future[None]:
    """Returns the attempt to reach a worker that is under way, or a new one."""
    if worker not in self._attempts or self._attempts[worker].done():
      self._attempts[worker] = self._threads.submit(worker.connect, _RECONNECT_SECONDS)
    return self._attempts[worker]

  def close(self) -> None:
    """Waits for the attempts that are under way."""
    self._threads.shutdown()


def _deal(clients: Iterable[int], workers: Sequence[remote_worker.RemoteWorker]) -> list[list[int]]:
  """Returns a list of clients per worker, as many as it has cores for.

  Clients come with the most work first, so that one after the other goes to the worker that
  is next to be free.
  """
  shares: list[list[int]] = [[] for _ in workers]
  for client in clients:
    free = min(
        range(len(workers)), key=lambda w: (len(shares[w]) + 1) / workers[w].num_cores
    )
    shares[free].append(client)
  return shares


class PoolDealer:
  """Deals clients to all workers that can be used."""

  def __init__(
      self, workers: Sequence[remote_worker.RemoteWorker], timeout: float, reconnector: Reconnector
  ):
    """Takes the workers, and the seconds that a round waits for one if none can be used."""
    self._workers = workers
    self._timeout = timeout
    self._reconnector = reconnector

  def shares(self, clients: Sequence[int], argument: Any) -> Shares:
    """Returns pairs of a worker and the clients that it computes.

    Args:
      clients: The clients' positions, those with the most work first.
      argument: What they are the positions in, with a method `site`.

    Raises:
      runtime.WorkerLost: If no worker is left.
    """
    del argument  # All workers can compute for all clients.
    workers = self._usable()
    return list(zip(workers, _deal(clients, workers)))

  def what_follows(self, worker: remote_worker.RemoteWorker) -> str:
    """Returns what becomes of the clients of a worker that was just lost, in a sentence."""
    del worker
    return "Its clients go to the other workers."

  def _usable(self) -> list[remote_worker.RemoteWorker]:
    """Returns the workers that can be used; the others are asked to come back, meanwhile."""
    deadline = time.monotonic() + self._timeout
    while True:
      for worker in self._workers:
        if worker.reason is not None and not worker.is_full:
          self._reconnector.ask(worker)
      usable = [worker for worker in self._workers if worker.reason is None]
      if usable:
        return usable
      if time.monotonic() > deadline:
        reasons = ", ".join(f"{worker.address} {worker.reason}" for worker in self._workers)
        raise runtime.WorkerLost(f"no worker is left: {reasons}.")
      time.sleep(_RECONNECT_SECONDS)


class SiteDealer:
  """Deals every client to the site that owns it."""

  def __init__(
      self, sites: Sequence[remote_worker.RemoteWorker], timeout: float, reconnector: Reconnector
  ):
    """Takes the sites, and the seconds that a round waits for one that is lost."""
    self._sites = sites
    self._timeout = timeout
    self._reconnector = reconnector

  def shares(self, clients: Sequence[int], argument: Any) -> Shares:
    """Does what `PoolDealer.shares` does, once the sites of all clients can be used.

    Raises:
      SiteMissing: If one is lost and does not come back.
    """
    of_site = collections.defaultdict(list)
    for client in clients:
      of_site[argument.site(client)].append(client)
    if None in of_site:  # What reads no file can be done anywhere.
      usable = [site for site in self._sites if site.reason is None]
      of_site[(usable or self._sites)[0].address] += of_site.pop(None)
    return [
        (self._returned(site), of_site[site.address])
        for site in self._sites if site.address in of_site
    ]

  def what_follows(self, site: remote_worker.RemoteWorker) -> str:
    """Returns how long a round waits for a site that was just lost, in a sentence."""
    if site.is_full:
      return "The round does not wait for it."
    return f"The round waits {self._timeout:g} s for it."

  def _returned(self, site: remote_worker.RemoteWorker) -> remote_worker.RemoteWorker:
    """Returns a site, once it can be used."""
    deadline = time.monotonic() + self._timeout
    while site.reason is not None:
      if site.is_full:
        raise SiteMissing(site)
      if time.monotonic() > deadline:
        raise SiteMissing(site, self._timeout)
      try:
        self._reconnector.ask(site).result(_RECONNECT_SECONDS)
      except remote_worker.WorkerUnusable as e:
        raise SiteMissing(site) from e
      except concurrent.futures.TimeoutError:
        pass
      if site.reason is not None:
        time.sleep(_RECONNECT_SECONDS)
    return site
