"""Sites on this machine for tests."""

from fl_clustering.sites import site_folder
from tests.workers import started_workers


class StartedSite(started_workers.StartedWorker):
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
