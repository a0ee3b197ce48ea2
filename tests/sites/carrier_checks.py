"""Checks of what NVFlare runs for us, for a Python that has NVFlare: `network_test` runs them."""

import contextlib
import datetime
import importlib.metadata
import io
import json
import os
import signal
import struct
import subprocess
import sys
import tempfile
import time
import tracemalloc
from unittest import mock
import uuid
import warnings
import zipfile

from absl.testing import absltest
from absl.testing import parameterized
from nvflare.apis.event_type import EventType
from nvflare.apis.utils.decomposers import flare_decomposers
from nvflare.apis import workspace as workspace_lib
from nvflare.fuel.f3 import message as message_lib
from nvflare.fuel.f3.cellnet import cell as cell_lib
from nvflare.fuel.f3.cellnet import defs
from nvflare.fuel.f3.cellnet import registry
from nvflare.fuel.f3.cellnet import utils as cell_utils
from nvflare.fuel.f3.streaming import stream_const
from nvflare.private import admin_defs
from nvflare.private import defs as private_defs
from nvflare.private.fed.client import admin_commands
from nvflare.private.fed.client import client_engine_internal_spec
from nvflare.private.fed.client import client_req_processors
from nvflare.private.fed.client import fed_client_base
from nvflare.private.fed.client import training_cmds
import psutil

from experiments import site as site_program
from fl_clustering.sites import nvflare_carrier
from fl_clustering.sites import nvflare_kit
from fl_clustering.sites import site_folder
from fl_clustering.sites import wire
from tests import nightly
from tests.experiment_shell import in_process
from tests.runtime import scripts
from tests.sites import sample_sites

_CONFIG = "config/config_fed_client.json"
_LIFELINE, _ = os.pipe()  # This process ends with it.


def _job(document=None, compression=zipfile.ZIP_STORED, num_blanks=0, **files):
  """Returns the bytes of a job as a site gets it."""
  written, text = io.BytesIO(), json.dumps(nvflare_kit.SITE_JOB if document is None else document)
  with zipfile.ZipFile(written, "w", compression) as job:
    job.writestr(_CONFIG, text + num_blanks * " ")
    for name, text in files.items():
      job.writestr(name, text)
  return written.getvalue()


def _others():
  """Returns jobs that are not ours, by name, some of which are much longer unpacked."""
  deflated, blanks = zipfile.ZIP_DEFLATED, 50 * 2**20
  longer = _job(compression=deflated, num_blanks=blanks)
  size = len(json.dumps(nvflare_kit.SITE_JOB))
  signature = ".__nvfl_sig.json"
  twice = io.BytesIO(_job())
  with warnings.catch_warnings(action="ignore"), zipfile.ZipFile(twice, "a") as job:
    job.writestr(_CONFIG, json.dumps(nvflare_kit.SITE_JOB))
  popen = {"id": "x", "path": "subprocess.Popen", "args": {"args": ["true"]}}
  return {
      "longer": longer,
      "lying": longer.replace(struct.pack("<I", size + blanks), struct.pack("<I", size)),
      "signature": _job(compression=deflated, **{signature: blanks * " "}),
      "folders": _job(**{f"{'a/' * 1000}{signature}": "{}"}),
      "entries": _job(**{f"{place}/": "" for place in range(1000)}),
      "nested": _job(compression=deflated, **{"custom.zip": longer}),
      "other compression": _job(compression=zipfile.ZIP_LZMA, num_blanks=blanks),
      "long": _job(num_blanks=2**20), "two configurations": twice.getvalue(),
      **{name: _job(**{name: "{}"}) for name in (
          "custom/evil.py", "config/config_train.json", "../local/resources.json",
          "custom/.__nvfl_sig.json.py",
      )},
      **{f"{change}": _job({**nvflare_kit.SITE_JOB, **change}) for change in (
          {"components": [popen]}, {"executors": []}, {"more": 1},
          {"task_data_filters": [{"tasks": ["*"], "filters": []}]},
      )},
      "no zip": b"no zip", "cut": _job()[:-30], "number": 2**40, "text": "PK", "nothing": None,
  }


