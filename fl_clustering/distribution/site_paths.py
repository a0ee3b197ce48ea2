"""Paths of files that a worker owns and that never leave it: `site:HOST:PORT/NAME`."""

import dataclasses

_SCHEME = "site:"


@dataclasses.dataclass(frozen=True)
class SitePath:
  """A file at a site: the site's host and port, and the file's name in the worker's folder."""

  address: str
  name: str

  def __str__(self) -> str:
    return f"{_SCHEME}{self.address}/{self.name}"


def parse(path: str) -> SitePath | None:
  """Returns the `SitePath` that a text stands for; None if it is a path on this machine."""
  if not path.startswith(_SCHEME):
    return None
  address, _, name = path.removeprefix(_SCHEME).partition("/")
  return SitePath(address, name)
