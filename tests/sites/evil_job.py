"""An operator who sends sites code, from a server that allows it: python -m THIS KIT NAME,NAME,...

It must be refused; a file `evil` tells that it was run.
"""

import os
import sys
from unittest import mock

from fl_clustering.sites import coordinator
from fl_clustering.sites import nvflare_kit
from fl_clustering.sites import nvflare_operator

_EVIL = os.path.abspath("evil")
_CODE = f"open({_EVIL!r}, 'w')\nfrom nvflare.apis.executor import Executor as Evil\n"
_lay_out, _policy = nvflare_kit.lay_out, nvflare_kit._policy


def _allow_all(*folders, **values):
  documents = _policy(*folders, **values)
  documents["authorization.json"]["permissions"] = {"project_admin": "any"}
  documents["resources.json"]["class_allow_list"] = ["*"]
  return documents


def _bring_code(operator, sites, folder):
  _lay_out(operator, sites, folder)
  custom = os.path.join(folder, "job", "app_client", "custom")
  os.mkdir(custom)
  with open(os.path.join(custom, "evil.py"), "w", encoding="utf-8") as file:
    file.write(_CODE)


def _is_refused(kit, names, lay_out, **job):
  """Returns whether all sites refuse a job of this configuration."""
  with (
      mock.patch.object(nvflare_kit, "SITE_JOB", {**nvflare_kit.SITE_JOB, **job}),
      mock.patch.object(nvflare_kit, "_policy", _allow_all),
      mock.patch.object(nvflare_kit, "lay_out", lay_out),
  ):
    try:
      with nvflare_operator.open_operator(kit, names, "evil.log", 10, 60):
        return False
    except coordinator.CarrierFailed as e:
      print(e)
      return all(f"{name}: " in f"{e}" for name in names) and "one job" in f"{e}"


if __name__ == "__main__":
  _SITES = sys.argv[1], sys.argv[2].split(",")
  _EXECUTOR = {"tasks": ["*"], "executor": {"path": "evil.Evil", "args": {}}}
  _FUNCTION = {"id": "x", "path": "subprocess.Popen", "args": {"args": ["touch", _EVIL]}}
  _NUM_REFUSED = sum((
      _is_refused(*_SITES, _bring_code, executors=[_EXECUTOR]),
      _is_refused(*_SITES, _lay_out, components=[_FUNCTION]),
  ))
  print(f"refused: {_NUM_REFUSED} of 2")
