"""Several workers as one: TFF's default context that shares clients out among machines.

A computation whose results stay apart, one for each client, is cut into one call per worker.
One that adds up over the clients is taken apart by TFF: each worker adds up its own, and the
server's part is done on this machine.

The workers of a pool compute for any client, and the clients of one that is lost go to the
others.  Sites are workers that own their clients: a client whose value holds a `site_paths`
path is computed where the file is, and if that site is lost, the round waits for it.
"""

import collections
import concurrent.futures
import time

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff
from tensorflow_federated.python.core.impl.types import type_conversions

from clustering_basics import validate
from fl_clustering import runtime
from fl_clustering.workers import remote_worker
from fl_clustering.workers import site_paths
from fl_clustering.workers import worker_files

# How often clients whose worker was lost are tried elsewhere, within one call.
_MAX_ATTEMPTS = 5
_CONNECT_SECONDS = 10
# Between two attempts, and for each of them.
_RECONNECT_SECONDS = 1


class SiteMissing(runtime.WorkerLost):
  """A site was lost and did not come back in time, or not as it was.

  Attributes:
    address: Its host and port.
  """

  def __init__(self, worker, seconds=None):
    """Makes the error.

    Args:
      worker: The site's `RemoteWorker`.
      seconds: How long it was waited for; None if there was nothing to wait for.
    """
    waited = "" if seconds is None else f", and was not back within {seconds:g} s"
    super().__init__(f"the site at {worker.address} {worker.reason}{waited}.")
    self.address = worker.address


def _at_clients(type_spec):
  return (
      isinstance(type_spec, tff.FederatedType)
      and type_spec.placement is tff.CLIENTS
      and not type_spec.all_equal
  )


def _on_paths(convert, value):
  """Returns a client's value with `convert` applied to every path in it."""

  def convert_leaf(leaf):
    if isinstance(leaf, str):
      return convert(leaf)
    if isinstance(leaf, np.ndarray) and leaf.dtype.kind == "U" and leaf.size:
      return np.array([convert(path) for path in leaf.tolist()])
    return leaf

  return tf.nest.map_structure(convert_leaf, value)


class _Argument:
  """The argument of a computation, which can be cut into arguments for some clients.

  Attributes:
    num_clients: How many clients have values in it; `None` if it holds no clients' values.
  """

  def __init__(self, arg, type_spec):
    """Takes an argument as TFF hands it to a context.

    Args:
      arg: The value.
      type_spec: The type of the computation's parameter.
    """
    self._is_struct = isinstance(type_spec, tff.StructType)
    if self._is_struct:
      self._elements = tff.structure.to_elements(tff.structure.from_container(arg))
      types = [of_element for _, of_element in tff.structure.to_elements(type_spec)]
    else:
      self._elements, types = [(None, arg)], [type_spec]
    self._places = [i for i, of_element in enumerate(types) if _at_clients(of_element)]
    self.num_clients = None
    if self._places:
      self.num_clients = len(self._elements[self._places[0]][1])

  def site(self, client):
    """Returns the address of the site that owns a client's files; None if it reads none there.

    Args:
      client: The client's position.
    """
    found = []

    def look(path):
      found.append(site_paths.parse(path))
      return path

    for i in self._places:
      _, values = self._elements[i]
      _on_paths(look, values[client])
    return next((path.address for path in found if path is not None), None)

  def part(self, clients, local_files):
    """Returns the argument for some clients, and the files of this machine that they read.

    Args:
      clients: The clients' positions.
      local_files: The `LocalFiles`, by which files are called there.
    """
    paths = []

    def name(path):
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


def _deal(clients, workers):
  """Returns a list of clients per worker, as many as it has cores for.

  Clients come with the most work first, so that one after the other goes to the worker that
  is next to be free.

  Args:
    clients: The clients' positions.
    workers: `RemoteWorker`s.
  """
  shares = [[] for _ in workers]
  for client in clients:
    free = min(
        range(len(workers)), key=lambda w: (len(shares[w]) + 1) / workers[w].num_cores
    )
    shares[free].append(client)
  return shares


