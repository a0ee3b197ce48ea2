"""Sites over a real network: NVFlare's server and clients, keys and certificates of its own.

The programs run with a Python that has NVFlare, which can't be beside TensorFlow Federated.
"""

import contextlib
import csv
import json
import os
import random
import signal
import socket
import ssl
import struct
import subprocess
import time

from absl.testing import absltest
import numpy as np
import psutil

from clustering_basics import child_process
from fl_clustering.kmeans import FederatedKMeans
from fl_clustering.sites import site_ledger
from fl_clustering.sites import wire
from tests import nightly
from tests.runtime import scripts
from tests.sites import recording_proxy
from tests.sites import sample_sites

try:
  from nvflare_env import interpreter
except ImportError:
  interpreter = None

_COLUMNS = tuple("abcde")
_NAMES = sample_sites.NAMES[:3]
_K = 4
# The first words to NVFlare's server, and to the port for a job's process: a frame of 16 bytes, of
# type 4.
_GET = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
_HELLO = bytes((0, 0, 0, 16, 0, 0, 4, *(0,) * 9))


def _free_port():
  """Returns a port that nobody has, and that the system gives to nobody who asks for any."""
  with open("/proc/sys/net/ipv4/ip_local_port_range", encoding="ascii") as file:
    first = int(file.read().split()[0])
  for port in random.sample(range(first // 2, first), 100):
    with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
      return port
  raise AssertionError("no port is free.")


@absltest.skipIf(interpreter is None, "There is a Python with NVFlare only under Bazel.")
class NetworkTest(absltest.TestCase):

  @classmethod
  def setUpClass(cls):
    super().setUpClass()
    cls._short = cls.enterClassContext(subprocess.Popen(
        [interpreter.PATH, "-m", "tests.sites.forked_programs"],
        env={"PYTHONPATH": child_process.PROJECT_FOLDER},
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ))

  def setUp(self):
    super().setUp()
    self.folder = self.create_tempdir().full_path
    self._environment = {
        "PATH": os.environ["PATH"], "HOME": self.folder, "TMPDIR": self.folder,
        "PYTHONPATH": child_process.PROJECT_FOLDER, "NIGHTLY": nightly.either("", "1"),
    }

  def _start(self, module, *arguments):
    process = subprocess.Popen(
        [interpreter.PATH, "-m", module, *arguments], cwd=self.folder, env=self._environment,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )
    self.addCleanup(process.stdout.close)
    self.addCleanup(process.wait)
    self.addCleanup(process.kill)
    return process

  def _ended(self, process, code=0):
    output, _ = process.communicate()
    return self._checked(output, process.returncode, code)

  def _checked(self, output, found, code):
    self.assertEqual(found, code, output)
    self.assertNotIn("Traceback", output)
    return output

  def _run(self, module, *arguments, code=0):
    """Returns what a program prints."""
    request = [self.folder, self._environment, "printed", [module, *arguments]]
    print(json.dumps(request), file=self._short.stdin, flush=True)
    found = int(self._short.stdout.readline())
    with open(self._path("printed"), encoding="utf-8") as file:
      return self._checked(file.read(), found, code)

  def _path(self, *names):
    return os.path.join(self.folder, *names)

  def _write_json(self, name, document):
    with open(self._path(name), "w", encoding="utf-8") as file:
      json.dump(document, file)

  def _make_sites(self, *privacy):
    """Makes tables, sites, their federation file and the kits.

    Returns:
      The rows by site, the operator's port and the fingerprint.
    """
    rows = {name: np.round(own, 4) for name, own in sample_sites.rows_of(3).items()}
    sample_sites.write_schema(self.folder)
    for name, own in rows.items():
      os.mkdir(self._path(f"ward_{name}"))
      path = self._path(f"ward_{name}", f"{name}.csv")
      np.savetxt(path, own, "%.4f", ",", header=",".join(_COLUMNS), comments="")
      output = self._run(
          "experiments.site", f"--new={name}", f"--data_dir=ward_{name}", "--schema=schema.json"
      )
      self.assertIn(f"{name}.csv: rows: {len(own)}, bad lines: 0, missing cells: 0", output)
    output = self._run(
        "experiments.federation", "--new=trial", "--schema=schema.json", *privacy,
        f"--sites={','.join(f'{name}.pub' for name in _NAMES)}", "--output=federation.json",
    )
    port = _free_port()
    self._run(
        "experiments.federation", "--kits=federation.json", "--host=127.0.0.1", f"--port={port}",
        "--output_dir=kits",
    )
    return rows, port, output.split("fingerprint: ")[1].split("\n")[0]

  def _proxy(self, name, port):
    """Has a site's kit lead to a proxy, and returns that."""
    kit, keys = f"kits/{name}.json", self._path(f"keys_{name}")
    with open(self._path(kit), encoding="utf-8") as file:
      document = json.load(file)
    os.mkdir(keys)
    for one in ("rootCA.pem", "client.crt", "client.key"):
      with open(os.path.join(keys, one), "w", encoding="utf-8") as file:
        file.write(document[one])
    proxy = recording_proxy.RecordingProxy(
        self._path("kits", "operator", "server", "startup"), keys, port
    )
    self.addCleanup(proxy.close)
    self._write_json(kit, {**document, "port": proxy.port})
    return proxy

  def _join(self, name, fingerprint):
    return self._start(
        "experiments.site", f"--site_dir={name}", "--join=federation.json",
        f"--kit=kits/{name}.json", f"--fingerprint={fingerprint}",
    )

  def _join_all(self, fingerprint):
    """Returns the processes of all sites, which are ready."""
    joined = {name: self._join(name, fingerprint) for name in _NAMES}
    for name, process in joined.items():
      self.assertTrue(any(line.startswith("ready") for line in process.stdout), name)
    return joined

  def _log(self, name):
    """Returns what NVFlare said at a site so far."""
    try:
      with open(self._path(name, "nvflare.log"), encoding="utf-8", errors="replace") as file:
        return file.read()
    except FileNotFoundError:
      return ""

  def _fit(self, *arguments):
    return self._start(
        "experiments.cluster_tables", "--federation=federation.json", "--kit=kits/operator",
        "--schema=schema.json", f"--num_clusters={_K}", "--seconds_to_join=600", *arguments,
    )

  def test_a_fit_has_the_bits_of_one_process_and_sends_no_row(self):
    rows, port, fingerprint = self._make_sites("--exact")
    proxies = {name: self._proxy(name, port) for name in _NAMES}
    fit = self._fit("--output_dir=out")
    joined = self._join_all(fingerprint)
    answered = [self._answered(port, _GET, fit)]
    for process in (joined["north"], fit):
      own = self._port_for_jobs(process, port, fit)
      answered.append(self._answered(own, _HELLO, fit))
    output = self._ended(fit)
    for process in joined.values():
      process.send_signal(signal.SIGTERM)
    for process in joined.values():
      self._ended(process, 128 + signal.SIGTERM)

    self.assertIn("EXACT", output)
    one = FederatedKMeans(_K).fit(rows)
    np.testing.assert_array_equal(self._centroids(), one.cluster_centers_)
    for name, proxy in proxies.items():
      self._check_sent(name, proxy, rows[name])
      # In its client's process and in its job's.
      self.assertEqual(self._log(name).count("requests of others than the server are refused"), 2)
    # Without a certificate no port says anything: not the server's, and on the loopback neither
    # that of a site's client for its job's process nor that of the server.
    for (who, answer), known in zip(answered, (b"HTTP/1.1 ", b"north", b"server"), strict=True):
      self.assertEqual(who, "a site", f"{known}")
      self.assertIn(known, answer)

  def test_bad_input_is_one_line(self):
    *_, fingerprint = self._make_sites("--epsilon=4", "--delta=1e-6", "--radius=2")
    fields = {"fields": [{"name": "a", "type": "number"}]}
    self._write_json("short.json", fields)
    self._write_json("east/rows.json", {
        "data_dir": self._path("ward_east"), "schema": self._path("short.json")
    })
    self._write_json("views.json", {"resources": [
        {"name": view, "schema": fields} for view in ("far", "near")
    ]})
    ledger = site_ledger.SiteLedger(self._path("south", "ledger.json"))
    self.addCleanup(ledger.close)
    join, own = ("site", "--join=federation.json"), f"--fingerprint={fingerprint}"
    new = ("federation", "--new=trial", "--output=new.json")
    keys, noise = "--sites=north.pub,south.pub,east.pub", ("--epsilon=4", "--delta=1e-6")
    tables, views = (*new, "--schema=schema.json"), (*new, keys, "--schema=views.json")
    fit = ("cluster_tables", "--federation=federation.json", "--num_clusters=3", "--output_dir=a")
    # One after the other: only one program at a time may open a site.
    for module, *arguments, message in (
        ("site", "`new` must be given, or else `join`"),
        ("site", "--new=North", "--data_dir=ward_north", "--schema=schema.json", "`name` must"),
        (*join, "--site_dir=north", "--kit=kits/north.json", f"`fingerprint` must .*{fingerprint}"),
        (*join, f"--fingerprint={fingerprint[::-1]}", "--site_dir=north", "--kit=kits/east.json",
         "`fingerprint` must"),
        (*join, own, "--site_dir=east", "--kit=kits/east.json", "`schema` must be the one"),
        (*join, own, "--site_dir=south", "--kit=kits/south.json", "`ledger` must be used by one"),
        (*join, own, "--site_dir=north", "--kit=kits/east.json", "`kit` must be that of north"),
        (*tables, keys, "`epsilon` must be given"),
        (*tables, keys, *noise, "--exact", "`epsilon` must be left out"),
        (*tables, keys, *noise, "--view_norms=1", "`view_norms` must be left out"),
        (*tables, "--exact", "--sites=north.pub,south.pub,schema.json", "`sites` must be files"),
        (*views, *noise, "--view_norms=1,x", "`view_norms` must be numbers"),
        (*views, *noise, "--radius=1", "`radius` must be left out"),
        ("federation", "--kits=federation.json", "--host=a b", "--output_dir=k", "`host` must"),
        ("federation", "--kits=federation.json", "--exact", "`exact` must be left out"),
        (*fit, "--schema=short.json", "--kit=kits/operator", "`schema` must be the one"),
        (*fit, "--schema=schema.json", "--kit=kits", "`kit` must hold"),
    ):
      output = self._run(f"experiments.{module}", *arguments, code=2)
      self.assertRegex(output.splitlines()[-1], f"^error: .*{message}", arguments)

  def test_a_federation_file_says_what_the_flags_say(self):
    for name in _NAMES:
      with open(self._path(f"{name}.pub"), "w", encoding="utf-8") as file:
        file.write(f"{name} {name.encode().hex():0<64}\n")
    for widths, flags, expected in (
        ((5,), ("--radius=2",), {"radius": 2.0, "min_sites": 2}),
        ((5,), ("--radius=2", "--min_sites=1", "--max_points=7"),
         {"radius": 2.0, "min_sites": 1, "max_points": 7}),
        (sample_sites.WIDTHS, ("--view_norms=1,1.5", "--min_sites=3"),
         {"view_norms": [1.0, 1.5], "min_sites": 3}),
    ):
      sample_sites.write_schema(self.folder, widths)
      self._run(
          "experiments.federation", "--new=trial", "--schema=schema.json", "--output=new.json",
          f"--sites={','.join(f'{name}.pub' for name in _NAMES)}", "--epsilon=4", "--delta=1e-6",
          *flags,
      )
      with open(self._path("new.json"), encoding="utf-8") as file:
        document = json.load(file)
      os.remove(self._path("new.json"))
      self.assertEqual(document["widths"], [*widths])
      self.assertEqual(document["privacy"], {"epsilon": 4.0, "delta": 1e-6, **expected})

  def test_checks_of_the_carrier(self):
    self._run("tests.sites.carrier_checks")

  @nightly.only  # By day, `site_test` and `at_sites_test` kill them, without a network.
  def test_a_site_or_an_operator_that_is_killed_has_paid_and_a_new_fit_goes_on(self):
    *_, fingerprint = self._make_sites("--epsilon=4", "--delta=1e-6", "--radius=2")
    joined = self._join_all(fingerprint)
    fit = self._fit("--output_dir=out", "--seconds=30", "--epsilon=1")
    self._wait_until(lambda: "the site is open" in self._log("north"), fit)
    joined["north"].kill()
    output = self._ended(fit, 1)
    self.assertRegex(output, "(?m)^error: north: no answer")
    joined["north"] = self._join("north", fingerprint)
    self.assertTrue(any(line.startswith("ready") for line in joined["north"].stdout))
    before = self._spent()
    fit = self._fit("--output_dir=out2", "--epsilon=1")
    self._wait_until(lambda: self._spent()["north"] != before["north"], fit)
    fit.kill()
    between = self._spent()
    self._ended(self._fit("--output_dir=out2", "--epsilon=1", "--resume"))

    for name, spent in self._spent().items():
      self.assertBetween(between[name], before[name], spent - 1e-9)
    with open(self._path("out2", "report.html"), encoding="utf-8") as file:
      self.assertIn("(1, 1e-06)-differential privacy", file.read())
    # The file's epsilon is that of all fits.
    output = self._ended(self._fit("--output_dir=out3", "--epsilon=4"), 2)
    self.assertRegex(output, "(?m)^error: .* refused hello: less is left of this site's privacy")

  def _wait_until(self, condition, fit):
    """Waits until something is so while a fit goes on."""
    self.assertTrue(scripts.becomes(lambda: fit.poll() is not None or condition()))
    self.assertIsNone(fit.poll())

  def _spent(self):
    """Returns what is in the sites' ledgers."""
    spent = {}
    for name in _NAMES:
      with open(self._path(name, "ledger.json"), encoding="utf-8") as file:
        spent[name] = sum(entry["mu_squared"] for entry in json.load(file)["sessions"])
    return spent

  @nightly.only  # By day, `carrier_checks` look at what a site refuses.
  def test_sites_refuse_a_job_with_code_of_its_own(self):
    *_, fingerprint = self._make_sites("--exact")
    self._join_all(fingerprint)
    output = self._run("tests.sites.evil_job", "kits/operator", ",".join(_NAMES))
    self.assertIn("refused: 2 of 2", output)
    self.assertFalse(os.path.exists(self._path("evil")))

  def _centroids(self):
    with open(self._path("out", "centroids.csv"), encoding="utf-8") as file:
      return np.array([[float(row[name]) for name in _COLUMNS] for row in csv.DictReader(file)])

  def _check_sent(self, name, proxy, rows):
    """Checks what a site has sent: answers of the closed set, and nothing of its rows."""
    sent = b"".join(map(recording_proxy.payloads, proxy.connections))
    kinds = list(_kinds(sent))
    self.assertEqual(set(kinds), {"hello", "ready", "masked"})
    self.assertGreater(kinds.count("masked"), 10)
    with open(self._path(name, "identity.json"), encoding="utf-8") as file:
      key = json.load(file)["private"]
    secrets = [key.encode(), bytes.fromhex(key), f"ward_{name}".encode()]
    for value in np.unique(rows):
      secrets += [struct.pack("<d", value), struct.pack(">d", value), f"{value:.4f}".encode()]
    found = [secret for secret in secrets if secret in sent]
    self.assertEmpty(found)

  def _port_for_jobs(self, process, public, fit):
    """Returns the port that what a program has started keeps for jobs, as soon as it is there."""
    while fit.poll() is None:
      for one in psutil.Process(process.pid).children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
          for found in one.net_connections("tcp4"):
            if found.status == psutil.CONN_LISTEN and found.laddr.port != public:
              return found.laddr.port
      time.sleep(0.1)
    return self.fail("there was no port")

  def _answered(self, port, message, fit):
    """Returns who is answered at a port, of those who ask one after the other, and what."""
    stranger, site = (
        ssl.create_default_context(cafile=self._path("keys_east", "rootCA.pem")) for _ in range(2)
    )
    site.load_cert_chain(
        self._path("keys_east", "client.crt"), self._path("keys_east", "client.key")
    )
    for who, context in (("in the clear", None), ("a stranger", stranger), ("a site", site)):
      with contextlib.ExitStack() as stack:
        connection = stack.enter_context(self._connected(port, fit))
        with contextlib.suppress(OSError):  # Whether it comes to that is a matter of time.
          if context is not None:
            context.check_hostname = False  # A site's certificate is that of no host.
            connection = stack.enter_context(context.wrap_socket(connection))
          connection.sendall(message)
          if answer := connection.recv(1000):
            return who, answer
    return self.fail("there was no answer")

  def _connected(self, port, fit):
    while fit.poll() is None:
      try:
        return socket.create_connection(("127.0.0.1", port), scripts.TIMEOUT_SECONDS)
      except OSError:
        time.sleep(0.1)
    return self.fail("there was no server")


def _kinds(sent):
  """Yields the kind of every answer in what a site has sent."""
  start = b'{"arrays": ['
  place = sent.find(start)
  while place >= 0:
    (length,) = struct.unpack_from("<I", sent, place - 4)
    document = json.loads(sent[place : place + length])
    end = place + length + sum(8 * int(np.prod(shape)) for _, _, shape in document["arrays"])
    header, arrays = wire.unpack(sent[place - 4 : end], 2**30)
    yield ",".join((*header, *arrays))
    place = sent.find(start, end)
