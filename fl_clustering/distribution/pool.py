"""Several workers as one: TFF's default context that shares clients out among machines.

A computation whose results stay apart, one for each client, is cut into one call per worker.
One that adds up over the clients is taken apart by TFF: each worker adds up its own, and the
server's part is done on this machine.

A client whose value holds a `site_paths` path is computed at the site that owns the file, any
other one at any worker (`dealing.py`).
"""

from __future__ import annotations

import concurrent.futures
import functools
import os
from typing import Any, Callable, Iterable, Mapping, Sequence

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff
from tensorflow_federated.python.core.impl.types import type_conversions

from clustering_basics import validate
from fl_clustering import runtime
from fl_clustering.distribution import dealing
from fl_clustering.distribution import remote_worker
from fl_clustering.distribution import site_paths
from fl_clustering.distribution import worker_files

# How often clients whose worker was lost are tried elsewhere, within one call.
_MAX_ATTEMPTS = 5
_CONNECT_SECONDS = 10


def _at_clients(type_spec: tff.Type) -> bool:
  return (
      isinstance(type_spec, tff.FederatedType)
      and type_spec.placement is tff.CLIENTS
      and not type_spec.all_equal
  )


def _on_paths(convert: Callable[[str], str], value: Any) -> Any:
  """Returns a client's value with `convert` applied to every path in it."""

  def convert_leaf(leaf: Any) -> Any:
    if isinstance(leaf, (str, bytes)):
      return convert(os.fsdecode(leaf))
    if isinstance(leaf, np.ndarray) and leaf.dtype.kind in "SU" and leaf.size:
      return np.array([convert(os.fsdecode(path)) for path in leaf.tolist()])
    return leaf

  return tf.nest.map_structure(convert_leaf, value)


@functools.lru_cache(maxsize=128)  # Pools share them.
def _mergeable(comp: tff.Computation) -> Any:
  return tff.backends.native.compile_to_mergeable_comp_form(comp)


class _Argument:
  """The argument of a computation, which can be cut into arguments for some clients.

  Clients are named by their positions.

  Attributes:
    num_clients: How many clients have values in it.
  """

  def __init__(self, arg: Any, type_spec: tff.Type):
    """Takes an argument as TFF hands it to a context, and the type of the parameter."""
    self._is_struct = isinstance(type_spec, tff.StructType)
    if self._is_struct:
      self._elements = tff.structure.to_elements(tff.structure.from_container(arg))
      types = [of_element for _, of_element in tff.structure.to_elements(type_spec)]
    else:
      self._elements, types = [(None, arg)], [type_spec]
    self._places = [i for i, of_element in enumerate(types) if _at_clients(of_element)]
    self.num_clients = len(self._elements[self._places[0]][1]) if self._places else 0

  def site(self, client: int) -> str | None:
    """Returns the address of the site that owns a client's files; None if it reads none there."""
    found: list[site_paths.SitePath | None] = []

    def look(path: str) -> str:
      found.append(site_paths.parse(path))
      return path

    for i in self._places:
      _, values = self._elements[i]
      _on_paths(look, values[client])
    return next((path.address for path in found if path is not None), None)

  def part(
      self, clients: Iterable[int], local_files: worker_files.LocalFiles
  ) -> tuple[Any, list[str]]:
    """Returns the argument for some clients, and the files of this machine that they read."""
    paths: list[str] = []

    def name(path: str) -> str:
      at_site = site_paths.parse(path)
      if at_site is not None:
        return at_site.name
      paths.append(path)
      return local_files.name(path)

    elements = list(self._elements)
    for i in self._places:
      key, values = elements[i]
      elements[i] = key, [_on_paths(name, values[client]) for client in clients]
    return tff.structure.Struct(elements) if self._is_struct else elements[0][1], paths