class _PoolContext(tff.framework.SyncContext):
  """Computes at workers what clients do, and at `home` what the server does."""

  def __init__(self, workers, local_files, home, timeout, site_timeout, tell):
    self._workers = workers
    self._local_files = local_files
    self._home = home
    self._timeout = timeout
    self._site_timeout = site_timeout
    self._tell = tell
    self._callers = concurrent.futures.ThreadPoolExecutor(len(workers))
    self._connectors = concurrent.futures.ThreadPoolExecutor(len(workers))
    self._connecting = {}
    self._mergeable = {}

  def close(self):
    for worker in self._workers:
      worker.close()
    self._callers.shutdown()
    self._connectors.shutdown()

  def connect(self, may_miss_sites):
    """Connects to all workers; none may be missing, or else those that are no sites."""
    list(self._connectors.map(lambda worker: worker.connect(_CONNECT_SECONDS), self._workers))
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

  def _leave_out_missing(self):
    missing = [worker for worker in self._workers if worker.reason is not None]
    for worker in missing:
      self._tell(f"the site at {worker.address} {worker.reason}. It is left out.")
      worker.close()
    self._workers = [worker for worker in self._workers if worker not in missing]

  @property
  def sites(self):
    """What every site says of its clients, a dict by address; empty if no worker owns any."""
    return {worker.address: worker.site for worker in self._workers if worker.site is not None}

  def invoke(self, comp, arg):
    type_spec = comp.type_signature
    argument = arg is not None and _Argument(arg, type_spec.parameter)
    if not argument or not argument.num_clients:
      return self._home.invoke(comp, arg)
    if _at_clients(type_spec.result):
      results = [None] * argument.num_clients
      for clients, of_clients in self._invoke_parts(comp, argument):
        for client, result in zip(clients, of_clients):
          results[client] = result
      return results
    return self._add_up(comp, arg, argument)

  def _add_up(self, comp, arg, argument):
    if comp not in self._mergeable:
      self._mergeable[comp] = tff.backends.native.compile_to_mergeable_comp_form(comp)
    form = self._mergeable[comp]
    # In the order of the clients, so that the sum does not depend on who was faster.
    parts = sorted(self._invoke_parts(form.up_to_merge, argument), key=lambda part: part[0])
    merged = parts[0][1]
    for _, value in parts[1:]:
      merged = self._home.invoke(form.merge, tff.structure.Struct.unnamed(merged, value))
    result = self._home.invoke(form.after_merge, tff.structure.Struct.unnamed(arg, merged))
    return type_conversions.type_to_py_container(result, comp.type_signature.result)

  def _invoke_parts(self, comp, argument):
    """Calls a computation for all clients.

    Args:
      comp: The computation.
      argument: Its `_Argument`.

    Returns:
      A list of pairs of the positions of some clients and what it returned for them.

    Raises:
      runtime.WorkerLost: If no worker is left, or clients lose one worker after the other.
    """
    missing, done, reasons = list(range(argument.num_clients)), [], []
    for _ in range(_MAX_ATTEMPTS):
      calls = []
      for worker, clients in self._shares(argument, missing):
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
          self._tell(f"{e} {self._what_follows(worker)}")
      if not missing:
        return done
      missing.sort()
    raise runtime.WorkerLost(
        f"a round lost a worker {_MAX_ATTEMPTS} times: {' '.join(reasons)}"
    )

  def _what_follows(self, worker):
    if not self.sites:
      return "Its clients go to the other workers."
    if worker.is_full:
      return "The round does not wait for it."
    return f"The round waits {self._site_timeout:g} s for it."

  def _shares(self, argument, clients):
    """Returns pairs of a worker and the clients that it computes.

    Args:
      argument: The `_Argument`.
      clients: The clients' positions, those with the most work first.
    """
    if not self.sites:
      workers = self._usable()
      return list(zip(workers, _deal(clients, workers)))
    of_site = collections.defaultdict(list)
    for client in clients:
      of_site[argument.site(client)].append(client)
    if None in of_site:  # What reads no file can be done anywhere.
      usable = [worker for worker in self._workers if worker.reason is None]
      of_site[(usable or self._workers)[0].address] += of_site.pop(None)
    return [
        (self._returned(worker), of_site[worker.address])
        for worker in self._workers if of_site[worker.address]
    ]

  def _returned(self, site):
    """Returns a site, once it can be used."""
    deadline = time.monotonic() + self._site_timeout
    while site.reason is not None:
      if site.is_full:
        raise SiteMissing(site)
      if time.monotonic() > deadline:
        raise SiteMissing(site, self._site_timeout)
      self._ask_back(site)
      try:
        self._connecting[site].result(_RECONNECT_SECONDS)
      except remote_worker.WorkerUnusable as e:
        raise SiteMissing(site) from e
      except concurrent.futures.TimeoutError:
        pass
      if site.reason is not None:
        time.sleep(_RECONNECT_SECONDS)
    return site

  def _ask_back(self, worker):
    if worker.reason is not None and not worker.is_full and self._is_free(worker):
      self._connecting[worker] = self._connectors.submit(worker.connect, _RECONNECT_SECONDS)

  def _usable(self):
    """Returns the workers that can be used; the others are asked to come back, meanwhile."""
    deadline = time.monotonic() + self._timeout
    while True:
      for worker in self._workers:
        self._ask_back(worker)
      usable = [worker for worker in self._workers if worker.reason is None]
      if usable:
        return usable
      if time.monotonic() > deadline:
        reasons = ", ".join(f"{worker.address} {worker.reason}" for worker in self._workers)
        raise runtime.WorkerLost(f"no worker is left: {reasons}.")
      time.sleep(_RECONNECT_SECONDS)

  def _is_free(self, worker):
    return worker not in self._connecting or self._connecting[worker].done()


class Pool:
  """Workers on any machines, installed as TFF's default context.

  Use it as a context manager, from the main thread.

  Attributes:
    context: The TFF context.
  """

  def __init__(
      self, addresses, timeout=60, tell=lambda line: None, site_timeout=600, may_miss_sites=False
  ):
    """Connects to the workers.

    Args:
      addresses: Their hosts and ports, such as `("10.0.0.2:8000", "10.0.0.3:8000")`.
      timeout: Seconds after which a worker that does not answer counts as lost.
      tell: A function that tells the user a line, which is called when a worker is lost.
      site_timeout: Seconds that a round waits for a lost site.
      may_miss_sites: Whether a site that does not answer is left out, if another one does.

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
    workers = [
        remote_worker.RemoteWorker(address, timeout, local_files) for address in addresses
    ]
    self.context = _PoolContext(
        workers, local_files, self._home.context, timeout, site_timeout, tell
    )
    try:
      self.context.connect(may_miss_sites)
    except BaseException:
      self.close()
      raise
    tff.framework.set_default_context(self.context)

  def __enter__(self):
    return self

  def __exit__(self, *unused_exception):
    self.close()

  @property
  def sites(self):
    """What every site says of its clients, a dict by address; empty if no worker owns any."""
    return self.context.sites

  def close(self):
    """Ends the connections; the workers go on."""
    self.context.close()
    self._home.close()
