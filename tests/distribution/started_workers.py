"""Workers on this machine for tests."""

import contextlib
import os
import signal
import tempfile

import portpicker

from fl_clustering.distribution import announcement
from fl_clustering.distribution import worker_process


class StartedWorker:
  """A worker of one core in a folder of its own, which ends with the test.

  Attributes:
    address: Its host and port.
    folder: Its folder.
  """

  def __init__(self, test, site=None):
    folder = tempfile.TemporaryDirectory()
    test.addCleanup(folder.cleanup)
    self.folder = folder.name
    self._port = portpicker.pick_unused_port()
    self.address = f"127.0.0.1:{self._port}"
    self.announce(site)
    self.start()
    test.addCleanup(self.kill)

  def announce(self, site):
    """Says which clients the worker owns, if any."""
    announcement.write(self.folder, num_cores=1, site=site)

  def start(self):
    self._process = worker_process.start(self._port, 1, self.folder)
    with contextlib.closing(worker_process.channel(self.address)) as channel:
      worker_process.answers(self._process, channel)

  def kill(self):
    self._process.kill()
    self._process.wait()

  def stop(self):
    """Stops the process, which keeps its connections and answers nothing."""
    self._process.send_signal(signal.SIGSTOP)

  def files(self):
    """Returns the size and the time of every client's file, by name."""
    found = {}
    for entry in os.scandir(self.folder):
      if entry.name != announcement.FILE_NAME:
        found[entry.name] = entry.stat().st_size, entry.stat().st_mtime_ns
    return found
