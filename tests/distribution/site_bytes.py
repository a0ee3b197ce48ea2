"""Two sites behind relays that record what leaves them, for a test of each program."""

import os

from absl.testing import absltest
import numpy as np

from fl_clustering.points import secure_sums
from fl_clustering.tables import client_tables
from fl_clustering.tables import table_options
from fl_clustering.tables import view_tables
from tests.distribution import data_folders
from tests.distribution import recording_relay
from tests.distribution import started_sites

# Of HTTP/2, gRPC and TFF, beside the values themselves.
_MOST_BYTES_PER_MESSAGE = 150
NUM_COLUMNS = 4
# The columns of each view, halves of a row.
VIEWS = {"left": slice(0, 2), "right": slice(2, 4)}
# Numbers of rows of the clients of each site.
CLIENTS = ({"anna": 40, "carl": 50}, {"bea": 35, "dora": 45})


def _csv(names, rows):
  return "".join(",".join(map(str, cells)) + "\n" for cells in (names, *rows))


class TestCase(absltest.TestCase):
  """A test with two sites of tables.

  Attributes:
    num_classes: How many kinds of rows a client has.
    workers: The sites.
    relays: The `RecordingRelay` of each.
    output: The folder that a program writes.
    flags: The flags by which it uses the sites.
  """

  num_classes = 3
  options = table_options.TableOptions(label_column="kind")
  open_folder = staticmethod(client_tables.open_folder)

  def client_files(self, client_id, points, kinds):
    """Returns the content of a client's files, by name."""
    names = [*(f"c{column}" for column in range(NUM_COLUMNS)), "kind"]
    rows = [[*point, kind] for point, kind in zip(points.tolist(), kinds.tolist())]
    return {f"{client_id}.csv": _csv(names, rows)}

  def _write_site(self, clients, rng):
    files = {}
    for client_id, num_rows in clients.items():
      kinds = np.arange(num_rows) % self.num_classes
      points = rng.standard_normal((num_rows, NUM_COLUMNS)) + 3 * kinds[:, np.newaxis]
      files |= self.client_files(client_id, points, kinds)
    return data_folders.write(self, files)

  def setUp(self):
    super().setUp()
    rng = np.random.default_rng(0)
    self._folders = [self._write_site(clients, rng) for clients in CLIENTS]
    self.workers = [
        started_sites.StartedSite(self, folder, self.options) for folder in self._folders
    ]
    self.relays = [
        recording_relay.RecordingRelay(self, worker.address) for worker in self.workers
    ]
    addresses = ",".join(relay.address for relay in self.relays)
    self.output = os.path.join(self.create_tempdir().full_path, "out")
    self.flags = f"--workers={addresses}", f"--output_dir={self.output}"

  def _rows(self, scaling):
    """Returns all rows, each in the forms that it has at a site, as bytes."""
    forms = []
    for worker, folder in zip(self.workers, self._folders):
      tables = self.open_folder(folder, self.options)
      for client_id in tables.client_ids:
        features = tables.read(client_id).features
        forms.append(features)
        if scaling is not None:
          scaled = scaling.apply(features)
          steps = np.rint(scaled).astype(np.int64) % secure_sums.MODULUS
          forms += [scaled, scaled.astype(np.float32), steps]
      for name in os.listdir(worker.folder):
        if name.endswith((".train", ".test")):
          with open(os.path.join(worker.folder, name), "rb") as file:
            scaled = np.frombuffer(file.read(), np.float32).reshape(-1, NUM_COLUMNS + 1)
          forms.append(scaled[:, :-1])
    return [row.tobytes() for rows in forms for row in rows]

  def num_half_rows(self, scaling=None):
    """Returns how many halves of rows have left the sites.

    Args:
      scaling: The `Scaling` of the program's model, in whose coordinates sites compute, if it has
        one.
    """
    # A row may be cut by a frame of HTTP/2, but not both of its halves.
    halves = []
    for row in self._rows(scaling):
      halves += [row[: len(row) // 2], row[len(row) // 2 :]]
    streams = [stream for relay in self.relays for stream in relay.streams()]
    return sum(any(half in stream for stream in streams) for half in halves)

  def values_by_site(self, scaling=None):
    """Checks that no row and nothing but values left a site, and returns the values.

    Args:
      scaling: As of `num_half_rows`.

    Returns:
      Per site a list of (type, shape), without what it says of itself.
    """
    self.assertEqual(self.num_half_rows(scaling), 0)
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


class ViewsTestCase(TestCase):
  """The same test with two sites of views, without labels."""

  options = table_options.TableOptions()
  open_folder = staticmethod(view_tables.open_folder)

  def client_files(self, client_id, points, kinds):
    del kinds  # Of tables.
    names = [f"c{column}" for column in range(NUM_COLUMNS)]
    return {
        f"{client_id}/{view}.csv": _csv(names[place], points[:, place].tolist())
        for view, place in VIEWS.items()
    }
