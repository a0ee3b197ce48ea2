"""All sites of a run together: whose clients they are, and where their files are."""

from __future__ import annotations

import dataclasses
import hashlib
from typing import Any, Mapping

from fl_clustering.distribution import agreement
from fl_clustering.distribution import site as site_lib
from fl_clustering.distribution import site_paths
from fl_clustering.points import given_clients
from fl_clustering.tables import table_format


@dataclasses.dataclass(frozen=True, eq=False)
class Sites:
  """The clients of all sites, in the order that they would have in one folder.

  Attributes:
    format: What all sites have in common.
    clients: What their sites say of them, by client id.
    addresses: The addresses of their sites by client id.
    digest: A digest of all rows, in hex.
  """

  format: table_format.TableFormat | table_format.ViewFormat
  clients: Mapping[str, site_lib.SiteClient]
  addresses: Mapping[str, str]
  digest: str

  @property
  def num_rows(self) -> dict[str, int]:
    """The clients' numbers of rows, by client id."""
    return {client_id: client.num_rows for client_id, client in self.clients.items()}

  def path(self, client_id: str, ending: str) -> str:
    """Returns where a file of a client is, as TFF clients are told.

    Args:
      client_id: The client.
      ending: How the file's name ends, such as `site.POINTS`.
    """
    return str(
        site_paths.SitePath(self.addresses[client_id], self.clients[client_id].name + ending)
    )

  @property
  def num_columns(self) -> int:
    """The number of features."""
    if isinstance(self.format, table_format.ViewFormat):
      return sum(self.format.widths)
    return len(self.format.encoding.feature_names)


def join(documents: Mapping[str, Mapping[str, Any]]) -> Sites:
  """Returns the sites of a run together.

  Args:
    documents: What every site says of itself, `Site.to_json` by address.

  Raises:
    ValueError: If two sites have a client of the same id, or differ in their columns or labels.
  """
  sites = {address: site_lib.Site.from_json(found) for address, found in documents.items()}
  clients: dict[str, site_lib.SiteClient] = {}
  addresses: dict[str, str] = {}
  for address, site in sites.items():
    for client_id, client in site.clients.items():
      if client_id in clients:
        raise ValueError(
            f"`workers` must have different clients, got {client_id!r} at {addresses[client_id]} "
            f"and at {address}."
        )
      clients[client_id], addresses[client_id] = client, address
  clients = given_clients.sorted_by_id(clients)
  in_order = {addresses[client_id]: sites[addresses[client_id]] for client_id in clients}
  digest = hashlib.sha256()
  for site in in_order.values():
    digest.update(site.digest.encode())
  format_ = agreement.common_format({address: site.format for address, site in in_order.items()})
  return Sites(format_, clients, addresses, digest.hexdigest())
