"""A site: a worker that stands where the data are, and what it says of its clients.

Its folder holds two files per client, which never leave it: the features of all rows, and
beside labels or a split a file of these.  What it says is in its announcement, so that a
program knows the clients' ids and numbers of rows, and the columns, before it computes.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Mapping

from fl_clustering.tables import table_format

# How the files of a client end.  Rows of features, float64; those of views side by side.
POINTS = ".points"
# A row of two int64 per row of features: its label, and 1 for testing or 0 for training.
LABELS = ".labels"
# The parts of a client's rows in three phases, each a file with its name as the last ending.
PARTS = ("train", "validation", "test")

_FORMATS: dict[str, Any] = {"tables": table_format.TableFormat, "views": table_format.ViewFormat}


@dataclasses.dataclass(frozen=True)
class SiteClient:
  """A client of a site.

  Attributes:
    name: What its files in the worker's folder are called, but for their ending.
    num_rows: Its number of rows.
    num_test: How many of them are for testing; None if no column says so.
  """

  name: str
  num_rows: int
  num_test: int | None


@dataclasses.dataclass(frozen=True, eq=False)
class Site:
  """What a site says of itself.

  Attributes:
    format: How its tables become features.
    clients: Its clients by client id.
    digest: A digest of all rows, in hex, with a key that stays at the site: equal rows have an
      equal digest there, and nobody else can try out what they may be.
  """

  format: table_format.TableFormat | table_format.ViewFormat
  clients: Mapping[str, SiteClient]
  digest: str

  def to_json(self) -> dict[str, Any]:
    """Returns the site as a dict for JSON."""
    (kind,) = (name for name, type_ in _FORMATS.items() if isinstance(self.format, type_))
    return {
        "kind": kind,
        "format": self.format.to_json(),
        "clients": {id_: dataclasses.asdict(client) for id_, client in self.clients.items()},
        "digest": self.digest,
    }

  @classmethod
  def from_json(cls, document: Mapping[str, Any]) -> Site:
    """Returns the site that `to_json` returned as a dict."""
    clients = {id_: SiteClient(**client) for id_, client in document["clients"].items()}
    format_ = _FORMATS[document["kind"]].from_json(document["format"])
    return cls(format_, clients, document["digest"])
