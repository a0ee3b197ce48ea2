"""The examples in docs/workers: whether they are well-formed, and start the program that exists."""

import configparser
import json
import os
import shlex
import shutil
import subprocess

from absl import flags
from absl.testing import absltest
from absl.testing import flagsaver

from tools import worker  # pylint: disable=unused-import; it defines the flags.

_UNIT = "docs/workers/worker.service"
_MANIFEST = "docs/workers/worker.json"


def _manifest():
  """Returns the items of the Kubernetes manifest by their kinds."""
  with open(_MANIFEST, encoding="utf-8") as file:
    content = json.load(file)
  return {item["kind"]: item for item in content["items"]}


def _pod(manifest):
  return manifest["StatefulSet"]["spec"]["template"]


class ExamplesTest(absltest.TestCase):

  def _check_flags(self, arguments, **expected):
    with flagsaver.flagsaver():
      self.assertEqual(flags.FLAGS(["program", *arguments]), ["program"])
      self.assertEqual({name: flags.FLAGS[name].value for name in expected}, expected)

  def test_the_unit_s_command(self):
    unit = configparser.ConfigParser(delimiters="=", interpolation=None)
    unit.optionxform = str  # Names of settings have capitals.
    unit.read(_UNIT)
    self.assertEqual(unit.sections(), ["Unit", "Service", "Install"])
    _, *command = shlex.split(unit["Service"]["ExecStart"])
    self.assertEqual(command[:2], ["-m", "tools.worker"])
    folder = f"/var/cache/{unit['Service']['CacheDirectory']}"
    self._check_flags(
        command[2:], port=8000, cache_dir=folder, address="127.0.0.1", allow_open_port=False
    )

  def test_systemd_accepts_the_unit(self):
    if shutil.which("systemd-analyze") is None:
      self.skipTest("systemd is not installed.")
    with open(_UNIT, encoding="utf-8") as file:
      unit = file.read()
    # It wants a program that exists.
    path = self.create_tempfile(
        "worker.service", unit.replace("/opt/federated_clustering/env/bin/python", "/bin/true")
    ).full_path
    result = subprocess.run(
        ["systemd-analyze", "verify", path], check=False, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )
    # Of an unknown setting it only warns.
    self.assertNotIn(os.path.basename(path), result.stdout)
    self.assertEqual(result.returncode, 0, result.stdout)

  def test_the_manifest_s_command(self):
    (container,) = _pod(_manifest())["spec"]["containers"]
    self.assertEqual(container["command"], ["env/bin/python", "-m", "tools.worker"])
    self._check_flags(
        container["args"], port=8000, cache_dir="/cache/worker", address="0.0.0.0", num_cores=4,
        allow_open_port=True,
    )
    self.assertIn("/cache", [mount["mountPath"] for mount in container["volumeMounts"]])

  def test_the_manifest_s_parts_mean_the_same_pods_and_port(self):
    manifest = _manifest()
    pod = _pod(manifest)
    labels = pod["metadata"]["labels"]
    workers, service, policy = (
        manifest[kind]["spec"] for kind in ("StatefulSet", "Service", "NetworkPolicy")
    )
    self.assertEqual(workers["selector"]["matchLabels"], labels)
    self.assertEqual(service["selector"], labels)
    self.assertEqual(policy["podSelector"]["matchLabels"], labels)
    self.assertEqual(workers["serviceName"], manifest["Service"]["metadata"]["name"])
    self.assertEqual(
        [service["ports"][0]["port"], policy["ingress"][0]["ports"][0]["port"]],
        [pod["spec"]["containers"][0]["ports"][0]["containerPort"]] * 2,
    )
    volumes = [volume["name"] for volume in pod["spec"]["volumes"]]
    claims = [claim["metadata"]["name"] for claim in workers["volumeClaimTemplates"]]
    mounts = pod["spec"]["containers"][0]["volumeMounts"]
    self.assertCountEqual([mount["name"] for mount in mounts], volumes + claims)

  def test_strangers_are_kept_out_of_the_pods(self):
    policy = _manifest()["NetworkPolicy"]["spec"]
    self.assertEqual(policy["policyTypes"], ["Ingress", "Egress"])
    self.assertEqual(policy["egress"], [])
    (rule,) = policy["ingress"]
    programs = {"podSelector": {"matchLabels": {"app": "clustering-program"}}}
    self.assertEqual(rule["from"], [programs])


if __name__ == "__main__":
  absltest.main()
