import gzip
import os
import re
import types
from unittest import mock
import urllib.error

from absl.testing import absltest
from absl.testing import parameterized
import numpy as np
from sklearn import datasets
from sklearn import neural_network

from experiments.dp_benchmark import data
from fl_clustering.tasks import examples
from tests import drawn_seeds
from tests import nightly


class CenteredAndScaledTest(absltest.TestCase):

  def test_mean_is_zero_the_farthest_point_on_the_sphere_and_shapes_are_kept(self):
    points = np.random.default_rng(0).normal(5, 3, (200, 7))
    scaled = data.centered_and_scaled(points)
    np.testing.assert_allclose(scaled.mean(axis=0), 0, atol=1e-12)
    norms = np.linalg.norm(scaled, axis=1)
    self.assertLessEqual(norms.max(), data.RADIUS)
    self.assertAlmostEqual(norms.max(), data.RADIUS, places=9)
    before, after = (np.linalg.norm(one - one[0], axis=1)[1:] for one in (points, scaled))
    np.testing.assert_allclose(after / before, after[0] / before[0])


class DatasetsTest(parameterized.TestCase):

  def _load(self, name, seed=0, data_dir=None):
    dataset = data.DATASETS[name](seed, data_dir)
    self.assertEqual(dataset.name, name)
    self.assertEqual(dataset.points.dtype, np.float64)
    return dataset

  def test_synthetic_is_the_mixture_of_the_source_and_follows_the_seed(self):
    dataset = self._load("synthetic")
    self.assertEqual(dataset.points.shape, (100_000, 100))
    # 64 clusters of as many neighbours, with 0.0125 in each of 100 coordinates.
    first = dataset.points[: 100_000 // 64]
    self.assertAlmostEqual(first.std(axis=0).mean(), 0.0125, delta=0.0002)
    centers = dataset.points[: 64 * 1562].reshape(64, 1562, 100).mean(axis=1)
    norms = np.linalg.norm(centers, axis=1)
    # In 100 dimensions nearly all of a ball is near its surface.
    self.assertBetween(norms.max(), 0.86, 0.876)
    self.assertGreater(norms.min(), 0.7)
    found, again, other = (
        self._load("synthetic", seed).describe()["sha256"] for seed in (3, 3, 4)
    )
    self.assertEqual(found, again)
    self.assertNotEqual(found, other)

  @nightly.only  # By day, the data beside it follow the seed.
  def test_the_network_of_the_embeddings_learns_and_only_the_seed_changes_it(self):
    first, again, other = (self._load("digits_embeddings", seed) for seed in (0, 0, 1))

    self.assertGreater(float(re.search(r"tells (.*)% of", first.source)[1]), 90)
    self.assertEqual(first.points.shape, (5000, 40))
    np.testing.assert_array_equal(again.points, first.points)
    self.assertFalse(np.array_equal(other.points, first.points))

  def test_the_network_of_the_embeddings_starts_by_the_seed(self):
    blank = examples.Examples(np.zeros((5, 2, 2, 1), np.uint8), np.zeros(5, np.uint8))
    images = examples.ImagePool("blank", "made up", blank, blank, "made up", 1)
    with (
        mock.patch.object(data.digits, "load", return_value=images),
        mock.patch.object(neural_network, "MLPClassifier", side_effect=RuntimeError) as network,
        self.assertRaises(RuntimeError),
    ):
      data.DATASETS["digits_embeddings"](7, None)
    self.assertEqual(network.call_args.kwargs["random_state"], 7)

  @parameterized.parameters(
      ("sklearn_digits", (1797, 64)), ("photo_colors", (68_480, 3)),
      ("photo_patches", (16_960, 48)), ("ecg_windows", (3_000, 36)), ("terrain", (34_744, 3)),
      ("breast_cancer", (569, 30)), ("diabetes", (442, 10)),
  )
  def test_bundled_data(self, name, shape):
    dataset = self._load(name)
    self.assertEqual(dataset.points.shape, shape)
    self.assertEqual(dataset.describe()["is_new"], name in data.NEW)
    self.assertNotIn(name, set(data.KNOWN) & set(data.NEW))
    self.assertAlmostEqual(np.linalg.norm(dataset.points, axis=1).max(), 1, places=9)
    np.testing.assert_allclose(dataset.points.mean(axis=0), 0, atol=1e-12)

  def test_mixtures_have_clients_and_an_optimum(self):
    with drawn_seeds.recorded() as seeds:
      dataset = self._load("mixture_2000_clients", seed=3)
    self.assertEqual(seeds, {3})
    described = dataset.describe()
    self.assertEqual(dataset.points.shape, (100_000, 100))
    self.assertEqual((described["num_clients"], described["unit_points"]), (2000, 50))
    self.assertEqual([*map(len, dataset.clients().values())], [50] * 2000)
    # 100 coordinates of variance one half, in units of the radius 11; the best centers
    # follow 10 x 100 of the 10 million numbers.
    self.assertAlmostEqual(dataset.optimum["loss"], 50 / 121, delta=0.002)
    self.assertLess((np.linalg.norm(dataset.points, axis=1) > 1).mean(), 0.002)


_NAME = "letter-recognition.data"
_LETTER_LINES = "T,2,8,3,5,1,8,13,0,6,6,10,8,0,8,0,8\nI,5,12,3,7,2,10,5,5,4,13,3,9,2,8,4,10\n"


class LetterTest(parameterized.TestCase):

  def setUp(self):
    super().setUp()
    self.folder = self.create_tempdir().full_path
    self.fetch = self.enter_context(mock.patch.object(
        datasets, "fetch_openml", side_effect=urllib.error.URLError("no network")
    ))

  def _write(self, name, text):
    open_file = gzip.open if name.endswith(".gz") else open
    with open_file(os.path.join(self.folder, name), "wt") as file:
      file.write(text)

  @parameterized.parameters(_NAME, f"{_NAME}.gz")
  def test_reads_the_numbers_and_not_the_letter(self, name):
    self._write(name, _LETTER_LINES)
    points, source = data.load_letter(self.folder)
    self.assertEqual(points.shape, (2, 16))
    self.assertEqual(points[0].tolist(), [2, 8, 3, 5, 1, 8, 13, 0, 6, 6, 10, 8, 0, 8, 0, 8])
    self.assertIn(name, source)
    self.fetch.assert_not_called()

  @parameterized.parameters("T,2,8\n", "T" + ",x" * 16 + "\n", "archive", "device")
  def test_a_damaged_file_is_an_error(self, text):
    name = f"{_NAME}.gz" if text == "archive" else _NAME
    path = os.path.join(self.folder, name)
    if text == "device":
      os.symlink(os.devnull, path)
    else:
      with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    with self.assertRaisesRegex(ValueError, f"`data_dir` .*{name}"):
      data.load_letter(self.folder)

  def test_refuses_what_is_not_to_be_had(self):
    with self.assertRaisesRegex(data.Unavailable, "`datasets` .*letter.*no network"):
      data.load_letter(self.folder)

  def test_takes_of_openml_only_what_has_the_shape(self):
    self.fetch.side_effect = None
    self.fetch.return_value = types.SimpleNamespace(data=np.ones((20_000, 16)))
    points, source = data.load_letter(self.folder)
    self.assertEqual(points.shape, (20_000, 16))
    self.assertIn("OpenML", source)
    self.fetch.return_value.data = np.ones((100, 17))
    with self.assertRaisesRegex(data.Unavailable, r"\(100, 17\)"):
      data.load_letter(None)
