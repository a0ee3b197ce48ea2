"""What NVFlare 2.9 runs with, at a site and at the operator's: files of keys, and a locked policy.

NVFlare's functions make keys and certificates.  All else that its provisioning would hand out we
write ourselves, a site's part on its own machine: as provisioned, whoever submits a job may bring
code of their own, which sites run; and sites send their logs.  A kit has no script, either.

Under our policy (the folder `nvflare_policy`) a site runs one job, which names one class of ours
(`nvflare_carrier`), and no command but those that begin and end it, for nobody.
"""

from __future__ import annotations

import contextlib
import datetime
import importlib
import importlib.metadata
import json
import os
import re
import shutil
import sys
from typing import Any, Iterable, Mapping

from clustering_basics import validate
from fl_clustering.sites import identity as identity_lib
from fl_clustering.tables import schema as schema_lib

_VERSION = "2.9"
PROJECT = "federated-clustering"
OPERATOR = "operator"
ADMIN = f"{OPERATOR}@{OPERATOR}.org"
# Names a pipe to the process that answers, which ends when nobody holds its other end any more.
LIFELINE_VARIABLE = "FEDERATED_CLUSTERING_LIFELINE"
_CERTIFICATES = ("rootCA.pem", "client.crt", "client.key")
_HOST = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]{0,61}[A-Za-z0-9])?")
_LOCAL = "local"
_POLICY = os.path.join(os.path.dirname(__file__), "nvflare_policy")


def _read(folder: str) -> dict[str, Any]:
  """Returns the documents of a folder by the files' names."""
  found = {}
  for name in os.listdir(folder):
    with open(os.path.join(folder, name), encoding="utf-8") as file:
      found[name] = json.load(file)
  return found


def _policy(*folders: str, **values: Any) -> dict[str, Any]:
  """Returns our documents in folders, with values in the place of their names in braces."""
  text = json.dumps({
      name: one for folder in folders
      for name, one in _read(os.path.join(_POLICY, folder)).items()
  })
  for name, value in values.items():
    text = text.replace(f'"{{{name}}}"', json.dumps(value))
    text = text.replace(f"{{{name}}}", json.dumps(f"{value}")[1:-1])
  return json.loads(text)


_JOBS = _policy("job")
# The whole of what a site is told to run.
SITE_JOB: Mapping[str, Any] = _JOBS["config_fed_client.json"]
# What a site's folder `local` holds: these files with these contents, and no others.  Its rights
# are those to begin and to end the one job; the submitter's role comes from the server.  A job's
# process reaches the one that started it by a port on the loopback, where both show certificates,
# too: otherwise any account of the machine could give orders in the server's name.
LOCKED: Mapping[str, Any] = _policy("client", "both")


def check_version() -> None:
  """Raises a ValueError unless NVFlare is there, in the version that the policy was written for."""
  try:
    version = importlib.metadata.version("nvflare")
  except importlib.metadata.PackageNotFoundError:
    version = None
  if version is None or not version.startswith(f"{_VERSION}."):
    rule = f"be installed in a version {_VERSION}, as the extra `sites` says"
    raise validate.error("nvflare", rule, version)


def _write(folder: str, documents: Mapping[str, Any]) -> None:
  os.makedirs(folder, mode=0o700, exist_ok=True)
  for name, document in documents.items():
    schema_lib.write_document(os.path.join(folder, name), document)


def write_locked(workspace: str) -> None:
  """Writes a site's policy."""
  _write(os.path.join(workspace, _LOCAL), LOCKED)


def check_locked(workspace: str) -> None:
  """Raises a ValueError unless a site's policy is ours, and nothing else is there to be run."""
  local = os.path.join(workspace, _LOCAL)
  try:
    found = _read(local)
  except (OSError, ValueError):
    found = {}
  for name in sorted({*found, *LOCKED}):
    if found.get(name) != LOCKED.get(name):
      rule = "hold our locked policy and no more, which `experiments.site --join` writes"
      raise validate.error("kit", rule, os.path.join(local, name))


def check_certificate(path: str, who: str) -> None:
  """Raises a ValueError if a certificate is none, or can't be used today."""
  x509 = importlib.import_module("cryptography.x509")
  try:
    with open(path, "rb") as file:
      found = x509.load_pem_x509_certificate(file.read())
  except (OSError, ValueError) as e:
    raise validate.error("kit", f"hold a certificate of {who}", path) from e
  first, last = found.not_valid_before_utc, found.not_valid_after_utc
  if not first <= datetime.datetime.now(datetime.timezone.utc) <= last:
    rule = f"hold a certificate of {who} that is valid today; ask the operator for a new kit"
    raise validate.error("kit", rule, f"{first:%Y-%m-%d} to {last:%Y-%m-%d}")


# Kits.

