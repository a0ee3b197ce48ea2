"""Tests for the multi-view data sets."""

import os
import re

from absl.testing import absltest
from absl.testing import parameterized
import numpy as np

from experiments.multi_view import comparison
from experiments.multi_view import config as config_lib
from experiments.multi_view import data

_WIDTHS = {"fac": 216, "fou": 76, "kar": 64, "mor": 6, "pix": 240, "zer": 47}


class DigitViewsTest(absltest.TestCase):

  def test_a_leaning_stroke_is_set_upright_in_the_middle(self):
    image = np.zeros((1, 28, 28))
    for row in range(4, 20):
      image[0, row, 3 + row // 2 : 6 + row // 2] = 1.0
    stroke = data.upright(image)[0]
    np.testing.assert_allclose(stroke.sum(), image.sum(), rtol=0.01)
    # Three columns wide, and what lies between two columns.
    self.assertGreater(stroke[:, 11:17].sum(), 0.99 * stroke.sum())
    for places in np.indices(stroke.shape):
      np.testing.assert_allclose((places * stroke).sum() / stroke.sum(), 13.5, atol=0.05)

  def test_an_empty_picture_has_finite_views(self):
    found = data.digit_views(np.zeros((1, 28, 28)))
    widths = {name: view.shape[1] for name, view in found.items()}
    self.assertEqual(
        widths, {"pixels": 196, "fourier": 120, "gradients": 128, "projections": 166}
    )
    for view in found.values():
      np.testing.assert_allclose(view, 0)


class DatasetsTest(parameterized.TestCase):

  def setUp(self):
    super().setUp()
    self.folder = self.create_tempdir().full_path

  def _check_features(self, features):
    self.assertEqual([v.shape[1] for v in features.views.values()], list(_WIDTHS.values()))
    np.testing.assert_array_equal(np.bincount(features.labels), [200] * 10)

  def test_multiple_features(self):
    with self.assertRaisesRegex(ValueError, "`features_dir`.*mfeat-fac"):
      data.load_multiple_features(self.folder)
    for name, width in _WIDTHS.items():
      table = np.column_stack([np.zeros((2000, width)), np.repeat(np.arange(10), 200)])
      header = ",".join(map(str, [*range(width), 0]))
      path = os.path.join(self.folder, f"mfeat-{name}.csv")
      np.savetxt(path, table, "%d", delimiter=",", header=header, comments="")
    self._check_features(data.load_multiple_features(self.folder))
    for shape in ((1, 2), (1999, 48), (2000, 47)):
      np.savetxt(path, np.ones(shape), "%d", delimiter=",", header="0,1", comments="")
      with self.assertRaisesRegex(ValueError, rf"`features_dir`.*zer.csv.*{re.escape(f'{shape}')}"):
        data.load_multiple_features(self.folder)

  def test_other_points_are_described_otherwise(self):
    def described(first):
      views_ = {"x": np.array([[first], [2.0]]), "y": np.eye(2)}
      return data.MultiViewData("few", "two points", views_, np.array([0, 1]), 2).describe()

    self.assertEqual(described(1.0), described(1.0))
    self.assertNotEqual(described(1.0), described(1.5))


class ConfigTest(parameterized.TestCase):

  @parameterized.parameters(
      ("datasets", ("mnist",)), ("num_clients", 0), ("dirichlet_alpha", 0.0),
      ("num_seeds", 0), ("seed", -1), ("alpha", 1.0), ("tol", -1.0),
  )
  def test_refuses(self, name, value):
    with self.assertRaisesRegex(ValueError, f"`{name}`"):
      config_lib.MultiViewStudyConfig(**{name: value})

  def test_the_methods_have_the_settings_and_the_demonstration_as_many_seeds(self):
    settings = {"alpha": 3.0, "n_init": 4, "num_rounds": 7, "tol": 0.125}
    study = config_lib.MultiViewStudyConfig(
        seed=5, num_seeds=3, datasets=(data.DEMONSTRATION,), **settings
    )
    self.assertEqual(study.seeds, range(5, 8))
    self.assertEqual(study.method_settings, settings)
    self.assertLen({cell["seed"] for cell in comparison.cells(study, {})}, 3)
