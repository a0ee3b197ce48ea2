"""Sites of one process: their files, their rows, and an operator that calls them."""

import dataclasses
import itertools
import json
import os
import signal
import sys
import traceback

from absl.testing import parameterized
import numpy as np

from fl_clustering.kmeans import kmeans_config
from fl_clustering.multiview import multiview_config
from fl_clustering.sites import coordinator as coordinator_lib
from fl_clustering.sites import federation as federation_lib
from fl_clustering.sites import identity as identity_lib
from fl_clustering.sites import site as site_lib
from fl_clustering.sites import site_folder
from fl_clustering.sites import site_ledger
from fl_clustering.sites import wire
from fl_clustering.tables import views

NAMES = ("east", "north", "south", "up", "west")
WIDTHS = (2, 3)
PRIVATE = {"epsilon": 4.0, "delta": 1e-6, "radius": 20.0, "min_sites": 2}
VIEWS = {"epsilon": 4.0, "delta": 1e-6, "view_norms": [15.0, 20.0], "min_sites": 2}
CLIENTS = {"epsilon": 4.0, "delta": 1e-6, "radius": 20.0, "min_sites": 3, "max_points": 50}


def rows_of(num_sites, num_rows=200, seed=0):
  """Returns rows of four clusters by site, of unequal numbers."""
  rng = np.random.default_rng(seed)
  centers = 4 * rng.standard_normal((4, sum(WIDTHS)))
  return {
      name: centers[rng.choice(4, size, p=rng.dirichlet(np.ones(4)))]
      + rng.standard_normal((size, sum(WIDTHS)))
      for name, size in zip(NAMES, num_rows + 7 * np.arange(num_sites))
  }


@dataclasses.dataclass
class Sites:
  """Sites, and an operator of theirs.

  Attributes:
    by_name: The `site.Site`s.
    sent: All messages and answers, as (site, message, answer).
  """

  folder: str
  federation: federation_lib.Federation
  identities: dict
  rows: dict
  by_name: dict = dataclasses.field(default_factory=dict)
  sent: list = dataclasses.field(default_factory=list)

  def ledger_path(self, name):
    return os.path.join(self.folder, f"{name}.ledger.json")

  def open(self, name, noise_source=None, federation=None):
    """Opens a site, again if it is open: as if it had been killed."""
    path = self.ledger_path(name)
    if name in self.by_name:
      self.by_name.pop(name)._ledger.close()
    is_new = not os.path.exists(path)
    ledger = site_ledger.SiteLedger.create(path) if is_new else site_ledger.SiteLedger(path)
    self.by_name[name] = site_lib.Site(
        self.identities[name], federation or self.federation, {name: self.rows[name]}, ledger
    )
    if noise_source is not None:
      self.by_name[name]._noise = noise_source

  def exchange(self, requests):
    answers = {}
    for name, message in requests.items():
      answers[name] = self.by_name[name].handle(message)
      self.sent.append((name, message, answers[name]))
    return answers

  def coordinator(self, exchange=None):
    return coordinator_lib.Coordinator(self.federation, exchange or self.exchange)

  def fit(self, num_clusters=2, exchange=None, epsilon=None, **settings):
    """Returns a fit of centroids, or of views if the federation file has private ones."""
    config = kmeans_config.KMeansConfig(num_clusters, **settings)
    if "view_norms" in self.federation.document.get("privacy", {}):
      config = multiview_config.MultiViewConfig(
          num_clusters, standardize=False, **multiview_config.PRIVATE_DEFAULTS
      )
    return coordinator_lib.fit_kmeans(config, self.coordinator(exchange), epsilon)

  def spent(self):
    """Returns what is in the ledgers, by name."""
    return {name: site.budget[0] for name, site in self.by_name.items()}


def document_of(identities, widths=(5,), privacy=None, limits=None):
  """Returns a federation file's contents."""
  return {
      "format": 1, "name": "trial", "schema": "0" * 64, "widths": list(widths),
      "sites": {name: one.public.hex() for name, one in identities.items()},
      "limits": limits or {}, **({"exact": True} if privacy is None else {"privacy": privacy}),
  }


def make(folder, num_sites=3, widths=(5,), privacy=None, limits=None, noise_source=None, rows=None):
  rows = rows_of(num_sites) if rows is None else rows
  # So that the same sites can be made again.
  identities = {name: identity_lib.Identity(name, name.encode().ljust(32)) for name in rows}
  federation = federation_lib.Federation(document_of(identities, widths, privacy, limits))
  sites = Sites(folder, federation, identities, rows)
  for name in rows:
    sites.open(name, noise_source)
  return sites


def masked(answer):
  """Returns the words of an answer to a question."""
  return wire.unpack(answer, 2**30)[1]["masked"]


class TestCase(parameterized.TestCase):

  def make(self, *args, **kwargs):
    return make(self.create_tempdir().full_path, *args, **kwargs)


def kill(*unused_arguments, **unused_settings):
  os.kill(os.getpid(), signal.SIGKILL)


def ending(function, *arguments):
  """Returns how a process ends that calls a function: -9 if it is killed."""
  pid = os.fork()
  if not pid:
    try:
      function(*arguments)
    except BaseException:  # pylint: disable=broad-exception-caught
      traceback.print_exc()
      sys.stderr.flush()
    os._exit(1)
  return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def schema_of(widths=(5,), low=-40, high=40, num_levels=0):
  """Returns the document of a schema with bounds: of tables, or of several views.

  The last columns of tables may be those of a field with levels.
  """
  names, bounds = iter("abcdefgh"), {"minimum": low, "maximum": high}
  schemas = [
      {"fields": [
          {"name": name, "type": "number", "constraints": bounds}
          for name in itertools.islice(names, width)
      ]} for width in widths
  ]
  if len(schemas) == 1:
    if num_levels:
      levels = {"type": "string", "constraints": {"enum": list("uvwxyz"[:num_levels])}}
      schemas[0]["fields"][-num_levels:] = [{"name": "level", **levels}]
    return schemas[0]
  return {"resources": [
      {"name": f"view{place}", "schema": one} for place, one in enumerate(schemas)
  ]}


def write_schema(folder, *args, **kwargs):
  """Writes the document of `schema_of`, and returns its path and its hash."""
  path = os.path.join(folder, "schema.json")
  with open(path, "w", encoding="utf-8") as file:
    json.dump(schema_of(*args, **kwargs), file)
  return path, federation_lib.schema_hash(views.load(path))


def write_folder(sites, name, parent):
  """Returns the `SiteFolder` of a site, with its rows in a table."""
  data_dir = os.path.join(parent, f"rows_{name}")
  os.mkdir(data_dir)
  np.savetxt(
      os.path.join(data_dir, f"{name}.csv"), sites.rows[name], delimiter=",", header="a,b,c,d,e",
      comments="",
  )
  schema, found = write_schema(parent)
  folder = site_folder.SiteFolder.create(os.path.join(parent, name), name, data_dir, schema)
  keys = {**sites.federation.document["sites"], name: folder.identity.public.hex()}
  sites.federation = federation_lib.Federation(
      {**sites.federation.document, "schema": found, "sites": keys}
  )
  folder.agree(sites.federation)
  return folder
