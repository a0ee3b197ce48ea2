"""Runs on the clients of sites: which sites take part, and what becomes of those that are lost."""

import dataclasses
import functools
import os
import sys
from typing import Any, Mapping

import tqdm

from experiment_shell import output_folder
from experiment_shell import study
from experiments import worker_flags

# The last column of every table: the addresses of the sites that the numbers are without.
MISSING = "missing_sites"
# The programs that cluster clients of each kind, as sites say it.
_CLUSTERED_BY = {"tables": "experiments:federated_kmeans", "views": "experiments:multi_view"}
# For reports: what a site's sums hide, and who knows the rows' clusters.
SUMS_TEXT = (
    "What is added up over clients is added up at their site first, and then here. No secure sum "
    "hides a site's total from this machine, and the total of a site with one client is that "
    "client's."
)
MOMENTS_TEXT = (
    "After the fit came one round of plain sums at every site: how many points every cluster has, "
    "and their sums and sums of squares by column."
)
PREDICT_TEXT = (
    "This machine has not seen the rows, so it can't say which cluster a row is in. Every site "
    "can: experiments:predict with this folder as --run and the site's own --data_dir."
)


@dataclasses.dataclass(frozen=True, eq=False)
class OpenSites:
  """The sites that take part, and those that don't.

  Attributes:
    documents: What every site that takes part says of itself, dicts of `Site.to_json` by address.
    missing: The addresses of those that don't.
    missing_clients: The ids of their clients, as far as they are known.
  """

  documents: Mapping[str, Mapping[str, Any]]
  missing: tuple[str, ...]
  missing_clients: tuple[str, ...]

  @functools.cached_property
  def sites(self):
    """The `sites.Sites` of those that take part."""
    from fl_clustering.distribution import sites  # pylint: disable=g-import-not-at-top

    return sites.join(self.documents)

  def without(self, address):
    """Returns the same sites but one, which is missing."""
    documents = {other: found for other, found in self.documents.items() if other != address}
    clients = self.documents[address]["clients"]
    return OpenSites(
        documents, (*self.missing, address), (*self.missing_clients, *clients)
    )

  def describe(self):
    """Returns what `config.json` says of the sites, whose addresses may change."""
    return [
        {
            "clients": {id_: client["num_rows"] for id_, client in found["clients"].items()},
            "digest": found["digest"],
        }
        for found in sorted(self.documents.values(), key=lambda found: min(found["clients"]))
    ]

  def describe_tables(self):
    """Returns what `config.json` says of sites of tables, a dict."""
    encoding = self.sites.format.encoding
    return {
        "sites": self.describe(),
        "features": list(encoding.feature_names),
        "levels": {name: list(found) for name, found in encoding.levels.items()},
    }

  def resuming(self, recorded, described):
    """Returns the same sites, of which those of a run to resume that are missing are known.

    Args:
      recorded: What `config.json` said of the data when the run began, a dict.
      described: What it would say now, likewise, with `describe()` as `sites`.

    Raises:
      ValueError: If the columns are others, a site is not one of that run, or `--workers` has
        fewer sites that do not answer than that run has others.
    """
    before, now = recorded.get("sites", ()), described["sites"]
    lost = [site for site in before if site not in now]
    is_same = {**recorded, "sites": now} == described and all(site in before for site in now)
    if not is_same or len(lost) > len(self.missing):
      raise ValueError(
          "`workers` must be the sites that the run to resume began with, got others, or other "
          "clients, rows or columns."
      )
    clients = tuple(client_id for site in lost for client_id in site["clients"])
    return dataclasses.replace(self, missing_clients=clients)

  def summary(self):
    """Returns what `summary.json` says of the sites that are missing."""
    return {"addresses": list(self.missing), "clients": list(self.missing_clients)}

  @property
  def last_columns(self):
    """The column of missing sites, a dict of what stands in it in every row."""
    return {MISSING: " ".join(sorted(self.missing))}

  def csv_text(self, header, rows):
    """Returns a table as the text of a CSV file, with the column of missing sites."""
    return output_folder.csv_text(header, rows, self.last_columns)


