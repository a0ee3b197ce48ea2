"""What NVFlare 2.9 runs for us: it carries bytes, and understands none of them.

*   `Relay`, at the server: gets messages from the operator's program, sends them to sites, and
    returns the answers.
*   `SiteExecutor`, at a site: hands the server's messages to the `Site`.
*   `OneJob`, at a site: has every job refused but the one that names `SiteExecutor` and nothing
    else, and every command but those that begin and end it.

NVFlare's policy binds those who log in at a server, not a server whose own code was changed: it may
send a client commands of a shell, or for what went wrong there, without a word of who asks, and
they are carried out.  So the list of commands is cut here.
"""

from __future__ import annotations

import io
import json
from multiprocessing import connection
import os
import re
import shlex
import socket
import sys
import threading
import time
from typing import Any, Collection
import zipfile

from nvflare.apis.event_type import EventType
from nvflare.apis.executor import Executor
from nvflare.apis.fl_constant import AdminCommandNames
from nvflare.apis.fl_constant import FLContextKey
from nvflare.apis.fl_constant import ReturnCode
from nvflare.apis.impl.controller import Controller
from nvflare.apis.job_launcher_spec import JobProcessArgs
from nvflare.apis.shareable import make_reply
from nvflare.apis.utils.decomposers import flare_decomposers
from nvflare.app_common.job_launcher.client_process_launcher import ClientProcessJobLauncher
from nvflare.app_common.job_launcher.server_process_launcher import ServerProcessJobLauncher
from nvflare.fuel.f3 import message as message_lib
from nvflare.fuel.f3.cellnet import cell as cell_lib
from nvflare.fuel.f3.cellnet import defs
from nvflare.fuel.f3.cellnet import fqcn as fqcn_lib
from nvflare.fuel.f3.cellnet import net_agent
from nvflare.fuel.f3.cellnet import utils as cell_utils
from nvflare.private import admin_defs
from nvflare.private import defs as defs_lib
from nvflare.private.fed.client import admin_commands
from nvflare.private.fed.client import client_req_processors
from nvflare.private.fed.client import fed_client_base
from nvflare.private.fed.client import training_cmds
from nvflare.private.fed.utils.app_deployer import AppDeployer

from fl_clustering.sites import nvflare_kit
from fl_clustering.sites import site as site_lib
from fl_clustering.sites import site_folder
from fl_clustering.sites import wire

_CHANNEL, _TOPIC = "federated_clustering", "sites"
# Where the operator's program listens, and a password; in the server's environment.
RELAY_VARIABLE = "FEDERATED_CLUSTERING_RELAY"
_CONFIG = "config/config_fed_client.json"
# With what NVFlare adds to a job that is submitted.
_JOB_NAMES = frozenset((_CONFIG, "config/", *(
    f"{folder}.__nvfl_{name}"
    for folder in ("", "config/") for name in ("sig.json", "submitter.crt")
)))
_JOB_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_MOST_JOB_BYTES = 2**20
_POLL = 0.2
# What may come as bytes.
_BYTES = (bytes, bytearray, memoryview)


def send_at_once(opened: connection.Connection) -> None:
  """Has a connection wait for no acknowledgement before it sends more, which takes 40 ms."""
  with socket.socket(fileno=os.dup(opened.fileno())) as same:
    same.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


def is_our_job(app: Any) -> bool:
  """Returns whether a zip file holds our configuration of a site, signatures, and no more.

  Unpacked, it takes no more than `_MOST_JOB_BYTES`: what a file says of its sizes is where its
  unpacking ends.
  """
  if not isinstance(app, bytes) or len(app) > _MOST_JOB_BYTES:
    return False
  try:
    with zipfile.ZipFile(io.BytesIO(app)) as files:
      infos = files.infolist()
      names = {info.filename for info in infos}
      if len(names) < len(infos) or not {_CONFIG} <= names <= _JOB_NAMES:
        return False
      # What NVFlare makes, and what unpacks no more than it is asked for.
      if {info.compress_type for info in infos} - {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED}:
        return False
      if sum(info.file_size for info in infos) > _MOST_JOB_BYTES:
        return False
      with files.open(_CONFIG) as file:
        # Without a number, it would take all that the entry makes before it is cut.
        return json.loads(file.read(_MOST_JOB_BYTES)) == nvflare_kit.SITE_JOB
  except Exception:  # Of any bytes, there may be any.  pylint: disable=broad-exception-caught
    return False


_deploy = training_cmds.DeployProcessor.process


