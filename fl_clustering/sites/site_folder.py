"""A site's folder: its key, its ledger, what it has agreed to, and where its rows are.

A file beside the rows, `MARKER`, says which ledger counts what they have spent, so a second one does
not begin at nothing unasked.  Whoever copies, moves or links the folder takes the file along; whoever
copies single tables, or deletes it, does not.
"""

from __future__ import annotations

import json
import os
import pathlib
import shutil

from clustering_basics import atomic_file
from clustering_basics import validate
from fl_clustering.sites import federation as federation_lib
from fl_clustering.sites import identity as identity_lib
from fl_clustering.sites import rows
from fl_clustering.sites import site as site_lib
from fl_clustering.sites import site_ledger
from fl_clustering.tables import clients as clients_lib
from fl_clustering.tables import schema as schema_lib
from fl_clustering.tables import views as views_lib

# Names the folder to the process that answers.
VARIABLE = "FEDERATED_CLUSTERING_SITE"
_IDENTITY, _LEDGER, _FEDERATION = "identity.json", "ledger.json", "federation.json"
# Where the tables and their schema are.
_ROWS = "rows.json"
_RULE = "be a folder that `experiments.site --new` has made"
MARKER = ".federated_clustering_ledger"
_MARKER_FORMAT = 1


def read_schema(path: str) -> schema_lib.Schema | views_lib.Schemas:
  """Returns the schema of a file: that of tables, or those of views by name."""
  try:
    with open(path, encoding="utf-8-sig") as file:
      has_views = "resources" in json.load(file)
  except (OSError, TypeError, ValueError, RecursionError):
    has_views = False  # What is wrong with it is said below.
  return views_lib.load(path) if has_views else schema_lib.load(path)


def _read_marker(path: str) -> dict[str, str]:
  """Returns the paths of ledgers by their ids; of none if there is no such file."""
  try:
    with open(path, encoding="utf-8") as file:
      document = json.load(file)
    if document["format"] != _MARKER_FORMAT:
      raise ValueError(f"it is of format {document['format']!r}")
    return {f"{one}": os.fsdecode(ledger) for one, ledger in document["ledgers"].items()}
  except (FileNotFoundError, NotADirectoryError):
    return {}
  except (OSError, AttributeError, KeyError, RecursionError, TypeError, ValueError) as e:
    raise ValueError(f"`data_dir` must say whose ledger counts its rows, got {path!r}: {e}.") from e


def _ledgers(data_dir: str) -> dict[str, str]:
  """Returns the paths of the ledgers by their ids that count rows of a folder of tables.

  They may be those of a folder above, which has these as one client's, of a client's folder in it,
  or of where links lead.
  """
  paths = [data_dir]
  for entry in clients_lib.entries(data_dir):
    paths.append(path := os.path.join(data_dir, entry))
    if os.path.isdir(path):
      paths += [os.path.join(path, own) for own in clients_lib.entries(path)]
  places = {pathlib.Path(os.path.realpath(path)) for path in paths}
  found: dict[str, str] = {}
  for place in sorted(places.union(*(place.parents for place in places))):
    found |= _read_marker(os.path.join(place, MARKER))
  return found


def _bind(data_dir: str, ledger: site_ledger.SiteLedger, is_another: bool = False) -> int:
  """Has a ledger count the rows of a folder of tables.

  Args:
    is_another: Whether another one counts them already.

  Returns:
    How many ledgers count them.

  Raises:
    ValueError: If another ledger counts them, and this one does not; if this is a copy of the one
      that does; or if `is_another` is wrong.
  """
  found, own = _ledgers(data_dir), os.path.realpath(ledger.path)
  place = found.get(ledger.id)
  if place is None and is_another != bool(found):
    rule = (
        "be left out: no ledger counts these rows yet" if is_another else
        f"be given if a second budget is meant: rows of {data_dir} are counted in "
        f"{', '.join(sorted(found.values()))}"
    )
    raise validate.error("another_ledger", rule, is_another)


class SiteFolder:
  """A folder of a site.

  Attributes:
    path: The folder.
    workspace: A folder in it for the carrier's files.
    identity: Its name and key.
    data_dir: The folder of its tables.
    schema_path: The file of their schema.
  """

  def __init__(self, path: str) -> None:
    """Opens a folder that `create` has made; ValueError says what is wrong with it."""
    self.path = os.path.abspath(path)
    self.workspace = self._join("nvflare")
    if not os.path.isdir(path):
      raise validate.error("site_dir", _RULE, path)
    self.identity = identity_lib.Identity.load(self._join(_IDENTITY))
    try:
      with open(self._join(_ROWS), encoding="utf-8") as file:
        document = json.load(file)
      self.data_dir, self.schema_path = str(document["data_dir"]), str(document["schema"])
    except (OSError, KeyError, TypeError, ValueError) as e:
      raise validate.error("site_dir", f"{_RULE} ({e})", path) from e

  def _join(self, name: str) -> str:
    return os.path.join(self.path, name)

  @classmethod
  def create(cls, path: str, name: str, data_dir: str, schema: str) -> SiteFolder:
    """Makes a folder, with a new key and an empty ledger.

    Args:
      data_dir: The folder of the site's tables.
      schema: The file of their schema.

    Raises:
      ValueError: If the name is none, the folder exists, or the tables have no rows by the schema.
    """
    identity = identity_lib.Identity.create(name)
    read_schema(schema)
    if not os.path.isdir(data_dir):
      raise validate.error("data_dir", "be the folder of this site's tables", data_dir)
    try:
      os.mkdir(path, mode=0o700)
    except OSError as e:
      raise validate.error("site_dir", f"be a new folder ({e.strerror})", path) from e
    identity.write(os.path.join(path, _IDENTITY))
    site_ledger.SiteLedger.create(os.path.join(path, _LEDGER)).close()
    atomic_file.write_text(os.path.join(path, _ROWS), json.dumps(
        {"data_dir": os.path.abspath(data_dir), "schema": os.path.abspath(schema)}, indent=1
    ) + "\n")
    return cls(path)

  def lock(self) -> None:
    """Keeps the folder for this program, until it ends; ValueError if another one has it."""
    site_ledger.lock(self._join("lock"), site_dir=self.path)

  def agree(self, federation: federation_lib.Federation) -> None:
    """Keeps a federation file, the one by which the site answers from now on."""
    federation.write(self._join(_FEDERATION))

  def open(self) -> site_lib.Site:
    """Returns the site; no other program can open it until `close`.

    Raises:
      ValueError: If the key, the federation file, the schema, the rows and the ledger don't belong
        together, or can't be used.
    """
    federation = federation_lib.Federation.load(self._join(_FEDERATION))
    clients = rows.read(self.data_dir, read_schema(self.schema_path), federation)
    ledger = site_ledger.SiteLedger(self._join(_LEDGER))
    try:
      return site_lib.Site(self.identity, federation, clients, ledger)
    except BaseException:
      ledger.close()
      raise
