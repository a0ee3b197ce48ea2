"""Code that is not this project's: methods, personal models and models of a user's own files."""

import hashlib
import pathlib
import sys
from typing import Any, Iterable

from fl_clustering.methods import registry
from fl_clustering.tasks import models


def _parts(name: str) -> tuple[Any, ...]:
  """Returns what a method, or a personal model, is made by."""
  if name in registry.CONTROLS:
    return ()
  row = registry.entry(name)
  return row.settings, row.build


def _of_others(parts: Iterable[Any]) -> list[str]:
  """Returns the names of the modules outside of this project that parts are from, once each."""
  project = __name__.partition(".")[0] + "."
  return [
      name for name in dict.fromkeys(part.__module__ for part in parts)
      if not name.startswith(project)
  ]


def modules() -> list[str]:
  """Returns the names of all such modules.

  A script that is run, and not imported, is among them by the name that it is imported by.
  """
  parts = [part for name in (*registry.METHODS, *registry.PERSONAL) for part in _parts(name)]
  script = pathlib.Path(getattr(sys.modules["__main__"], "__file__", "") or "").stem
  found = _of_others([*parts, *models.MODELS.values()])
  return [script if name == "__main__" else name for name in found]


def digests(methods: Iterable[str] = (), model: str | None = None) -> dict[str, str]:
  """Returns a SHA-256 (hex) of the files of those that are not of this project, by name.

  Args:
    methods: The names of methods, controls and personal models.
    model: The name of a model, one of `models.MODELS` or not.
  """
  parts = {name: _parts(name) for name in methods}
  if model is not None and model in models.MODELS:
    parts[f"model {model}"] = (models.MODELS[model],)
  found = {}
  for name, of_name in parts.items():
    files = [getattr(sys.modules[module], "__file__", None) for module in _of_others(of_name)]
    contents = [pathlib.Path(path).read_bytes() for path in files if path]
    if contents:
      found[name] = hashlib.sha256(b"".join(contents)).hexdigest()
  return found


def described(methods: Iterable[str] = (), model: str | None = None) -> dict[str, Any]:
  """Returns what `config.json` says of `digests`: nothing where all is this project's."""
  found = digests(methods, model)
  return {"own_code": found} if found else {}