class OneJobTest(absltest.TestCase):

  def test_our_job_is_ours_with_signatures(self):
    signatures = dict.fromkeys(
        ("config/", ".__nvfl_sig.json", ".__nvfl_submitter.crt", "config/.__nvfl_sig.json"), "{}"
    )
    for app in (_job(), _job(**signatures)):
      self.assertTrue(nvflare_carrier.is_our_job(app))

  def test_another_job_is_refused_before_it_is_unpacked(self):
    nvflare_carrier.OneJob()
    deploy = next(
        one for one in client_req_processors.ClientRequestProcessors.request_processors
        if private_defs.TrainingTopic.DEPLOY in one.get_topics()
    )
    unpack = self.enterContext(mock.patch.object(training_cmds, "unzip_all_from_bytes"))
    engine = mock.MagicMock(spec=client_engine_internal_spec.ClientEngineInternalSpec)
    workspace = tempfile.mkdtemp()
    for name in ("startup", "local"):
      os.mkdir(os.path.join(workspace, name))
    engine.args, engine.get_client_name = mock.MagicMock(workspace=workspace), lambda: "north"

    def reply(app, job_id=f"{uuid.uuid4()}"):
      message = admin_defs.Message(private_defs.TrainingTopic.DEPLOY, app)
      message.set_header(private_defs.RequestHeader.JOB_META, {"a": 1})
      message.set_header(private_defs.RequestHeader.JOB_ID, job_id)
      return deploy.process(message, engine).body

    others = _others()
    tracemalloc.start()
    self.addCleanup(tracemalloc.stop)
    for name, app in others.items():
      tracemalloc.reset_peak()
      self.assertIn("one job", reply(app), name)
      self.assertLess(tracemalloc.get_traced_memory()[1], 10 * 2**20, name)
    # Of folders that are there.
    for job_id in ("local", "startup", "..", f"{uuid.uuid4()}/../local", "", None):
      self.assertIn("one job", reply(_job(), job_id))
    unpack.assert_not_called()
    # Ours goes on to NVFlare's checks.
    self.assertNotIn("one job", reply(_job(compression=zipfile.ZIP_DEFLATED)))
    unpack.assert_called_once()


class KitTest(parameterized.TestCase):

  @classmethod
  def setUpClass(cls):
    super().setUpClass()
    cls.folder = tempfile.mkdtemp()
    cls.kits = os.path.join(cls.folder, "kits")
    cls.paths = nvflare_kit.provision(("east", "north", "south"), "localhost", 8002, cls.kits)

  def setUp(self):
    super().setUp()
    self.workspace = os.path.join(tempfile.mkdtemp(), "nvflare")

  def _kit(self, **changes):
    """Returns the path of north's kit with other values; None takes one out."""
    with open(self.paths[1], encoding="utf-8") as file:
      document = json.load(file) | changes
    path = os.path.join(tempfile.mkdtemp(), "north.json")
    with open(path, "w", encoding="utf-8") as file:
      json.dump({key: value for key, value in document.items() if value is not None}, file)
    return path

  def _install(self, kit):
    nvflare_kit.install(kit, "north", self.workspace)

  def _refused(self):
    return self.assertRaisesRegex(ValueError, "^`kit` ")

  def test_a_site_takes_keys_and_an_address_and_writes_the_rest(self):
    for _ in range(2):  # As after a restart.
      self._install(self._kit())
      nvflare_kit.check_locked(self.workspace)
    parent = os.path.dirname(self.workspace)
    found = {
        os.path.relpath(os.path.join(folder, name), parent)
        for folder, _, names in os.walk(parent) for name in names
    }
    self.assertEqual(found, {
        *(f"nvflare/startup/{one}" for one in (
            "client.crt", "client.key", "rootCA.pem", "fed_client.json")),
        *(f"nvflare/local/{one}" for one in nvflare_kit.LOCKED),
    })
    self.assertEqual(os.stat(f"{self.workspace}/startup/client.key").st_mode & 0o077, 0)
    with open(f"{self.workspace}/startup/fed_client.json", encoding="utf-8") as file:
      self.assertIs(json.load(file)["require_signed_jobs"], True)

  def test_nobody_may_bring_code_or_use_a_shell(self):
    for role in nvflare_kit.LOCKED["authorization.json"]["permissions"].values():
      for right in ("byoc", "shell_commands", "operate", "view", "download_job", "clone_job"):
        self.assertEqual(role[right], "none")
    resources = nvflare_kit.LOCKED["resources.json"]
    executor = nvflare_kit.SITE_JOB["executors"][0]["executor"]["path"]
    self.assertEqual(resources["class_allow_list"], [executor])
    self.assertNotIn("site_log_streamer", [one["id"] for one in resources["components"]])

  @parameterized.parameters(
      {"client.key": None}, {"client.key": 1}, {"client.crt": "none"}, {"rootCA.pem": "\ud800"},
      {"site": "east"}, {"site": None}, {"host": "a b"}, {"port": "1"}, {"port": 0},
      {"port": True}, {"format": 2}, {"../evil": "evil"}, {"local/authorization.json": "{}"},
  )
  def test_a_kit_that_is_none_is_refused(self, **changes):
    with self._refused():
      self._install(self._kit(**changes))

  def test_a_kit_of_long_ago_is_refused(self):
    now = datetime.datetime(2200, 1, 1, tzinfo=datetime.timezone.utc)
    with mock.patch.object(datetime, "datetime", **{"now.return_value": now}), self._refused():
      self._install(self._kit())

  def test_nothing_that_was_there_stays(self):
    other = tempfile.mkdtemp()
    os.symlink(other, self.workspace)
    with self.assertRaises(OSError):
      self._install(self._kit())
    self.assertEmpty(os.listdir(other))

  def test_a_damaged_kit_is_refused(self):
    path = self._kit()
    with open(path, "rb") as file:
      whole = file.read()
    for damaged in (b"", whole[:-1], b"\xff" + whole, b"[]", b"[" * 10**5, whole[:-1] + b", 1}"):
      with open(path, "wb") as file:
        file.write(damaged)
      with self._refused():
        self._install(path)

  @parameterized.parameters(
      "custom", "privacy.json", "resources.json.default", *nvflare_kit.LOCKED
  )
  def test_a_policy_with_more_or_less_in_it_is_not_locked(self, name):
    nvflare_kit.write_locked(self.workspace)
    path = os.path.join(self.workspace, "local", name)
    if name in nvflare_kit.LOCKED:
      os.remove(path)
    else:
      with open(path, "w", encoding="utf-8") as file:
        file.write("{}")
    with self._refused():
      nvflare_kit.check_locked(self.workspace)

  def test_kits_are_secret_and_the_operators_part_stays(self):
    self.assertLen(self.paths, 3)
    for path in (*self.paths, self.kits, os.path.join(self.kits, nvflare_kit.OPERATOR)):
      self.assertEqual(os.stat(path).st_mode & 0o077, 0)
    nvflare_kit.check_operator(os.path.join(self.kits, nvflare_kit.OPERATOR))
    for _, _, names in os.walk(self.kits):
      self.assertEmpty([name for name in names if name.endswith(".sh")])

  @parameterized.parameters(
      (("east", "north", "server"), "localhost", 1, "sites"),
      (("east", "north", "south"), "no host", 1, "host"),
      (("east", "north", "south"), "localhost", 0, "port"),
  )
  def test_kits_that_can_not_be_made(self, sites, host, port, name):
    with self.assertRaisesRegex(ValueError, name):
      nvflare_kit.provision(sites, host, port, os.path.join(tempfile.mkdtemp(), "kits"))

  def test_another_version_is_refused(self):
    with (
        mock.patch.object(importlib.metadata, "version", lambda name: "2.10.0"),
        self.assertRaisesRegex(ValueError, "`nvflare` must be installed in a version 2.9"),
    ):
      nvflare_kit.check_version()


