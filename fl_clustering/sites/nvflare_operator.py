"""The operator's end of the carrier: NVFlare's server for one program, and `exchange`."""

from __future__ import annotations

import contextlib
import functools
import importlib
import io
import json
import logging
from multiprocessing import connection
import os
import queue
import secrets
import signal
import subprocess
import tempfile
import threading
import time
from typing import Any, Collection, Iterator, Mapping

from fl_clustering.sites import coordinator
from fl_clustering.sites import nvflare_carrier
from fl_clustering.sites import nvflare_kit
from fl_clustering.sites import wire

_POLL = 0.2


def _exchange(
    relay: connection.Connection, seconds: float, requests: Mapping[str, bytes]
) -> dict[str, bytes]:
  """A `coordinator.Exchange`: sites that do not answer in time are left out."""
  answers: dict[str, bytes] = {}
  for message in dict.fromkeys(requests.values()):
    names = [name for name, own in requests.items() if own == message]
    try:
      relay.send_bytes(json.dumps({"sites": names, "seconds": seconds}).encode())
      relay.send_bytes(message)
      for name in json.loads(relay.recv_bytes()):
        answers[name] = relay.recv_bytes()
    except (EOFError, OSError) as e:
      raise coordinator.CarrierFailed("NVFlare's job has ended; its log says why") from e
  return answers


@contextlib.contextmanager
def open_operator(
    kit: str, sites: Collection[str], log: str, seconds: float, seconds_to_join: float
) -> Iterator[coordinator.Exchange]:
  """Runs NVFlare's server until the context ends, and gives what asks all sites by it.

  Args:
    kit: The folder that `nvflare_kit.provision` made for the operator.
    log: File for what NVFlare prints.
    seconds: How long a site may take for an answer.
    seconds_to_join: How long sites may take to connect.

  Raises:
    ValueError: If the kit can't be used.
    coordinator.SiteLost: If a site does not connect in time.
    coordinator.CarrierFailed: If the server or its job fails.
  """
  with contextlib.ExitStack() as stack:
    folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="operator-"))
    nvflare_kit.lay_out(kit, sites, folder)
    password = secrets.token_bytes(32)
    listener = stack.enter_context(connection.Listener(("127.0.0.1", 0), authkey=password))
    home = os.path.join(folder, "server")
    environment = {
        **nvflare_kit.environment(home),
        nvflare_carrier.RELAY_VARIABLE: f"{listener.address[1]}:{password.hex()}",
    }
    errors = stack.enter_context(open(log, "ab"))
    server = subprocess.Popen(
        nvflare_kit.command("server", f"org={nvflare_kit.OPERATOR}"), cwd=home, env=environment,
        stdin=subprocess.DEVNULL, stdout=errors, stderr=errors, start_new_session=True,
    )
    stack.callback(_end, server)
    session = _session(server, folder, seconds_to_join)
    stack.callback(_close, session)
    _wait_for(server, session, sites, seconds_to_join)
    job = session.submit_job(os.path.join(folder, "job"))
    relay = _accept(listener, server, session, job)
    stack.callback(_wait_for_end, server, session, job)
    stack.enter_context(relay)
    nvflare_carrier.send_at_once(relay)
    yield functools.partial(_exchange, relay, seconds)


def _session(server: subprocess.Popen, folder: str, seconds: float) -> Any:
  """Returns a session of the server's administrator, as soon as there is a server."""
  flare_api = importlib.import_module("nvflare.fuel.flare_api.flare_api")
  # What it says of connections that fail is said by us.
  logging.getLogger("nvflare").setLevel(logging.CRITICAL + 1)
  end, reason = time.monotonic() + seconds, "it doesn't answer"
  while time.monotonic() < end:
    _check_running(server)
    try:
      with contextlib.redirect_stdout(io.StringIO()):
        return flare_api.new_secure_session(
            nvflare_kit.ADMIN, os.path.join(folder, "admin"), timeout=5.0
        )
    except Exception as e:  # It has many.  pylint: disable=broad-exception-caught
      reason = wire.printable(f"{e}")
    time.sleep(_POLL)
  raise coordinator.CarrierFailed(f"the operator's server can't be used: {reason}")


def _check_running(server: subprocess.Popen) -> None:
  if server.poll() is not None:
    raise coordinator.CarrierFailed(
        f"NVFlare's server has ended with code {server.returncode}; its log says why"
    )


def _wait_for(
    server: subprocess.Popen, session: Any, sites: Collection[str], seconds: float
) -> None:
  end = time.monotonic() + seconds
  while True:
    _check_running(server)
    there = {client.name for client in session.get_system_info().client_info}
    missing = sorted({*sites} - there)
    if not missing:
      return
    if time.monotonic() > end:
      raise coordinator.SiteLost(
          f"{', '.join(missing)}: not connected after {seconds:g} seconds. A fit needs all sites: "
          "`join` must run at each, and reach this machine."
      )
    time.sleep(_POLL)


def _accept(
    listener: connection.Listener, server: subprocess.Popen, session: Any, job: str
) -> connection.Connection:
  """Returns the connection from the job, which begins after half a minute."""
  found: queue.Queue[connection.Connection] = queue.Queue()
  threading.Thread(target=lambda: found.put(listener.accept()), daemon=True).start()
  while True:
    with contextlib.suppress(queue.Empty):
      return found.get(timeout=1.0)
    _check_running(server)
    meta = session.get_job_meta(job)
    status = str(meta.get("status"))
    if not status.startswith(("SUBMITTED", "APPROVED", "DISPATCHED", "RUNNING")):
      refused = [one for one in meta.get("job_deploy_detail", ()) if not f"{one}".endswith(": OK")]
      reason = wire.printable("; ".join(map(str, refused)) or f"{status}; its log says why")
      raise coordinator.CarrierFailed(f"NVFlare's job has not begun: {reason}")


def _wait_for_end(server: subprocess.Popen, session: Any, job: str) -> None:
  """Lets sites end their part of the job, and close their ledgers."""
  with contextlib.suppress(Exception):
    _check_running(server)
    session.wait_for_job(job, timeout=10.0, poll_interval=_POLL)


def _close(session: Any) -> None:
  with contextlib.suppress(Exception):
    session.close()


def _end(server: subprocess.Popen) -> None:
  """Ends the server and its job's process, of which nothing is kept."""
  with contextlib.suppress(ProcessLookupError):
    os.killpg(server.pid, signal.SIGKILL)
  server.wait()
