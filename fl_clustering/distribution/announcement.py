"""What a worker says of itself: a file in its folder, which the program reads first.

The folder is the worker's working directory, so that every path that it is sent is relative
to the folder, whichever machine it is on.
"""

import dataclasses
import importlib.metadata
import json
import os
from typing import Any, Mapping

from clustering_basics import atomic_file
from clustering_basics import validate

FILE_NAME = "worker.json"
# Raise it with every change of what is in the file, or of what workers are asked to do.
_PROTOCOL = 2


def versions() -> dict[str, Any]:
  """Returns the versions that a worker and a program have in common."""
  return {
      "protocol": _PROTOCOL,
      "tensorflow": importlib.metadata.version("tensorflow"),
      "tensorflow_federated": importlib.metadata.version("tensorflow-federated"),
  }


@dataclasses.dataclass(frozen=True)
class Announcement:
  """A worker that was asked.

  Attributes:
    num_cores: How many clients it computes at a time.
    site: What it says of the clients that it owns, for JSON; None if it owns none.
  """

  num_cores: int
  site: Mapping[str, Any] | None


def write(folder: str, num_cores: int, site: Mapping[str, Any] | None = None) -> None:
  """Writes a worker's announcement into its folder."""
  content = {"versions": versions(), "num_cores": num_cores, "site": site}
  atomic_file.write_text(os.path.join(folder, FILE_NAME), json.dumps(content) + "\n")


def parse(text: str) -> Announcement:
  """Returns what a worker's file says.

  Raises:
    ValueError: If it is none, or that of a worker with other versions.
  """
  try:
    content = json.loads(text)
    found, num_cores = content["versions"], content["num_cores"]
    site = content.get("site")  # Not in those of other versions.
  except (ValueError, KeyError, TypeError) as e:
    raise ValueError(f"its {FILE_NAME} can't be read: {e!r}") from e
  if found != versions():
    raise ValueError(
        f"it has the versions {_shown(found)}, and this program has {_shown(versions())}"
    )
  validate.integer(minimum=1, num_cores=num_cores)
  return Announcement(num_cores, site)


def _shown(found: Mapping[str, Any]) -> str:
  return ", ".join(f"{name} {version}" for name, version in found.items())
