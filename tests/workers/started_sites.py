"""Sites on this machine for tests."""

import os

import numpy as np

from fl_clustering.sites import site as site_lib
from fl_clustering.sites import site_folder
from fl_clustering.workers import announcement
from tests.workers import started_workers


class StartedSite(started_workers.StartedWorker):
  """A site of one core that owns some clients, and ends with the test."""

  def __init__(self, test, tables, client_ids):
    """Starts it.

    Args:
      test: The test, or what has its `addCleanup`.
      tables: `ClientTables` or `ViewTables`.
      client_ids: The clients that are the site's.
    """
    self._tables = tables
    self._client_ids = client_ids
    super().__init__(test)

  def start(self):
    clients = {}
    for position, client_id in enumerate(self._client_ids):
      features = self._tables.read(client_id).features
      path = os.path.join(self.folder, f"{position}{site_lib.POINTS}")
      with open(path, "wb") as file:
        file.write(np.ascontiguousarray(features, "<f8"))
      clients[client_id] = site_lib.SiteClient(str(position), len(features), None)
    digest = self._tables.sha256 + " ".join(self._client_ids)
    site = site_lib.Site(self._tables.format, clients, digest)
    announcement.write(self.folder, num_cores=1, site=site.to_json())
    super().start()


class OfClass:
  """What a test's class has instead of a test's `addCleanup`."""

  def __init__(self, test_class):
    self.addCleanup = test_class.addClassCleanup


class StartedFolder(started_workers.StartedWorker):
  """A worker of one core that owns the clients of a folder of tables."""

  def __init__(self, test, data_dir, options):
    """Starts it.

    Args:
      test: The test with which it ends.
      data_dir: The folder.
      options: `TableOptions`.
    """
    super().__init__(test)
    self.open(data_dir, options)

  def open(self, data_dir, options):
    """Has the worker own the clients of a folder, in place of others."""
    self.announce(site_folder.open_site(data_dir, self.folder, options).to_json())
