"""Two sites behind relays that record what leaves them, for a test of each program."""

import os

from absl.testing import absltest
import numpy as np

from fl_clustering.tables import client_tables
from fl_clustering.tables import table_options
from tests.sites import data_folders
from tests.workers import recording_relay
from tests.workers import started_sites

# Of HTTP/2, gRPC and TFF, beside the values themselves.
_MOST_BYTES_PER_MESSAGE = 150
NUM_COLUMNS = 4
NUM_CLASSES = 3
# Numbers of rows of the clients of each site.
CLIENTS = ({"anna": 40, "carl": 50}, {"bea": 35, "dora": 45})
_OPTIONS = table_options.TableOptions(label_column="kind")


def _files():
  """Returns the content of every site's files, by name."""
  rng = np.random.default_rng(0)
  names = [f"c{column}" for column in range(NUM_COLUMNS)]
  sites = []
  for clients in CLIENTS:
    sites.append({})
    for client_id, num_rows in clients.items():
      kinds = np.arange(num_rows) % NUM_CLASSES
      points = rng.standard_normal((num_rows, NUM_COLUMNS)) + 3 * kinds[:, np.newaxis]
      rows = [[*point, kind] for point, kind in zip(points.tolist(), kinds.tolist())]
      lines = [",".join(map(str, cells)) for cells in ([*names, "kind"], *rows)]
      sites[-1][f"{client_id}.csv"] = "\n".join(lines) + "\n"
  return sites


class TestCase(absltest.TestCase):
  """A test with two sites.

  Attributes:
    folders: The sites' folders of tables.
    workers: The sites.
    relays: The `RecordingRelay` of each.
    flags: The flags by which a program uses them.
  """

  def setUp(self):
    super().setUp()
    self.folders = [data_folders.write(self, files) for files in _files()]
    self.workers = [
        started_sites.StartedSite(self, folder, _OPTIONS) for folder in self.folders
    ]
    self.relays = [
        recording_relay.RecordingRelay(self, worker.address) for worker in self.workers
    ]
    addresses = ",".join(relay.address for relay in self.relays)
    folder = self.create_tempdir().full_path
    self.flags = f"--workers={addresses}", f"--output_dir={folder}/out"

  def _rows(self):
    """Returns all rows, each in the forms that it has at a site, as bytes."""
    found = []
    for worker, folder in zip(self.workers, self.folders):
      tables = client_tables.open_folder(folder, _OPTIONS)
      for client_id in tables.client_ids:
        found += [row.tobytes() for row in tables.read(client_id).features]
      for name in os.listdir(worker.folder):
        if name.endswith((".train", ".test")):
          with open(os.path.join(worker.folder, name), "rb") as file:
            scaled = np.frombuffer(file.read(), np.float32).reshape(-1, NUM_COLUMNS + 1)
          found += [row.tobytes() for row in scaled[:, :-1]]
    return found

  def num_half_rows(self):
    """Returns how many halves of rows have left the sites."""
    # A row may be cut by a frame of HTTP/2, but not both of its halves.
    halves = []
    for row in self._rows():
      halves += [row[: len(row) // 2], row[len(row) // 2 :]]
    streams = [stream for relay in self.relays for stream in relay.streams()]
    return sum(any(half in stream for stream in streams) for half in halves)

  def values_by_site(self):
    """Checks that no row and nothing but values left a site, and returns the values.

    Returns:
      Per site a list of (type, shape), without what it says of itself.
    """
    self.assertEqual(self.num_half_rows(), 0)
    by_site = []
    for relay in self.relays:
      sent = relay.sent()
      announcements = [value.item() for value in sent.values if value.dtype.kind == "S"]
      self.assertLen(set(announcements), 1)
      self.assertIn(b"num_rows", announcements[0])
      overhead = sent.num_bytes - sum(value.nbytes for value in sent.values)
      self.assertBetween(overhead, 0, _MOST_BYTES_PER_MESSAGE * sent.num_messages)
      values = [value for value in sent.values if value.dtype.kind != "S"]
      by_site.append([(value.dtype.name, value.shape) for value in values])
    return by_site