class CommandsTest(absltest.TestCase):

  def test_commands_that_no_fit_needs_are_gone(self):
    in_use = client_req_processors.ClientRequestProcessors.request_processors
    self.enterContext(mock.patch.object(
        client_req_processors.ClientRequestProcessors, "request_processors", in_use
    ))
    nvflare_carrier.OneJob()

    topics = {topic for one in in_use for topic in one.get_topics()}
    self.assertIn(private_defs.TrainingTopic.DEPLOY, topics)
    for topic in (
        private_defs.SysCommandTopic.SHELL, private_defs.SysCommandTopic.CONFIGURE_SITE_LOG,
        private_defs.TrainingTopic.CONFIGURE_JOB_LOG, private_defs.TrainingTopic.DELETE_RUN,
        private_defs.SysCommandTopic.SYS_INFO, private_defs.SysCommandTopic.REPORT_ENV,
    ):
      self.assertNotIn(topic, topics)
    for name in ("configure_job_log", "show_errors", "show_stats", "reset_errors"):
      self.assertIsNone(admin_commands.AdminCommands.get_command(name))

  def test_no_process_tells_of_itself_or_obeys_another_site(self):
    self.enterContext(mock.patch.object(fed_client_base, "NetAgent", fed_client_base.NetAgent))
    nvflare_carrier.OneJob()
    cell = mock.MagicMock()
    cell.get_fqcn.return_value = "north.job"
    cell.req_reg = registry.Registry()
    cell.register_request_cb = lambda channel, topic, cb: cell.req_reg.set(channel, topic, cb)
    cell.req_reg.set("others", "topic", print)
    agent = fed_client_base.NetAgent(cell)
    self.addCleanup(agent.close)
    self.assertEqual([*cell.req_reg.reg], ["others:topic"])
    (refusal,) = cell.set_message_interceptor.call_args.args
    for origin, is_refused in (
        ("server", False), ("server.job", False), ("north", False), ("north.job", False),
        ("south", True), ("south.job", True), ("servers", True), ("", True), (None, True),
    ):
      reply = refusal(message_lib.Message({defs.MessageHeaderKey.ORIGIN: origin}, b""))
      self.assertEqual(reply is not None, is_refused, origin)


