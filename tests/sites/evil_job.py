"""An operator who sends sites code, from a server that allows it: python -m THIS KIT NAME,NAME,...

It must be refused; a file `evil` tells that it was run.
"""

import json
import os
import sys
from unittest import mock

from fl_clustering.sites import coordinator
from fl_clustering.sites import nvflare_kit
from fl_clustering.sites import nvflare_operator

_EVIL = os.path.abspath("evil")


def _edit(path, change):
  with open(path, encoding="utf-8") as file:
    document = json.load(file)
  change(document)
  with open(path, "w", encoding="utf-8") as file:
    json.dump(document, file)


def _bring_code(app):
  os.mkdir(os.path.join(app, "custom"))
  with open(os.path.join(app, "custom", "evil.py"), "w", encoding="utf-8") as file:
    file.write(f"open({_EVIL!r}, 'w')\nfrom nvflare.apis.executor import Executor as Evil\n")
  _edit(os.path.join(app, "config", "config_fed_client.json"), lambda document: document.update(
      executors=[{"tasks": ["*"], "executor": {"path": "evil.Evil", "args": {}}}]
  ))


def _name_a_function(app):
  component = {"id": "x", "path": "subprocess.Popen", "args": {"args": ["touch", _EVIL]}}
  _edit(os.path.join(app, "config", "config_fed_client.json"), lambda document: document.update(
      components=[component]
  ))


def _is_refused(kit, names, change):
  lay_out = nvflare_kit.lay_out

  def evil(operator, sites, folder):
    lay_out(operator, sites, folder)
    local = os.path.join(folder, "server", "local")
    _edit(os.path.join(local, "authorization.json"), lambda document: document.update(
        permissions={"project_admin": "any"}
    ))
    _edit(os.path.join(local, "resources.json"), lambda document: document.update(
        class_allow_list=["*"]
    ))
    change(os.path.join(folder, "job", "app_client"))

  with mock.patch.object(nvflare_kit, "lay_out", evil):
    try:
      with nvflare_operator.open_operator(kit, names, "evil.log", 10, 60):
        return False
    except coordinator.CarrierFailed as e:
      print(e)
      return all(f"{name}: " in f"{e}" for name in names) and "one job" in f"{e}"


if __name__ == "__main__":
  _CHANGES = (_bring_code, _name_a_function)
  _NUM_REFUSED = sum(_is_refused(sys.argv[1], sys.argv[2].split(","), one) for one in _CHANGES)
  print(f"refused: {_NUM_REFUSED} of {len(_CHANGES)}")
