"""A site that does nothing but run, to be stopped: python -m THIS site FOLDER

It prints the ids of its client's process and of its job's, which are started as they always are.
"""

import os
import signal
import sys
import time
import types
from unittest import mock

from nvflare.apis.event_type import EventType
from nvflare.utils import process_utils

from experiment_shell import launch
from experiments import site
from fl_clustering.sites import nvflare_carrier
from fl_clustering.sites import nvflare_kit
from fl_clustering.sites import site_folder

_NAME = "tests.sites.stopped_site"


def _site(folder):
  found = types.SimpleNamespace(
      path=folder, workspace=folder, identity=types.SimpleNamespace(name="north")
  )
  command = nvflare_kit.command("client")
  command[command.index("-m") - 1] = _NAME
  with (
      mock.patch.object(nvflare_kit, "command", return_value=command),
      site._client(found) as process,
  ):
    while not os.path.lexists(started := os.path.join(folder, "started")):
      time.sleep(0.02)
    print(process.pid, os.readlink(started), sep="\n", flush=True)
    process.wait()


def _client():
  process_utils.spawn_process([sys.executable, "-m", _NAME, "job"], {**os.environ})
  signal.pause()


def _job():
  signal.signal(signal.SIGTERM, signal.SIG_IGN)
  nvflare_carrier.SiteExecutor().handle_event(EventType.START_RUN, mock.MagicMock())
  os.symlink(f"{os.getpid()}", os.path.join(os.environ[site_folder.VARIABLE], "started"))
  signal.pause()


if __name__ == "__main__":
  role, *rest = sys.argv[1:]
  if role == "site":
    sys.argv[1:] = []
    launch.run(lambda: _site(*rest))
  elif role == "job":
    _job()
  else:
    _client()