class DecodingTest(absltest.TestCase):

  def _told(self, path):
    """Returns what the sender of a message with an object of this path is told, but the path."""
    # Without a check of whether it is there.
    named = workspace_lib.Workspace.__new__(workspace_lib.Workspace)
    named.root_dir, named.site_name, named.config_folder = path, "", "config"
    message = message_lib.Message(payload={"folder": named})
    cell_utils.encode_payload(message, stream_const.StreamHeaderKey.PAYLOAD_ENCODING)
    future, receiver = mock.MagicMock(headers=message.headers), mock.MagicMock()
    future.result.return_value = b"".join(message.payload)
    receiver.get_fobs_context.return_value = {}
    try:
      cell_lib.Adapter(mock.MagicMock(), mock.MagicMock(), receiver).call(future)
    except Exception as e:  # Its text is sent.  pylint: disable=broad-exception-caught
      return f"{type(e).__name__}: {e}".replace(path, "")
    return f"{receiver.mock_calls}".replace(path, "")

  def test_no_message_tells_which_folders_there_are(self):
    flare_decomposers.register()
    nvflare_carrier.OneJob()
    there = tempfile.mkdtemp()
    told = self._told(there)
    self.assertNotIn("startup", told)
    self.assertEqual(self._told(f"{there}_nobody"), told)
    # Nor by what it does.
    with self.assertRaisesRegex(ValueError, "must have no workspace"):
      flare_decomposers.WorkspaceDecomposer().recompose([there, "", "config"])

  def test_what_fails_stays_here(self):
    nvflare_carrier.OneJob()
    future = mock.MagicMock()
    future.result.side_effect = RuntimeError("secret")
    adapter = cell_lib.Adapter(mock.MagicMock(), mock.MagicMock(), mock.MagicMock())
    with self.assertRaises(ValueError) as caught:
      adapter.call(future)
    self.assertNotIn("secret", f"{caught.exception}")


class RelayTest(absltest.TestCase):

  def test_what_a_site_answers_that_is_no_bytes_is_no_message(self):
    ok = {defs.MessageHeaderKey.RETURN_CODE: defs.ReturnCode.OK}
    sent = {"a": b"1", "b": bytearray(b"2"), "c": 2**40, "d": [1], "e": None, "f": "text"}
    context = mock.MagicMock()
    context.get_job_id.return_value = "job"
    engine = context.get_engine.return_value
    engine.get_clients.return_value = [mock.MagicMock(**{"get_fqcn.return_value": n}) for n in sent]
    for client, name in zip(engine.get_clients.return_value, sent):
      client.name = name
    engine.get_cell.return_value.broadcast_request.return_value = {
        f"{name}.job": message_lib.Message(ok, payload) for name, payload in sent.items()
    }
    answers = nvflare_carrier.Relay()._answers(sent, b"", 0.0, None, context)
    self.assertEqual(answers, {**dict.fromkeys(sent, b""), "a": b"1", "b": b"2"})
    broadcast = engine.get_cell.return_value.broadcast_request
    for seconds, least, most in ((-1e6, 0, 1), (1e6, 0.9e6, 1e6)):
      nvflare_carrier.Relay()._answers(sent, b"", time.monotonic() + seconds, None, context)
      self.assertBetween(broadcast.call_args.kwargs["timeout"], least, most)


class SiteProgramTest(absltest.TestCase):

  def test_people_see_what_is_spent_and_how_their_tables_were_read(self):
    folder = tempfile.mkdtemp()
    sites = sample_sites.make(folder, privacy=sample_sites.PRIVATE)
    made = sample_sites.write_folder(sites, "north", folder)
    opened = made.open()
    opened._ledger.begin("s1", sites.federation.hash.hex(), "row")
    opened._ledger.spend(0.25 * opened.budget[1], opened.budget[1] ** 0.5)
    opened.close()
    with mock.patch.object(nvflare_kit, "install"):
      printed = in_process.run_main(
          site_program._agree, f"--site_dir={made.path}", "--kit=any",
          f"--join={os.path.join(made.path, 'federation.json')}",
          f"--fingerprint={sites.federation.fingerprint}",
      )
    size = len(sites.rows["north"])
    for text in (f"rows: {size} in ", f"north.csv: rows: {size}, ", "spent: 25.0% of"):
      self.assertIn(text, printed)