class SitesStudy:
  """A `Study` with the column of missing sites, and with rows of the same sites only."""

  def __init__(self, opened, folder, name, keys, values):
    """Opens the table.

    Args:
      opened: The `OpenSites`.
      folder: As in `Study`.
      name: Likewise.
      keys: Likewise.
      values: Likewise.
    """
    self._last_columns = opened.last_columns
    open_table = lambda: study.Study(folder, name, keys, (*values, MISSING))
    self._table = open_table()
    mark = self._last_columns[MISSING]
    if any((row[MISSING] or "") != mark for row in self._table.rows):
      os.remove(folder.join(name))
      self._table = open_table()

  @property
  def rows(self):
    """As in `Study`."""
    return self._table.rows

  def run(self, cells, measure):
    """Measures as `Study.run` does."""
    self._table.run(cells, lambda **cell: measure(**cell) | self._last_columns)


def open_sites(stack, kind=None):
  """Connects to the workers of `--workers`; returns the `OpenSites`.

  Args:
    stack: As in `worker_flags.open_documents`.
    kind: What the clients must have: `tables` or `views`; None for any.

  Raises:
    launch.InputError: If a worker can't be used, or owns no clients.
    ValueError: If two sites own the same client, or have other columns or labels, or the clients
      are of another kind.
  """
  documents = worker_flags.open_documents(stack)
  missing = (address for address in worker_flags.addresses() if address not in documents)
  opened = OpenSites(documents, tuple(missing), ())
  opened.sites  # Checks that they go together.  pylint: disable=pointless-statement
  found = next(iter(documents.values()))["kind"]
  if kind not in (None, found):
    raise ValueError(
        f"`workers` must be sites of {kind}, got sites of {found}, which {_CLUSTERED_BY[found]} "
        "clusters."
    )
  return opened


def text_of(opened):
  """Returns how many clients of how many sites take part."""
  return _clients_text(len(opened.sites.clients), len(opened.documents))


def clients_text(finished, described):
  """Returns how many clients of how many sites took part in a run.

  Args:
    finished: The `FinishedRun`.
    described: What its `config.json` says of data with sites, a dict.
  """
  missing, sites = finished.summary[MISSING]["clients"], described["sites"]
  left = [[id_ for id_ in site["clients"] if id_ not in missing] for site in sites]
  return _clients_text(sum(map(len, left)), sum(map(bool, left)))


def _clients_text(num_clients, num_sites):
  clients = "1 client" if num_clients == 1 else f"{num_clients} clients"
  sites = "1 site" if num_sites == 1 else f"{num_sites} sites"
  return f"{clients} at {sites}"


def run(opened, measure):
  """Returns what `measure` returns for the sites that are there to its end.

  With `--missing_sites=skip` it is called again without a site that was lost.

  Args:
    opened: The `OpenSites`.
    measure: A function of `OpenSites`, which leaves nothing of a call that was cut off.

  Raises:
    dealing.SiteMissing: If a site was lost that may not be left out, or the last one.
  """
  from fl_clustering.distribution import dealing  # pylint: disable=g-import-not-at-top

  while True:
    try:
      return measure(opened)
    except dealing.SiteMissing as e:
      others = opened.documents.keys() - {e.address}
      if not worker_flags.may_skip_sites() or not 0 < len(others) < len(opened.documents):
        raise
      tqdm.tqdm.write(
          f"{e} The run starts again without its clients, "
          f"{', '.join(opened.documents[e.address]['clients'])}.",
          file=sys.stderr,
      )
      opened = opened.without(e.address)


def warnings(finished):
  """Returns the warnings of a report: which sites its numbers are without, if any are.

  Args:
    finished: The `FinishedRun`.
  """
  missing = finished.summary[MISSING]
  if not missing["addresses"]:
    return []
  clients = ", ".join(missing["clients"]) or "not known, as it did not answer"
  return [(
      f"Without {_sites_text(missing)}",
      f"Left out because it was lost or did not answer: {', '.join(missing['addresses'])}. "
      f"Its clients: {clients}.",
      "All numbers on this page and in the tables are those of the other sites.",
  )]


def without_text(finished):
  """Returns the end of a result in a line: "", or how many sites it is without."""
  missing = finished.summary[MISSING]
  return f"; without {_sites_text(missing)}" if missing["addresses"] else ""


def _sites_text(missing):
  number = len(missing["addresses"])
  return "1 site" if number == 1 else f"{number} sites"
