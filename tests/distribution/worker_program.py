"""Runs `tools:worker` or `tools:site` as a process, in tests."""

import os
import subprocess
import sys

import portpicker
import psutil

_TIMEOUT_SECONDS = 120

# The program where the kernel refuses the namespace.
_WITHOUT_NAMESPACES = """
from experiment_shell import launch
from tests.distribution import bare_machine
from tools import worker

bare_machine.refuse_unshare()
launch.run(worker.main)
"""


def environment():
  """Returns the environment of a program that finds this project's modules."""
  found = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
  found.pop("TF_CPP_MIN_LOG_LEVEL", None)  # TensorFlow sets it when a test imports it.
  return found


def run_script(script):
  """Runs Python code in a process of its own; returns its `subprocess.CompletedProcess`."""
  return subprocess.run(
      [sys.executable, "-c", script], check=False, capture_output=True, text=True,
      env=environment(), timeout=_TIMEOUT_SECONDS,
  )


def skip_where_refused(test, enter="isolate"):
  """Skips a test on a machine that does not allow what a function of `isolation` does."""
  result = run_script(f"from fl_clustering.distribution import isolation\nisolation.{enter}()")
  if result.returncode:
    reason = result.stderr.strip().rpartition("\n")[2]
    test.skipTest(f"this machine refuses `isolation.{enter}()`: {reason}")


class WorkerProgram:
  """The program, once it was started.

  Attributes:
    port: Its port.
    address: The address that was asked for, and the port.
    process: The `subprocess.Popen`.
    warnings: The warnings, once it has ended, such as of a machine without namespaces.
  """

  def __init__(
      self, folder, *flags, port=None, may_isolate=True, may_be_open=True, module="tools.worker"
  ):
    """Starts the program.

    Args:
      folder: The worker's folder.
      *flags: More flags.
      port: The port; one that nobody uses by default.
      may_isolate: Whether `tools:worker` may try to use a namespace.
      may_be_open: Whether the port may be open where there are no namespaces.
      module: The program's module.
    """
    self.port = port or portpicker.pick_unused_port()
    self.address = f"127.0.0.1:{self.port}"
    program = ["-m", module] if may_isolate else ["-c", _WITHOUT_NAMESPACES]
    self.process = subprocess.Popen(
        [
            sys.executable, *program, f"--port={self.port}", f"--cache_dir={folder}",
            f"--allow_open_port={may_be_open}", *flags,
        ],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env=environment(),
    )

  def __enter__(self):
    return self

  def __exit__(self, *unused_exception):
    self.process.kill()
    self.process.communicate()

  def first_line(self):
    """Returns the line that it prints once the worker answers.

    It has the address that was asked for, also where a machine without namespaces opens all.
    """
    line = self.process.stdout.readline().strip()
    return line.replace(f"0.0.0.0:{self.port}", self.address)

  def worker(self):
    """Returns the worker that it started, a `psutil.Process`."""
    (child,) = psutil.Process(self.process.pid).children()
    return child

  def end(self):
    """Waits for its end; returns its exit code and the lines of its errors, warnings aside."""
    _, printed = self.process.communicate(timeout=_TIMEOUT_SECONDS)
    lines = printed.splitlines()
    self.warnings = [line for line in lines if line.startswith("warning: ")]
    return self.process.returncode, [line for line in lines if line not in self.warnings]
