"""A site's folder: its key, its ledger, what it has agreed to, and where its rows are.

A file beside the rows, `MARKER`, says which ledger counts what they have spent, so that no other
one begins at nothing unasked.  It goes with the folder, by whatever name, and with copies of it;
tables that are copied or moved out of the folder by themselves lose it.
"""

from __future__ import annotations

import json
import os
import pathlib
import shutil
from typing import Any

from clustering_basics import atomic_file
from clustering_basics import validate
from fl_clustering.sites import federation as federation_lib
from fl_clustering.sites import identity as identity_lib
from fl_clustering.sites import rows
from fl_clustering.sites import site as site_lib
from fl_clustering.sites import site_ledger
from fl_clustering.tables import folder as folder_lib
from fl_clustering.tables import schema as schema_lib
from fl_clustering.tables import views as views_lib

# Names the folder to the process that answers.
VARIABLE = "FEDERATED_CLUSTERING_SITE"
_IDENTITY, _LEDGER, _FEDERATION = "identity.json", "ledger.json", "federation.json"
# Where the tables and their schema are.
_ROWS = "rows.json"
MARKER = ".federated_clustering_ledger"
_MARKER_FORMAT = 1


def _read_marker(path: str) -> dict[str, str]:
  """Returns the paths of ledgers by their ids; of none if there is no such file."""

  def parsed(document: dict[str, Any]) -> dict[str, str]:
    if document["format"] != _MARKER_FORMAT:
      raise ValueError(f"it is of format {document['format']!r}")
    return {one: str(ledger) for one, ledger in document["ledgers"].items()}

  return schema_lib.read_document(path, parsed, "data_dir") if os.path.exists(path) else {}


def _ledgers(data_dir: str) -> dict[str, str]:
  """Returns the paths of the ledgers by their ids that count rows of a folder of tables.

  Their files may also be in a folder above, of which this is a client's; in that of a client; and
  where links lead.
  """
  paths = [data_dir]
  for entry in folder_lib.entries(data_dir):
    paths.append(path := os.path.join(data_dir, entry))
    if os.path.isdir(path):
      paths += [os.path.join(path, own) for own in folder_lib.entries(path)]
  places = {pathlib.Path(os.path.realpath(path)) for path in paths}
  found: dict[str, str] = {}
  for place in places.union(*(place.parents for place in places)):
    found |= _read_marker(os.path.join(place, MARKER))
  return found


def _bind(data_dir: str, ledger: site_ledger.SiteLedger) -> None:
  """Writes that a ledger counts the rows of a folder of tables."""
  path = os.path.join(data_dir, MARKER)
  ledgers = {**_read_marker(path), ledger.id: ledger.path}
  try:
    atomic_file.write_text(path, json.dumps({"format": _MARKER_FORMAT, "ledgers": ledgers}))
  except OSError as e:
    rule = f"take a file that says which ledger counts its rows ({e.strerror})"
    raise validate.error("data_dir", rule, data_dir) from e


class SiteFolder:
  """A folder of a site.

  Attributes:
    workspace: A folder in it for the carrier's files.
    data_dir: The folder of the site's tables.
    reports: In a federation with noise, what the last `open` made of each of them; for the owner
      alone.
  """

  def __init__(self, path: str) -> None:
    """Opens a folder that `create` has made; ValueError says what is wrong with it."""
    self.path = os.path.abspath(path)
    self.workspace = self._join("nvflare")
    self.reports: dict[str, str] = {}
    self.identity = identity_lib.Identity.load(self._join(_IDENTITY))
    self.data_dir, self.schema_path = schema_lib.read_document(
        self._join(_ROWS), lambda paths: (str(paths["data_dir"]), str(paths["schema"])), "site_dir"
    )

  def _join(self, name: str) -> str:
    return os.path.join(self.path, name)

  @classmethod
  def create(
      cls, path: str, name: str, data_dir: str, schema: str, another_ledger: bool = False
  ) -> SiteFolder:
    """Makes a folder, with a new key and an empty ledger.

    Args:
      data_dir: The folder of the site's tables, which gets a file.
      another_ledger: Whether a ledger counts the rows already, so that they have a second budget.

    Raises:
      ValueError: If the name is none, the folder exists, the schema or the tables can't be used, or
        `another_ledger` is wrong.
    """
    identity = identity_lib.Identity.create(name)
    views_lib.load(schema)
    found = _ledgers(data_dir)
    if found and not another_ledger:
      rule = (
          "hold rows that no ledger counts yet, unless `another_ledger` is given (they then have "
          f"two budgets): these are counted in {', '.join(sorted(found.values()))}"
      )
      raise validate.error("data_dir", rule, data_dir)
    if another_ledger and not found:
      raise validate.error("another_ledger", f"be left out: none counts {data_dir}", another_ledger)
    try:
      os.mkdir(path, mode=0o700)
    except OSError as e:
      raise validate.error("site_dir", f"be a new folder ({e.strerror})", path) from e
    places = {"data_dir": os.path.abspath(data_dir), "schema": os.path.abspath(schema)}
    try:
      identity.write(os.path.join(path, _IDENTITY))
      ledger = site_ledger.SiteLedger.create(os.path.join(path, _LEDGER))
      ledger.close()
      atomic_file.write_text(os.path.join(path, _ROWS), json.dumps(places))
      _bind(data_dir, ledger)
    except BaseException:
      shutil.rmtree(path)
      raise
    return cls(path)

  def lock(self) -> None:
    """Locks the folder until this program ends; ValueError if another program has it."""
    site_ledger.lock(self._join("lock"), site_dir=self.path)

  def agree(self, federation: federation_lib.Federation) -> None:
    """Writes the federation file by which the site answers from now on."""
    federation.write(self._join(_FEDERATION))

  def _check_bound(self, ledger: site_ledger.SiteLedger) -> None:
    """Raises a ValueError unless the ledger counts the rows: a copy of that ledger doesn't."""
    found = _ledgers(self.data_dir)
    there = found.get(ledger.id)
    if not found:  # The tables are in a new folder.
      _bind(self.data_dir, ledger)
    elif there is None or (
        # It is somewhere else if the folder was moved.
        site_ledger.id_of(there) == ledger.id and not os.path.samefile(there, ledger.path)
    ):
      others = ", ".join(sorted(found.values()))
      rule = f"have the ledger that counts the rows of {self.data_dir}, {others}"
      raise validate.error("site_dir", rule, self.path)

  def open(self) -> site_lib.Site:
    """Returns the site; no other program can open it until `close`.

    Raises:
      ValueError: If the key, the federation file, the schema, the rows and the ledger don't belong
        together, or can't be used.
    """
    federation = federation_lib.Federation.load(self._join(_FEDERATION))
    schemas = views_lib.load(self.schema_path)
    clients, self.reports = rows.read(self.data_dir, schemas, federation)
    ledger = site_ledger.SiteLedger(self._join(_LEDGER))
    try:
      self._check_bound(ledger)
      return site_lib.Site(self.identity, federation, clients, ledger)
    except BaseException:
      ledger.close()
      raise