class StoppingTest(absltest.TestCase):

  def test_a_site_that_is_stopped_leaves_no_process_that_answers(self):
    running = {}
    # By day, `launch_test` interrupts a program.
    for number in nightly.either((), (signal.SIGINT, signal.SIGTERM)) + (signal.SIGKILL,):
      folder = tempfile.mkdtemp()
      site = self.enterContext(subprocess.Popen(
          [sys.executable, "-m", "tests.sites.stopped_site", "site", folder],
          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
      ))
      self.addCleanup(site.kill)
      running[number] = site
    for number, site in running.items():
      started = [psutil.Process(int(site.stdout.readline())) for _ in ("client", "job")]
      site.send_signal(number)
      for one in started:
        self.addCleanup(_end, one)
      site.wait()
      pids = [one.pid for one in started]
      gone = scripts.becomes(lambda pids=pids: all(map(scripts.is_gone, pids)))
      self.assertTrue(gone, f"after {number!r}")


def _end(process):
  with contextlib.suppress(psutil.NoSuchProcess):
    process.kill()


class SiteExecutorTest(absltest.TestCase):

  def setUp(self):
    """Has a site's folder, and an executor for it."""
    super().setUp()
    folder = tempfile.mkdtemp()
    self.sites = sample_sites.make(folder)
    self.site = sample_sites.write_folder(self.sites, "north", folder)
    nvflare_kit.write_locked(self.site.workspace)
    self.enterContext(mock.patch.dict(os.environ, {
        site_folder.VARIABLE: self.site.path,
        nvflare_kit.LIFELINE_VARIABLE: f"{_LIFELINE}",
    }))
    self.executor, self.context = nvflare_carrier.SiteExecutor(), mock.MagicMock()
    self.addCleanup(self._fire, EventType.END_RUN)

  def _fire(self, event):
    self.executor.handle_event(event, self.context)

  def _reply(self, origin="server.job", payload=None):
    """Returns what is replied to a message, to a hello by default."""
    register = self.context.get_engine().get_cell().register_request_cb
    answer, hello = register.call_args.kwargs["cb"], wire.pack({
        "do": "hello", "session": "0" * 32, "mu_squared": 0.0,
        "federation": self.sites.federation.hash.hex(),
    })
    return answer(message_lib.Message(
        {defs.MessageHeaderKey.ORIGIN: origin}, hello if payload is None else payload
    ))

  def _check_shut(self):
    header, _ = wire.unpack(self._reply().payload, 2**20)
    self.assertEqual(set(header), {"refused"})

  def test_it_answers_the_server_and_nobody_else_and_bytes_alone(self):
    self._fire(EventType.START_RUN)
    for origin in ("south.job", "servers", None, ""):
      reply = self._reply(origin)
      self.assertNotEqual(
          reply.get_header(defs.MessageHeaderKey.RETURN_CODE), defs.ReturnCode.OK
      )
      self.assertIsNone(reply.payload)
    for payload in (2**62, 10, "text", [1], {}):
      self.assertIsNone(self._reply(payload=payload).payload)
    header, _ = wire.unpack(self._reply().payload, 2**20)
    self.assertIn("hello", header)

  def test_it_opens_once_and_closes_for_good(self):
    # A server can fire any event at any time.
    self._fire(EventType.START_RUN)
    before = self._reply().payload
    self._fire(EventType.START_RUN)
    self.assertEqual(self._reply().payload, before)
    self._fire(EventType.END_RUN)
    for _ in range(2):
      self._check_shut()
      self._fire(EventType.START_RUN)
    self.site.open().close()

  def test_a_site_without_the_locked_policy_is_shut(self):
    path = os.path.join(self.site.workspace, "local", "resources.json")
    with open(path, encoding="utf-8") as file:
      document = json.load(file)
    document["class_allow_list"].append("subprocess.")
    with open(path, "w", encoding="utf-8") as file:
      json.dump(document, file)
    self._fire(EventType.START_RUN)
    self._check_shut()

  def test_a_site_that_nothing_would_end_is_shut(self):
    for value in ("99999", "-1", "x"):
      with mock.patch.dict(os.environ, {nvflare_kit.LIFELINE_VARIABLE: value}):
        self.executor = nvflare_carrier.SiteExecutor()
        self._fire(EventType.START_RUN)
        self._check_shut()

  def test_a_site_that_another_program_has_open_is_shut(self):
    self.addCleanup(self.site.open().close)
    self._fire(EventType.START_RUN)
    self._check_shut()


if __name__ == "__main__":
  absltest.main()