def provision(sites: Iterable[str], host: str, port: int, output_dir: str) -> list[str]:
  """Makes keys and certificates of the operator and all sites; returns the paths of the kits.

  Args:
    host: What sites call the operator's machine.
    output_dir: A new folder: `NAME.json` for every site, and `operator`, which stays where it is.
  """
  check_version()
  if not _HOST.fullmatch(host):
    raise validate.error("host", "be a name by which sites reach the operator", host)
  validate.integer(1, 65535, port=port)
  names = list(sites)
  for name in names:
    if name in (OPERATOR, "server", "admin", host):
      raise validate.error("sites", "have names that differ from the operator's", name)
  try:
    for folder in (output_dir, os.path.join(output_dir, OPERATOR)):
      os.mkdir(folder, mode=0o700)
  except OSError as e:
    raise validate.error("output_dir", f"be a new folder ({e.strerror})", output_dir) from e
  utils = importlib.import_module("nvflare.lighter.utils")
  root, (root_key, root_public) = utils.Identity(PROJECT), utils.generate_keys()
  root_certificate = utils.generate_cert(root, root, root_key, root_public, ca=True)

  def certified(kind: str, *identity: str, **hosts: str) -> dict[str, str]:
    """Returns files: a new key and its certificate, and that of who certifies all."""
    key, public = utils.generate_keys()
    own = utils.generate_cert(utils.Identity(*identity), root, root_key, public, **hosts)
    return {
        "rootCA.pem": utils.serialize_cert(root_certificate).decode(),
        f"{kind}.crt": utils.serialize_cert(own).decode(),
        f"{kind}.key": utils.serialize_pri_key(key).decode(),
    }

  for part, keys in (
      ("server", certified("server", host, OPERATOR, server_default_host=host)),
      ("admin", certified("client", ADMIN, OPERATOR, "project_admin")),
  ):
    _write_startup(os.path.join(output_dir, OPERATOR, part), part, keys, host=host, port=port)
  kits = {name: os.path.join(output_dir, f"{name}.json") for name in names}
  for name, path in kits.items():
    document = {"format": 1, "site": name, "host": host, "port": port}
    identity_lib.write_secret(path, json.dumps(document | certified("client", name, "sites")))
  return list(kits.values())


def _write_startup(workspace: str, part: str, keys: Mapping[str, str], **values: Any) -> None:
  """Writes what a part of NVFlare starts with: keys and certificates, and a document."""
  startup, name = os.path.join(workspace, "startup"), f"fed_{part}.json"
  _write(startup, {name: _policy("startup", **values)[name]})
  for one, text in keys.items():
    identity_lib.write_secret(os.path.join(startup, one), text)


def environment(home: str) -> dict[str, str]:
  """Returns the environment of NVFlare's programs: this program's modules, and a home of theirs."""
  path = os.pathsep.join(os.path.abspath(folder) for folder in sys.path if folder)
  return {**os.environ, "HOME": home, "PYTHONPATH": path, "PYTHONUNBUFFERED": "1"}


# At a site.

def _checked_kit(document: Any) -> dict[str, Any]:
  kinds = {**dict.fromkeys(("site", "host", *_CERTIFICATES), str), "format": int, "port": int}
  if not (
      isinstance(document, dict) and {key: type(one) for key, one in document.items()} == kinds
      and document["format"] == 1 and _HOST.fullmatch(document["host"])
      and 1 <= document["port"] <= 65535
  ):
    raise ValueError("it is none that `experiments.federation --kits` made")
  return document


def install(kit: str, name: str, workspace: str) -> None:
  """Makes a site's workspace anew: the kit's keys, and all else by ourselves.

  Raises:
    ValueError: If the kit is none, another site's, or no longer valid.
  """
  check_version()
  document = schema_lib.read_document(kit, _checked_kit, "kit")
  if document["site"] != name:
    raise validate.error("kit", f"be that of {name}", f"{kit} of {document['site']!r}")
  with contextlib.suppress(FileNotFoundError):
    shutil.rmtree(workspace)  # An error if it is a link: nothing that was there may stay.
  keys = {one: document[one] for one in _CERTIFICATES}
  _write_startup(
      workspace, "client", keys, host=document["host"], port=document["port"], name=name
  )
  for one in ("rootCA.pem", "client.crt"):
    check_certificate(os.path.join(workspace, "startup", one), name)
  write_locked(workspace)


# Runs a module as a process that ends with the one that started it.
_START = """
import runpy, sys
from clustering_basics import child_process
child_process.end_with_parent(int(sys.argv.pop(1)))
sys.argv.pop(0)
runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
"""


def command(part: str, *settings: str) -> list[str]:
  """Returns how NVFlare's `client` of a site, or its `server`, is started, in its workspace."""
  return [
      sys.executable, "-u", "-c", _START, str(os.getpid()),
      f"nvflare.private.fed.app.{part}.{part}_train", "-m", ".", "-s", f"fed_{part}.json",
      "--set", "secure_train=true", "config_folder=config", *settings,
  ]


# At the operator's.

def check_operator(kit: str) -> None:
  """Raises a ValueError unless a folder is the operator's, and can be used today."""
  check_version()
  for path in (
      "server/startup/server.crt", "server/startup/rootCA.pem", "admin/startup/client.crt",
  ):
    check_certificate(os.path.join(kit, path), "the operator")


def lay_out(operator: str, sites: Iterable[str], folder: str) -> None:
  """Makes a server's workspace, its administrator's, and the job to submit, for one run.

  Args:
    operator: A folder that `check_operator` accepts.
  """
  for one in ("server", "admin"):
    shutil.copytree(os.path.join(operator, one), os.path.join(folder, one))
  _write(os.path.join(folder, "admin", _LOCAL), {})  # NVFlare needs the folder.
  server = os.path.join(folder, "server")
  _write(os.path.join(server, _LOCAL), _policy("server", "both", workspace=server))
  job = os.path.join(folder, "job")
  for app, config, document in (
      ("app_server", "config_fed_server.json", _JOBS["config_fed_server.json"]),
      ("app_client", "config_fed_client.json", SITE_JOB),
  ):
    _write(os.path.join(job, app, "config"), {config: document})
  names = list(sites)
  _write(job, {"meta.json": {
      "name": PROJECT, "resource_spec": {}, "min_clients": len(names), "mandatory_clients": names,
      "deploy_map": {"app_server": ["server"], "app_client": names},
  }})
