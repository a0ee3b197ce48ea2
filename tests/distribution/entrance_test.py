import os
import textwrap

from absl.testing import absltest
from absl.testing import parameterized
import portpicker

from tests.distribution import worker_program

_START = """
import errno
import os
import socket
from fl_clustering.distribution import entrance
from fl_clustering.distribution import isolation
from tests.distribution import bare_machine
"""
_DANGER = "can run any TensorFlow graph as this user, and so read and write the user's files"


class EntranceTest(parameterized.TestCase):

  def setUp(self):
    super().setUp()
    self.port = portpicker.pick_unused_port()

  def _run(self, script):
    """Returns the lines that a script prints in a process of its own."""
    result = worker_program.run_script(_START + textwrap.dedent(script))
    self.assertEqual(result.returncode, 0, result.stderr)
    return result.stdout.splitlines()

  @parameterized.named_parameters(
      ("loopback", "127.0.0.1", "127.0.0.1"),
      ("another_loopback", "127.0.0.2", "127.0.0.2"),
      ("another_spelling", "127.1", "127.0.0.1"),  # Not every machine knows `localhost`.
  )
  def test_no_warning_on_this_machine_s_own_address(self, address, shown):
    lines = self._run(f"""
        isolation.isolate = lambda: None
        taken = entrance.take({address!r}, {self.port})
        print(taken.address, taken.port, taken.warning)
    """)
    self.assertEqual(lines, [f"{shown}:{self.port} {self.port} None"])

  def test_warns_of_an_address_of_the_network(self):
    (line,) = self._run(f"""
        isolation.isolate = lambda: None
        print(entrance.take("0.0.0.0", {self.port}).warning)
    """)
    self.assertStartsWith(line, f"whoever reaches 0.0.0.0:{self.port} {_DANGER}")

  def test_warns_where_the_worker_stays_on_the_network(self):
    (line,) = self._run(f"""
        bare_machine.refuse_unshare()
        taken = entrance.take("127.0.0.1", {self.port}, may_be_open=True)
        print(taken.warning, taken.address, taken.listener)
        socket.create_server(("", taken.port))  # It is left to the worker.
    """)
    self.assertStartsWith(
        line, "this machine does not allow a network namespace (Operation not permitted), so port "
        f"{self.port} is open on all its interfaces. Whoever reaches it {_DANGER}",
    )
    self.assertEndsWith(line, f"0.0.0.0:{self.port} None")

  @parameterized.named_parameters(
      ("unless_told", "",
       "`allow_open_port` must be given where this machine does not allow a network namespace "
       "(Operation not permitted), so port {port} would be open on all its interfaces, got False."),
      ("with_a_token", ", may_be_open=True, token_file={path!r}",
       "`token_file` must be left out where this machine does not allow a network namespace "
       "(Operation not permitted): strangers would reach the worker's port without it, got "
       "{path!r}."),
  )
  def test_does_not_stay_on_the_network(self, arguments, message):
    path = self.create_tempfile("token", "secret").full_path
    os.chmod(path, 0o600)
    (line,) = self._run(f"""
        bare_machine.refuse_unshare()
        try:
          entrance.take("127.0.0.1", {self.port}{arguments.format(path=path)})
        except ValueError as e:
          print(e)
    """)
    self.assertEqual(line, message.format(port=self.port, path=path))

  def test_a_port_that_is_taken_elsewhere_on_this_machine(self):
    # The worker itself would open it at all addresses, and share it without a word.
    lines = self._run(f"""
        other = socket.create_server(("127.0.0.3", {self.port}))
        bare_machine.refuse_unshare()
        try:
          entrance.take("127.0.0.1", {self.port}, may_be_open=True)
        except ValueError as e:
          print(e)
    """)
    self.assertEqual(
        lines, [f"`port` must be one that no other program uses, got {self.port}."]
    )

  def test_a_port_that_the_kernel_refuses(self):
    lines = self._run("""
        def create_server(*unused_arguments, **unused_more):
          raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        socket.create_server = create_server
        try:
          entrance.take("127.0.0.1", 443)
        except ValueError as e:
          print(e)
    """)
    self.assertEqual(lines, ["`port` must be one that this user may open, got 443."])


if __name__ == "__main__":
  absltest.main()
