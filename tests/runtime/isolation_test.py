import textwrap

from absl.testing import parameterized

from tests.runtime import scripts

_START = """
import os
from fl_clustering.runtime import isolation

def network():
  return os.readlink("/proc/self/ns/net")

before = network()
"""


def _run(script):
  return scripts.run(_START + textwrap.dedent(script))


class IsolationTest(parameterized.TestCase):

  def _check_printed(self, script, expected):
    result = _run(script)
    self.assertEqual(result.stdout.splitlines(), expected, result.stderr)

  def test_only_the_loopback_and_what_was_open_before_work(self):
    scripts.skip_where_refused(self)
    self._check_printed(
        """
        import socket
        outside = socket.create_server(("127.0.0.1", 0))
        client = socket.create_connection(outside.getsockname())
        isolation.isolate()
        print(network() != before)
        try:
          socket.create_connection(outside.getsockname())
        except ConnectionRefusedError:
          print("refused")
        inside = socket.create_server(("127.0.0.1", outside.getsockname()[1]))
        socket.create_connection(inside.getsockname()).close()
        accepted, _ = outside.accept()
        client.sendall(b"from outside")
        print(accepted.recv(100).decode())
        print([name for _, name in socket.if_nameindex()])
        """,
        ["True", "refused", "from outside", "['lo']"],
    )

  @parameterized.parameters("isolate", "_enter_as_a_user")
  def test_files_are_those_of_the_same_user(self, enter):
    scripts.skip_where_refused(self, enter)
    folder = self.create_tempdir()
    folder.create_file("old", content="written before")
    self._check_printed(
        f"""
        ids = os.getuid(), os.getgid()
        isolation.{enter}()
        os.chdir({folder.full_path!r})
        print(network() != before, (os.getuid(), os.getgid()) == ids)
        print(open("old").read())
        open("old", "a").close()
        open("new", "w").close()
        found = os.stat("new")
        print((found.st_uid, found.st_gid) == ids)
        """,
        ["True True", "written before", "True"],
    )

  def test_an_error_where_the_kernel_refuses(self):
    self._check_printed(
        """
        from tests.runtime import bare_machine
        bare_machine.refuse_unshare()
        try:
          isolation.isolate()
        except OSError as e:
          print(e.strerror, network() == before)
        """,
        ["Operation not permitted True"],
    )
