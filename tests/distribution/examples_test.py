"""The examples in docs/workers: whether they are well-formed, and start the program that exists.

And the image of the Dockerfile, which they name.
"""

import configparser
import json
import os
import re
import shlex
import shutil
import subprocess
import sys

from absl import flags
from absl.testing import absltest
from absl.testing import flagsaver
import portpicker

from tests import nightly
from tools import worker  # pylint: disable=unused-import; it defines the flags.

_UNIT = "docs/workers/worker.service"
_MANIFEST = "docs/workers/worker.json"
_PROGRAM = "docs/workers/program.json"
_JOB = "docs/workers/slurm.sh"

# In the place of Slurm: two nodes, which are this machine.
_SRUN = """#!/bin/bash
while [[ $1 == --* ]]; do shift; done
trap 'kill $(jobs -p)' TERM
for node in 0 1; do SLURM_PROCID=$node "$@" & done
wait
"""
_SCONTROL = """#!/bin/bash
[[ $* == "show hostnames node[1-2]" ]] && echo 127.0.0.1 && echo 127.0.0.1
"""


def _read(path):
  with open(path, encoding="utf-8") as file:
    return file.read()


def _manifest(path=_MANIFEST):
  """Returns the items of a Kubernetes manifest by their kinds."""
  content = json.loads(_read(path))
  return {item["kind"]: item for item in content["items"]}


def _two_free_ports():
  """Returns the first of two ports in a row that nobody uses."""
  while True:
    port = portpicker.pick_unused_port()
    if portpicker.is_port_free(port + 1):
      return port


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

  def test_the_program_may_reach_the_workers(self):
    workers, program = _manifest(), _manifest(_PROGRAM)["Job"]["spec"]["template"]
    (rule,) = workers["NetworkPolicy"]["spec"]["ingress"]
    self.assertEqual(rule["from"][0]["podSelector"]["matchLabels"], program["metadata"]["labels"])
    (container,) = program["spec"]["containers"]
    name, port = workers["Service"]["metadata"]["name"], workers["Service"]["spec"]["ports"][0]["port"]
    addresses = [
        f"{name}-{i}.{name}:{port}" for i in range(workers["StatefulSet"]["spec"]["replicas"])
    ]
    self.assertIn(f"--workers={','.join(addresses)}", container["args"])
    self.assertIn("--output_dir=/results/run", container["args"])
    self.assertIn("/results", [mount["mountPath"] for mount in container["volumeMounts"]])

  def test_the_program_s_volumes_are_there(self):
    manifest = _manifest(_PROGRAM)
    pod = manifest["Job"]["spec"]["template"]["spec"]
    mounted = [mount["name"] for mount in pod["containers"][0]["volumeMounts"]]
    self.assertCountEqual(mounted, [volume["name"] for volume in pod["volumes"]])
    claimed = [volume["persistentVolumeClaim"]["claimName"]
               for volume in pod["volumes"] if "persistentVolumeClaim" in volume]
    self.assertEqual(claimed, [manifest["PersistentVolumeClaim"]["metadata"]["name"]])

  def test_pods_run_the_image_as_it_is(self):
    dockerfile = _read("tools/Dockerfile")
    folder = re.search(r"^WORKDIR (.*)$", dockerfile, re.M)[1]
    python = json.loads(re.search(r"^ENTRYPOINT (.*)$", dockerfile, re.M)[1])
    user = int(re.search(r"^USER (.*)$", dockerfile, re.M)[1])
    self.assertIn(f"useradd --uid {user} ", dockerfile)
    for pod in (
        _pod(_manifest())["spec"], _manifest(_PROGRAM)["Job"]["spec"]["template"]["spec"]
    ):
      (container,) = pod["containers"]
      self.assertEqual(container["workingDir"], folder)
      self.assertEqual(container["command"][:1], python)
      self.assertEqual(pod["securityContext"]["runAsUser"], user)

  def test_the_image_installs_as_the_documentation_says(self):
    dockerfile = " ".join(_read("tools/Dockerfile").replace("\\\n", " ").split())
    page = _read("docs/install.md")
    section = page.partition("## Without Bazel")[2].partition("```sh\n")[2].partition("```")[0]
    make, install, _ = section.splitlines()
    self.assertIn(f"RUN {make} && {install.replace('install', 'install --no-cache-dir', 1)}", dockerfile)

  @nightly.only
  def test_the_job_runs_where_slurm_is_this_machine(self):
    folder = self.create_tempdir()
    bin_, data, out = (folder.mkdir(name).full_path for name in ("bin", "data", "out"))
    for name, text in (("srun", _SRUN), ("scontrol", _SCONTROL)):
      with open(os.path.join(bin_, name), "w", encoding="utf-8") as file:
        file.write(text)
      os.chmod(file.name, 0o700)
    for client in ("a", "b"):
      with open(os.path.join(data, f"{client}.csv"), "w", encoding="utf-8") as file:
        file.write("x\n0\n1\n2\n90\n91\n92\n")
    environment = {
        **os.environ, "PATH": f"{bin_}:{os.environ['PATH']}", "TMPDIR": folder.full_path,
        "PYTHONPATH": os.pathsep.join(map(os.path.abspath, filter(None, sys.path))),
        "PYTHON_BIN": sys.executable, "FIRST_PORT": f"{_two_free_ports()}",
        "SLURM_SUBMIT_DIR": folder.full_path, "SLURM_JOB_ID": "7", "SLURM_NNODES": "2",
        "SLURM_CPUS_PER_TASK": "1", "SLURM_JOB_NODELIST": "node[1-2]",
    }
    run = subprocess.run(
        ["bash", os.path.abspath(_JOB), "experiments.federated_kmeans", f"--data_dir={data}",
         "--num_clusters=2", f"--output_dir={out}"],
        check=False, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )
    self.assertEqual(run.returncode, 0, run.stdout)
    self.assertIn("2 clusters, inertia 8,", run.stdout)  # Twice 2 (1 + 0 + 1) in each cluster.
    self.assertEqual(run.stdout.count("worker at 0.0.0.0:"), 2)
    # Both computed, and the token is gone.
    for node in (0, 1):
      self.assertNotEmpty(os.listdir(os.path.join(folder.full_path, f"clustering-7-{node}")))
    self.assertEmpty([name for name in os.listdir(folder.full_path) if name.startswith(".token")])


if __name__ == "__main__":
  absltest.main()