class _PoolContext(tff.framework.SyncContext):
  """Computes at workers what clients do, and at `home` what the server does."""

  def __init__(
      self,
      workers: list[remote_worker.RemoteWorker],
      local_files: worker_files.LocalFiles,
      home: runtime.Context,
      timeout: float,
      site_timeout: float,
      tell: Callable[[str], None],
  ):
    self._workers = workers
    self._local_files = local_files
    self._home = home
    self._timeout = timeout
    self._site_timeout = site_timeout
    self._tell = tell
    self._callers = concurrent.futures.ThreadPoolExecutor(len(workers))
    self._reconnector = dealing.Reconnector(len(workers))
    # Workers say if they are sites once they are connected.
    self._dealer: dealing.PoolDealer | dealing.SiteDealer

  @property
  def is_closed(self) -> bool:
    return self._home.is_closed

  def close(self) -> None:
    for worker in self._workers:
      worker.close()
    self._callers.shutdown()
    self._reconnector.close()

  def connect(self, may_miss_sites: bool) -> None:
    """Connects to all workers; none may be missing, or else those that are no sites."""
    list(self._callers.map(lambda worker: worker.connect(_CONNECT_SECONDS), self._workers))
    if may_miss_sites and self.sites:
      self._leave_out_missing()
    hint = "; --missing_sites=skip leaves out sites that do not answer" if self.sites else ""
    for worker in self._workers:
      if worker.reason is not None:
        raise remote_worker.WorkerUnusable(
            f"the worker at {worker.address} {worker.reason}{hint}."
        )
    for worker in self._workers:
      if self.sites and worker.site is None:
        raise remote_worker.WorkerUnusable(
            f"the worker at {worker.address} owns no clients, but others do; all workers must be "
            "sites, or none."
        )
    if self.sites:
      self._dealer = dealing.SiteDealer(self._workers, self._site_timeout, self._reconnector)
    else:
      self._dealer = dealing.PoolDealer(self._workers, self._timeout, self._reconnector)

  def _leave_out_missing(self) -> None:
    missing = [worker for worker in self._workers if worker.reason is not None]
    for worker in missing:
      self._tell(f"the site at {worker.address} {worker.reason}. It is left out.")
      worker.close()
    self._workers = [worker for worker in self._workers if worker not in missing]

  @property
  def sites(self) -> dict[str, Mapping[str, Any]]:
    """What every site says of its clients, by address; empty if no worker owns any."""
    return {worker.address: worker.site for worker in self._workers if worker.site is not None}

  @property
  def clients_at_a_time(self) -> dict[str, int]:
    """How many clients every worker computes at a time, by address."""
    return {worker.address: worker.num_cores for worker in self._workers}

  @property
  def num_cores(self) -> int:
    """How many clients the workers compute at a time, together."""
    return sum(self.clients_at_a_time.values())

  def invoke(self, comp: tff.Computation, arg: Any) -> Any:
    type_spec = comp.type_signature
    argument = None if arg is None else _Argument(arg, type_spec.parameter)
    if argument is None or not argument.num_clients:
      return self._home.invoke(comp, arg)
    if _at_clients(type_spec.result):
      results: list[Any] = [None] * argument.num_clients
      for clients, of_clients in self._invoke_parts(comp, argument):
        for client, result in zip(clients, of_clients):
          results[client] = result
      return results
    return self._add_up(comp, arg, argument)

  def _add_up(self, comp: tff.Computation, arg: Any, argument: _Argument) -> Any:
    form = _mergeable(comp)
    # In the order of the clients, so that the sum does not depend on who was faster.
    parts = sorted(self._invoke_parts(form.up_to_merge, argument), key=lambda part: part[0])
    merged = parts[0][1]
    for _, value in parts[1:]:
      merged = self._home.invoke(form.merge, tff.structure.Struct.unnamed(merged, value))
    result = self._home.invoke(form.after_merge, tff.structure.Struct.unnamed(arg, merged))
    return type_conversions.type_to_py_container(result, comp.type_signature.result)

  def _invoke_parts(
      self, comp: tff.Computation, argument: _Argument
  ) -> list[tuple[list[int], Any]]:
    """Calls a computation for all clients.

    Returns:
      Pairs of the positions of some clients and what it returned for them.

    Raises:
      dealing.SiteMissing: If a site is lost and does not come back, or sites are lost in each
        attempt: then the one that was lost most often.
      runtime.WorkerLost: If no worker is left, or clients lose one worker after the other.
    """
    missing = list(range(argument.num_clients))
    done: list[tuple[list[int], Any]] = []
    reasons, lost = [], []
    for _ in range(_MAX_ATTEMPTS):
      calls = []
      for worker, clients in self._dealer.shares(missing, argument):
        if clients:
          part, paths = argument.part(clients, self._local_files)
          calls.append((worker, clients, self._callers.submit(worker.invoke, comp, part, paths)))
      missing = []
      for worker, clients, call in calls:
        try:
          done.append((clients, call.result()))
        except runtime.WorkerLost as e:
          reasons.append(str(e))
          missing += clients
          lost.append(worker)
          self._tell(f"{e} {self._dealer.what_follows(worker)}")
      if not missing:
        return done
      missing.sort()
    if lost[-1].site is not None:
      raise dealing.SiteMissing(max(lost, key=lost.count))
    raise runtime.WorkerLost(
        f"a round lost a worker {_MAX_ATTEMPTS} times: {' '.join(reasons)}"
    )


