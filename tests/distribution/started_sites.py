"""Sites on this machine for tests."""

import os
import tempfile

from fl_clustering.distribution import site_folder
from fl_clustering.tables import table_options
from tests.distribution import started_workers


class StartedSite(started_workers.StartedWorker):
  """A worker of one core that owns clients of a folder, and ends with the test."""

  def __init__(self, test, data_dir, options=table_options.TableOptions(), client_ids=None):
    """Starts it.

    Args:
      test: The test, or what has its `addCleanup`.
      data_dir: The folder of tables or of views.
      options: `TableOptions`.
      client_ids: The clients that are the site's; all by default.
    """
    super().__init__(test)
    self.open(data_dir, options, client_ids)

  def open(self, data_dir, options, client_ids=None):
    """Has the site own other clients, as at the start."""
    with tempfile.TemporaryDirectory() as own:
      for name in os.listdir(data_dir):
        if client_ids is None or name.partition(".")[0] in client_ids:
          os.symlink(os.path.join(data_dir, name), os.path.join(own, name))
      self.announce(site_folder.open_site(own, self.folder, options).to_json())


class OfClass:
  """What a test's class has instead of a test's `addCleanup`."""

  def __init__(self, test_class):
    self.addCleanup = test_class.addClassCleanup
