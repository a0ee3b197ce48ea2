"""Runs on the clients of sites: which sites take part, and what becomes of those that are lost."""

import contextlib
import dataclasses
import functools
import os
import sys
from typing import Any, Callable, Iterable, Mapping, Sequence, TYPE_CHECKING, TypeVar

import tqdm

from experiment_shell import finished_run
from experiment_shell import lazy_module
from experiment_shell import output_folder
from experiment_shell import study
from experiments import worker_flags

if TYPE_CHECKING:
  from fl_clustering.distribution import sites as sites_lib

dealing = lazy_module.LazyModule("fl_clustering.distribution.dealing")
joined_sites = lazy_module.LazyModule("fl_clustering.distribution.sites")

_Result = TypeVar("_Result")

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
    documents: What every site that takes part says of itself, as `Site.to_json`, by address.
    missing: The addresses of those that don't.
    missing_clients: The ids of their clients, as far as they are known.
  """

  documents: Mapping[str, Mapping[str, Any]]
  missing: tuple[str, ...]
  missing_clients: tuple[str, ...]

  @functools.cached_property
  def sites(self) -> "sites_lib.Sites":
    """Those that take part, together."""
    return joined_sites.join(self.documents)

  def check(self, kind: str | None = None) -> None:
    """Raises a ValueError unless the sites go together and their clients are of a kind.

    Args:
      kind: What the clients must have: `tables` or `views`; None for any.
    """
    joined_sites.join(self.documents)
    found = next(iter(self.documents.values()))["kind"]
    if kind not in (None, found):
      raise ValueError(
          f"`workers` must be sites of {kind}, got sites of {found}, which {_CLUSTERED_BY[found]} "
          "clusters."
      )

  def without(self, address: str) -> "OpenSites":
    """Returns the same sites but one, which is missing."""
    documents = {other: found for other, found in self.documents.items() if other != address}
    clients = self.documents[address]["clients"]
    return OpenSites(
        documents, (*self.missing, address), (*self.missing_clients, *clients)
    )

  def describe(self) -> list[dict[str, Any]]:
    """Returns what `config.json` says of the sites, whose addresses may change."""
    return [
        _describe(found)
        for found in sorted(self.documents.values(), key=lambda found: min(found["clients"]))
    ]

  def describe_tables(self) -> dict[str, Any]:
    """Returns what `config.json` says of sites of tables."""
    format_: Any = self.sites.format
    encoding = format_.encoding
    return {
        "sites": self.describe(),
        "features": list(encoding.feature_names),
        "levels": {name: list(found) for name, found in encoding.levels.items()},
    }

  def resuming(
      self, recorded: Mapping[str, Any], described: Mapping[str, Any]
  ) -> "OpenSites":
    """Returns the same sites, of which those of a run to resume that are missing are known.

    Args:
      recorded: What `config.json` said of the data when the run began.
      described: What it would say now, with `describe()` as `sites`.

    Raises:
      ValueError: If the columns are others, a site is not one of that run, or `--workers` has
        fewer sites that do not answer than that run has others.
    """
    before, now = recorded.get("sites", ()), described["sites"]
    lost = [site for site in before if site not in now]
    is_same = {**recorded, "sites": now} == described and all(site in before for site in now)
    if not is_same or len(lost) > len(self.missing):
      others = [
          address for address, found in self.documents.items() if _describe(found) not in before
      ]
      got = "others, or other clients, rows or columns"
      if before and others:
        got = f"other clients or rows at {', '.join(others)}"
      raise ValueError(
          f"`workers` must be the sites that the run to resume began with, got {got}."
      )
    clients = tuple(client_id for site in lost for client_id in site["clients"])
    return dataclasses.replace(self, missing_clients=clients)

  def summary(self) -> dict[str, list[str]]:
    """Returns what `summary.json` says of the sites that are missing."""
    return {"addresses": list(self.missing), "clients": list(self.missing_clients)}

  @property
  def last_columns(self) -> dict[str, str]:
    """The column of missing sites, and what stands in it in every row."""
    return {MISSING: " ".join(sorted(self.missing))}

  @property
  def lines(self) -> tuple[str, ...]:
    """What a program prints of the data: how many clients take part, and at which site."""
    total = f"data: {_clients_text(len(self.sites.clients), len(self.documents))}"
    return total, *self.site_lines

  @property
  def site_lines(self) -> tuple[str, ...]:
    """Which site computes for how many clients, a line each."""
    return tuple(
        f"site {address}: {_num_clients_text(len(found['clients']))}"
        for address, found in self.documents.items()
    )


def _describe(document: Mapping[str, Any]) -> dict[str, Any]:
  """Returns what `config.json` says of a site."""
  return {
      "clients": {id_: client["num_rows"] for id_, client in document["clients"].items()},
      "digest": document["digest"],
  }


class SitesStudy(study.Study):
  """A `Study` with the column of missing sites, which keeps rows of all sites only."""

  def __init__(
      self, opened: OpenSites, folder: output_folder.OutputFolder, name: str,
      keys: Sequence[str], values: Sequence[str],
  ) -> None:
    """Opens the table, as `Study` does."""
    self._last_columns = opened.last_columns
    columns = folder, name, keys, (*values, MISSING)
    super().__init__(*columns)
    # An address does not say which site is missing, as it may be another one's by now.
    if opened.missing or any(row[MISSING] for row in self.rows):
      os.remove(folder.join(name))
      super().__init__(*columns)

  def run(
      self, cells: Iterable[Mapping[str, Any]], measure: Callable[..., Mapping[str, Any]]
  ) -> None:
    super().run(cells, lambda **cell: {**measure(**cell), **self._last_columns})


def open_sites(stack: contextlib.ExitStack, kind: str | None = None) -> OpenSites:
  """Connects to the workers of `--workers`, as `worker_flags.open_documents` does.

  Raises:
    launch.InputError: If a worker can't be used, or owns no clients.
    ValueError: If two sites own the same client, or have other columns or labels, or the clients
      are of another kind, as of `OpenSites.check`.
  """
  documents = worker_flags.open_documents(stack)
  missing = (address for address in worker_flags.addresses() if address not in documents)
  opened = OpenSites(documents, tuple(missing), ())
  opened.check(kind)
  return opened


def clients_text(finished: finished_run.FinishedRun, described: Mapping[str, Any]) -> str:
  """Returns how many clients of how many sites took part in a run.

  Args:
    described: What its `config.json` says of data with sites.
  """
  missing, sites = finished.summary[MISSING]["clients"], described["sites"]
  left = [[id_ for id_ in site["clients"] if id_ not in missing] for site in sites]
  return _clients_text(sum(map(len, left)), sum(map(bool, left)))


def shares_text(described: Mapping[str, Any]) -> str:
  """Returns for reports how many clients every site computes for, in a sentence.

  Args:
    described: As of `clients_text`.
  """
  numbers = ", ".join(str(len(site["clients"])) for site in described["sites"])
  return f"Every site computes for its own clients; the numbers of clients are {numbers}."


def _num_clients_text(num_clients: int) -> str:
  return "1 client" if num_clients == 1 else f"{num_clients} clients"


def _clients_text(num_clients: int, num_sites: int) -> str:
  sites = "1 site" if num_sites == 1 else f"{num_sites} sites"
  return f"{_num_clients_text(num_clients)} at {sites}"


def run(opened: OpenSites, measure: Callable[[OpenSites], _Result]) -> _Result:
  """Returns what `measure` returns for the sites that are there to its end.

  With `--missing_sites=skip` it is called again without a site that was lost.

  Args:
    measure: It leaves nothing of a call that was cut off.

  Raises:
    dealing.SiteMissing: If a site was lost that may not be left out, or the last one.
  """
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


def are_in(finished: finished_run.FinishedRun) -> bool:
  """Returns whether a run was one on the clients of sites."""
  return MISSING in finished.summary


def warnings(finished: finished_run.FinishedRun) -> list[tuple[str, ...]]:
  """Returns the warnings of a report: which sites its numbers are without, if any are."""
  missing = finished.summary.get(MISSING)
  if not missing or not missing["addresses"]:
    return []
  clients = ", ".join(missing["clients"]) or "none"
  return [(
      f"Without {_sites_text(missing)}",
      f"Left out because it was lost or did not answer: {', '.join(missing['addresses'])}. "
      f"Known clients: {clients}.",
      "All numbers on this page and in the tables are those of the other sites.",
  )]


def without_text(finished: finished_run.FinishedRun) -> str:
  """Returns the end of a result in a line: "", or how many sites it is without."""
  missing = finished.summary.get(MISSING)
  return f"; without {_sites_text(missing)}" if missing and missing["addresses"] else ""


def _sites_text(missing: Mapping[str, Any]) -> str:
  number = len(missing["addresses"])
  return "1 site" if number == 1 else f"{number} sites"