def _deploy_ours(processor: Any, req: Any, app_ctx: Any) -> Any:
  """Refuses another job before NVFlare unpacks it: what else a job can do is no question then."""
  # A job's folder is made anew, beside those of the policy and the keys.
  job_id = req.get_header(defs_lib.RequestHeader.JOB_ID)
  if not (_JOB_ID.fullmatch(f"{job_id}") and is_our_job(req.body)):
    return admin_defs.error_reply("this site runs one job, that of federated-clustering, unchanged")
  return _deploy(processor, req, app_ctx)


# What is left of a client's commands: of those to the site, and of those to its job.
_SITE_COMMANDS = (
    defs_lib.TrainingTopic.CHECK_RESOURCE, defs_lib.TrainingTopic.CANCEL_RESOURCE,
    defs_lib.TrainingTopic.DEPLOY, defs_lib.TrainingTopic.START_JOB, defs_lib.TrainingTopic.ABORT,
    defs_lib.TrainingTopic.NOTIFY_JOB_STATUS,
)
_JOB_COMMANDS = (
    AdminCommandNames.ABORT, AdminCommandNames.CHECK_STATUS, AdminCommandNames.SHUTDOWN,
)


def _is_of(origin: Any, *roots: str) -> bool:
  """Returns whether a message comes from one of `roots`.

  The server checks that messages of other sites, which it passes on, say whose they are.
  """
  return bool(origin) and fqcn_lib.FqcnInfo(origin).root in roots


class _Guard(net_agent.NetAgent):
  """Keeps the requests of others from this process, and all those that no command is behind.

  Any site may send another one what NVFlare's server sends.  And to whoever asks, a process tells
  how much memory it takes, or stops.
  """

  def __init__(self, cell: Any, *args: Any, **kwargs: Any) -> None:
    super().__init__(cell, *args, **kwargs)
    answered = self.cell.req_reg.reg
    for key in [key for key in answered if key.startswith("_net_manager:")]:
      del answered[key]
    self._root = fqcn_lib.FqcnInfo(self.cell.get_fqcn()).root
    self.cell.set_message_interceptor(self._refusal)
    self.logger.info("requests of others than the server are refused")

  def _refusal(self, request: Any) -> Any:
    origin = request.get_header(defs.MessageHeaderKey.ORIGIN)
    if _is_of(origin, fqcn_lib.FQCN.ROOT_SERVER, self._root):
      return None
    return cell_utils.make_reply(defs.ReturnCode.INVALID_REQUEST)


class _SilentAdapter(cell_lib.Adapter):
  """Hands messages on; the text of an error, which NVFlare would send, stays here."""

  def call(self, future: Any, *args: Any, **kwargs: Any) -> None:
    try:
      super().call(future, *args, **kwargs)
    except Exception as e:  # pylint: disable=broad-exception-caught
      self.logger.error("a message failed: %s", e)
      raise ValueError("the message can't be taken") from None


def _no_workspace(*unused_arguments: Any) -> None:
  raise ValueError("a message must have no workspace in it")


class OneJob(AppDeployer):
  """Takes all other jobs and commands from a site, and from messages what looks at folders.

  NVFlare makes objects of a message before any function of ours is called.  A `Workspace` would
  look whether a folder of the sender's choice is there, and a client's may be.
  """

  def __init__(self) -> None:
    """Is called in both of a site's processes before they connect."""
    super().__init__()
    fed_client_base.NetAgent = _Guard
    cell_lib.Adapter = _SilentAdapter
    flare_decomposers.WorkspaceDecomposer.recompose = _no_workspace
    training_cmds.DeployProcessor.process = _deploy_ours
    processors = client_req_processors.ClientRequestProcessors.request_processors
    # In place: the list is in use already.
    processors[:] = [one for one in processors if {*one.get_topics()} <= {*_SITE_COMMANDS}]
    commands = admin_commands.AdminCommands.commands
    commands[:] = [one for one in commands if one.get_command_name() in _JOB_COMMANDS]


class _Quoting:
  """A launcher of jobs whose command may name folders with blanks."""

  def get_command(self, job_meta: dict, fl_ctx: Any) -> str:
    """Returns the command of a job's process, for `shlex`."""
    arguments = fl_ctx.get_prop(FLContextKey.JOB_PROCESS_ARGS)
    for name, (option, value) in list(arguments.items()):
      if name != JobProcessArgs.OPTIONS:  # These are several.
        arguments[name] = option, shlex.quote(f"{value}")
    command: str = super().get_command(job_meta, fl_ctx)  # type: ignore[misc]
    return shlex.quote(sys.executable) + command[len(sys.executable):]


class SiteLauncher(_Quoting, ClientProcessJobLauncher):
  """At a site."""


class RelayLauncher(_Quoting, ServerProcessJobLauncher):
  """At the server."""