class Pool:
  """Workers on any machines, installed as TFF's default context.

  Use it as a context manager, from the main thread.

  Attributes:
    context: The TFF context.
  """

  def __init__(
      self,
      addresses: Sequence[str],
      timeout: float = 60,
      tell: Callable[[str], None] = lambda line: None,
      site_timeout: float = 600,
      may_miss_sites: bool = False,
      token: bytes = b"",
  ):
    """Connects to the workers.

    Args:
      addresses: Their hosts and ports, such as `("10.0.0.2:8000", "10.0.0.3:8000")`.
      timeout: Seconds after which a worker that does not answer counts as lost.
      tell: Receives a line for the user when a worker is lost.
      site_timeout: Seconds that a round waits for a lost site.
      may_miss_sites: Whether a site that does not answer is left out, if another one does.
      token: What all workers are sent before anything else (`token_file.read`); empty if they want
        none.

    Raises:
      remote_worker.WorkerUnusable: If one of them does not answer, is of another version, or
        was not started by this project; or if some own clients and others don't.
      ValueError: If there are no addresses, or one is given twice.
    """
    if not addresses or len(set(addresses)) < len(addresses):
      raise validate.error("workers", "name every worker once", addresses)
    validate.positive(timeout=timeout)
    validate.positive(site_timeout=site_timeout)
    self._home = runtime.LocalRuntime(num_cores=1)
    local_files = worker_files.LocalFiles()
    workers: list[remote_worker.RemoteWorker] = []
    try:
      for address in addresses:
        workers.append(remote_worker.RemoteWorker(address, timeout, local_files, token))
    except BaseException:
      for worker in workers:
        worker.close()
      self._home.close()
      raise
    self.context = _PoolContext(
        workers, local_files, self._home.context, timeout, site_timeout, tell
    )
    try:
      self.context.connect(may_miss_sites)
    except BaseException:
      self.close()
      raise
    tff.framework.set_default_context(self.context)

  def __enter__(self) -> Pool:
    return self

  def __exit__(self, *unused_exception: Any) -> None:
    self.close()

  @property
  def sites(self) -> dict[str, Mapping[str, Any]]:
    """What every site says of its clients, by address; empty if no worker owns any."""
    return self.context.sites

  @property
  def clients_at_a_time(self) -> dict[str, int]:
    """How many clients every worker computes at a time, by address."""
    return self.context.clients_at_a_time

  def close(self) -> None:
    """Ends the connections; the workers go on."""
    self.context.close()
    self._home.close()
