"""Tests for `load_model.SavedMultiView`: the model that a fit leaves."""

from absl.testing import absltest
import numpy as np
import pandas as pd

from fl_clustering import load_model
from fl_clustering.multiview import fitting
from fl_clustering.multiview import multiview_config
from fl_clustering.points import secure_sums
from fl_clustering.tables import saved
from fl_clustering.tables import schema as schema_lib
from tests.multiview import sample_views


def _frames(views):
  frames = [
      pd.DataFrame(view, columns=[f"c{i}" for i in range(view.shape[1])]) for view in views
  ]
  return {"x": frames[0], "y": frames[1].assign(flat=7.5), "z": frames[2]}


class SavedMultiViewTest(absltest.TestCase):

  @classmethod
  def setUpClass(cls):
    super().setUpClass()
    # Close clusters, so that points are near the borders.
    clients, _ = sample_views.sample_views(separation=0.7)
    cls.frames = {client_id: _frames(views) for client_id, views in clients.items()}
    schemas = {view: schema_lib.strict(tuple(own)) for view, own in cls.frames["a"].items()}
    kept = saved.SavedTables.exact(schemas, np.zeros(10))
    config = multiview_config.MultiViewConfig(3, view_weights="mvkm", n_init=1, alpha=3.0)
    features = {client_id: kept.features_of_frames(own) for client_id, own in cls.frames.items()}
    cls.rows = np.concatenate(list(features.values()))
    cls.fit = fitting.fit(config, secure_sums.hold(features), kept.widths)
    cls.model = load_model.SavedMultiView.of_fit(cls.fit, kept)

  def setUp(self):
    super().setUp()
    folder = self.create_tempdir().full_path
    self.model.save(folder)
    self.loaded = load_model.load_model(folder)

  def test_predictions_are_the_clusters_of_the_last_round(self):
    clusters = np.concatenate([self.loaded.predict(frames) for frames in self.frames.values()])
    np.testing.assert_array_equal(
        np.bincount(clusters, minlength=3), self.fit.history[-1].cluster_sizes
    )
    # Columns may be in any order, and views in that of their names.
    frames = self.frames["a"]
    for same in ({name: frame[frame.columns[::-1]] for name, frame in frames.items()},
                 [*frames.values()]):
      np.testing.assert_array_equal(self.loaded.predict(same), clusters[:40])

  def test_the_loaded_model_is_the_saved_one_to_the_last_bit(self):
    for name in ("centers", "view_weights", "rates", "alpha"):
      np.testing.assert_array_equal(
          getattr(self.loaded.model.on_grid, name), getattr(self.model.model.on_grid, name), name
      )
    np.testing.assert_array_equal(self.loaded.centroids, self.model.centroids)

  def test_centroids_are_in_the_datas_units(self):
    centroids = self.loaded.centroids
    self.assertEqual(centroids.shape, (3, 10))
    self.assertEqual(self.loaded.tables.feature_names[4:7], ("y: c0", "y: c1", "y: flat"))
    np.testing.assert_allclose(centroids[:, 6], 7.5, rtol=1e-12)
    # Weighted means of rows are between them.
    self.assertTrue(np.all(centroids >= self.rows.min(axis=0) - 1e-9))
    self.assertTrue(np.all(centroids <= self.rows.max(axis=0) + 1e-9))

  def test_frames_that_do_not_fit_are_refused_and_none_has_no_clusters(self):
    frames = self.frames["a"]
    none = {name: frame[:0] for name, frame in frames.items()}
    self.assertEqual(self.loaded.predict(none).shape, (0,))
    for wrong, name in (
        ({**frames, "x": pd.DataFrame({"c1": [1.0]})}, "'c0'"), ([frames["x"]], "frames"),
        ({"x": frames["x"]}, "frames"), ({**frames, "x": frames["x"][:2]}, "frames"),
    ):
      with self.assertRaisesRegex(ValueError, name):
        self.loaded.predict(wrong)
