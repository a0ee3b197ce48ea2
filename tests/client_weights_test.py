import os
from unittest import mock

from absl.testing import absltest
from absl.testing import parameterized
import numpy as np

from fl_clustering.methods import client_weights

_CLIENTS = np.array([1, 0, 2])
# All clients' ids.
_IDS = ("é", "a", "f0001_41")
_VECTORS = np.array([[1, 2], [4, 6], [1, 1]], np.float32)
_GLOBAL = np.array([1, 2], np.float32)


def _make(clients=_CLIENTS, vectors=_VECTORS, global_vector=_GLOBAL):
  return client_weights.ClientWeights(clients, vectors, global_vector)


def _with_value(value):
  vectors = _VECTORS.copy()
  vectors[2, 1] = value
  return vectors


class ValidationTest(parameterized.TestCase):

  @parameterized.parameters(
      ("clients", ValueError, {"clients": _CLIENTS[:0], "vectors": _VECTORS[:0]}),
      ("clients", ValueError, {"clients": np.array([0, 1, 0])}),
      ("vectors", ValueError, {"vectors": _VECTORS[:2]}),
      ("vectors", ValueError, {"vectors": _VECTORS[:, :, None]}),
      ("vectors", ValueError, {"vectors": _VECTORS[:, :0], "global_vector": _GLOBAL[:0]}),
      ("vectors", ValueError, {"vectors": _with_value(np.nan)}),
      ("vectors", ValueError, {"vectors": _with_value(-np.inf)}),
      ("global_vector", ValueError, {"global_vector": np.zeros(3, np.float32)}),
      ("global_vector", ValueError, {"global_vector": np.array([0, np.nan], np.float32)}),
      ("vectors", TypeError, {"vectors": _VECTORS.tolist()}),
      ("vectors", TypeError, {"vectors": _VECTORS.astype(float)}),
      ("global_vector", TypeError, {"global_vector": _GLOBAL.astype(int)}),
  )
  def test_refuses_arrays(self, name, error, arguments):
    with self.assertRaisesRegex(error, f"^`{name}`"):
      _make(**arguments)

  @parameterized.parameters(
      ("clients", lambda weights: weights.mean_of(np.array([0, 25]))),
      ("clients", lambda weights: weights.mean_of(np.array([], int))),
      ("clients", lambda weights: weights.represented("weights", np.array([25]))),
      ("representation", lambda weights: weights.represented("gradient")[:]),
  )
  def test_refuses_questions(self, name, ask):
    with self.assertRaisesRegex(ValueError, f"`{name}`"):
      ask(_make())


class RepresentationTest(parameterized.TestCase):

  @parameterized.named_parameters(
      ("weights", "weights", _VECTORS),
      ("update", "update", [[0, 0], [3, 4], [0, -1]]),
      # The update of client b is zero, and stays so.
      ("normalized_update", "normalized_update", [[0, 0], [0.6, 0.8], [0, -1]]),
  )
  def test_values(self, kind, expected):
    matrix = _make().represented(kind)[:]
    self.assertEqual(matrix.dtype, np.float32)
    np.testing.assert_allclose(matrix, expected, rtol=1e-7)

  def test_tiny_updates_are_normalized(self):
    # Their squares are zero in float32.
    vectors = np.array([[3e-30, 4e-30]], np.float32)
    weights = _make(np.arange(1), vectors, np.zeros(2, np.float32))
    np.testing.assert_allclose(weights.represented("normalized_update")[:], [[0.6, 0.8]], rtol=1e-6)


class RepresentedTest(parameterized.TestCase):

  @parameterized.parameters(*client_weights.REPRESENTATIONS)
  def test_parts_are_those_of_the_whole(self, kind):
    vectors = _VECTORS.copy()
    weights = _make(vectors=vectors)
    whole = weights.represented(kind)[:]
    some = weights.represented(kind, np.array([2, 1]))
    self.assertEqual((some.shape, len(some)), ((2, 2), 2))
    np.testing.assert_array_equal(some[:], whole[[2, 0]])
    np.testing.assert_array_equal(some[:, 1:], whole[[2, 0], 1:])
    np.testing.assert_array_equal(some[0], whole[2])
    np.testing.assert_array_equal(some[1, :1], whole[0, :1])
    np.testing.assert_array_equal(vectors, _VECTORS)


class MeanTest(parameterized.TestCase):

  def test_goes_by_client(self):
    mean = _make().mean_of(np.array([2, 1]))
    self.assertEqual(mean.dtype, np.float32)
    np.testing.assert_array_equal(mean, [1, 1.5])

  def test_accumulates_in_double_precision(self):
    # In float32, 2^25 + 1 + 1 + 1 is 2^25.
    vectors = np.array([[2**25], [1], [1], [1]], np.float32)
    weights = _make(np.arange(4), vectors, np.zeros(1, np.float32))
    self.assertEqual(weights.mean_of(weights.clients)[0], np.float32((2**25 + 3) / 4))


class FileTest(absltest.TestCase):

  def setUp(self):
    super().setUp()
    self._folder = self.create_tempdir().full_path
    self._path = os.path.join(self._folder, "client_weights.npz")

  def test_moved_to_a_file_they_are_the_same(self):
    path = os.path.join(self._folder, "weights.npy")
    moved = _make().moved_to(path)
    self.assertIsInstance(moved.vectors, np.memmap)
    np.testing.assert_array_equal(moved.clients, _CLIENTS)
    np.testing.assert_array_equal(moved.vectors, _VECTORS)
    np.testing.assert_array_equal(moved.global_vector, _GLOBAL)

  def test_other_programs_can_read_the_file(self):
    _make().save(self._path, _IDS)
    with np.load(self._path, allow_pickle=False) as file:
      self.assertCountEqual(file.files, ["client_ids", "vectors", "global_vector"])
      self.assertEqual(file["client_ids"].tolist(), ["a", "é", "f0001_41"])
      np.testing.assert_array_equal(file["vectors"], _VECTORS)
      np.testing.assert_array_equal(file["global_vector"], _GLOBAL)
    self.assertEqual(os.listdir(self._folder), ["client_weights.npz"])

  def test_interrupted_save_keeps_the_earlier_file(self):
    _make().save(self._path, _IDS)
    with open(self._path, "rb") as file:
      before = file.read()

    def interrupted(file, array, **unused_options):
      del array
      file.write(b"half a ")
      raise KeyboardInterrupt

    with mock.patch.object(np.lib.format, "write_array", interrupted):
      with self.assertRaises(KeyboardInterrupt):
        _make().save(self._path, "xyz")
    with open(self._path, "rb") as file:
      self.assertEqual(file.read(), before)
    self.assertEqual(os.listdir(self._folder), ["client_weights.npz"])