def _end_with_site() -> None:
  """Has this process end at once when `experiments.site` does, however that ends.

  NVFlare starts a job's process in a session of its own, out of reach of signals for the others.
  """
  descriptor = int(os.environ[nvflare_kit.LIFELINE_VARIABLE])
  os.fstat(descriptor)

  def watch() -> None:
    os.read(descriptor, 1)  # Nothing is written, so it returns at the pipe's end.
    os._exit(1)

  threading.Thread(target=watch, daemon=True).start()


class SiteExecutor(Executor):
  """Answers the server's messages; takes nothing from the job."""

  def __init__(self) -> None:
    super().__init__()
    self._site: site_lib.Site | None = None
    self._has_begun = False

  def handle_event(self, event_type: str, fl_ctx: Any) -> None:
    """Opens the site when the job begins, once, and closes it at its end, for good."""
    if event_type == EventType.START_RUN and not self._has_begun:
      self._has_begun = True
      try:
        _end_with_site()
        folder = site_folder.SiteFolder(os.environ[site_folder.VARIABLE])
        nvflare_kit.check_locked(folder.workspace)
        self._site = folder.open()
        self.logger.info("the site is open")
      except Exception as e:  # pylint: disable=broad-exception-caught
        # Why is for the people of the site.
        self.logger.error("the site can't be opened: %s", e)
      fl_ctx.get_engine().get_cell().register_request_cb(
          channel=_CHANNEL, topic=_TOPIC, cb=self._answer
      )
    elif event_type == EventType.END_RUN and self._site is not None:
      self._site.close()

  def _answer(self, request: Any) -> Any:
    origin = request.get_header(defs.MessageHeaderKey.ORIGIN)
    is_servers = _is_of(origin, fqcn_lib.FQCN.ROOT_SERVER)
    if not is_servers or not isinstance(request.payload, _BYTES):
      return cell_utils.make_reply(defs.ReturnCode.INVALID_REQUEST)
    if self._site is None:
      answer = wire.pack({"refused": "it can't be opened, and its own log says why"})
    else:
      answer = self._site.handle(bytes(request.payload))
    return cell_utils.make_reply(defs.ReturnCode.OK, body=answer)

  def execute(self, task_name: str, shareable: Any, fl_ctx: Any, abort_signal: Any) -> Any:
    """Refuses tasks: the server has none."""
    return make_reply(ReturnCode.TASK_UNKNOWN)


class Relay(Controller):
  """Sends to sites what the operator's program says, until that is gone."""

  def start_controller(self, fl_ctx: Any) -> None:
    pass

  def stop_controller(self, fl_ctx: Any) -> None:
    pass

  def control_flow(self, abort_signal: Any, fl_ctx: Any) -> None:
    port, password = os.environ[RELAY_VARIABLE].split(":")
    address = "127.0.0.1", int(port)
    seen: set[str] = set()
    with connection.Client(address, authkey=bytes.fromhex(password)) as program:
      send_at_once(program)
      while not abort_signal.triggered:
        try:
          head, message = json.loads(program.recv_bytes()), program.recv_bytes()
        except (EOFError, OSError):
          return
        end = time.monotonic() + head["seconds"]
        answers: dict[str, bytes] = {}
        while missing := {*head["sites"]} - {*answers}:
          answers |= self._answers(missing, message, end, abort_signal, fl_ctx)
          seen |= {*answers}
          # Sites' part of the job begins a little later than the server's.
          if missing <= seen or time.monotonic() > end or abort_signal.triggered:
            break
          time.sleep(_POLL)
        program.send_bytes(json.dumps(list(answers)).encode())
        for answer in answers.values():
          program.send_bytes(answer)

  def _answers(
      self, names: Collection[str], message: bytes, end: float, abort_signal: Any, fl_ctx: Any
  ) -> dict[str, bytes]:
    """Returns the answers by site, without sites that don't answer."""
    engine = fl_ctx.get_engine()
    by_target = {
        fqcn_lib.FQCN.join([client.get_fqcn(), fl_ctx.get_job_id()]): client.name
        for client in engine.get_clients() if client.name in names
    }
    if not by_target:
      return {}
    replies = engine.get_cell().broadcast_request(
        channel=_CHANNEL, topic=_TOPIC, request=message_lib.Message(payload=message),
        targets=list(by_target), timeout=max(_POLL, end - time.monotonic()), optional=True,
        abort_signal=abort_signal,
    )
    return {
        # Of a number, `bytes` would make as many; what is no message, the program refuses.
        by_target[target]: bytes(reply.payload) if isinstance(reply.payload, _BYTES) else b""
        for target, reply in replies.items()
        if reply.get_header(defs.MessageHeaderKey.RETURN_CODE) == defs.ReturnCode.OK
    }
