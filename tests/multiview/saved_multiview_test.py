"""Tests for `load_model.SavedMultiView`: the model that a fit leaves."""

import os
import tempfile

from absl.testing import absltest
import numpy as np
import pandas as pd

from fl_clustering import load_model
from fl_clustering.multiview import fitting
from fl_clustering.multiview import multiview_config
from fl_clustering.points import secure_sums
from fl_clustering.tables import encode
from fl_clustering.tables import saved
from fl_clustering.tables import views
from tests.multiview import sample_views


def _frames(client_id, views):
  frames = [
      pd.DataFrame(view, columns=[f"c{i}" for i in range(view.shape[1])]) for view in views
  ]
  # The rows' ids, and a column that never varies.
  frames[0]["key"] = [f"{client_id}{row}" for row in range(len(views[0]))]
  for frame in frames[1:]:
    frame.insert(0, "key", frames[0]["key"])
  frames[1]["flat"] = 7.5
  return dict(zip("xyz", frames))


class SavedMultiViewTest(absltest.TestCase):

  @classmethod
  def setUpClass(cls):
    super().setUpClass()
    temporary = tempfile.TemporaryDirectory()
    cls.addClassCleanup(temporary.cleanup)
    cls.sites = os.path.join(temporary.name, "sites")
    cls.saved = os.path.join(temporary.name, "model")
    # Close clusters, so that points are near the borders.
    clients, _ = sample_views.sample_views(separation=0.7)
    cls.frames = {client_id: _frames(client_id, views) for client_id, views in clients.items()}
    for client_id, frames in cls.frames.items():
      os.makedirs(os.path.join(cls.sites, client_id))
      for name, frame in frames.items():
        frame.to_csv(os.path.join(cls.sites, client_id, f"{name}.csv"), index=False)
    schemas = views.strict(cls.sites, key="key")
    tables = views.open_folder(cls.sites, schemas)
    kept = saved.SavedViews({
        view: saved.SavedTables(
            schema, encode.Scaling(*np.zeros((2, width)), np.ones(width))
        )
        for view, schema in schemas.items() for width in [len(schema.feature_names)]
    })
    config = multiview_config.MultiViewConfig(3, view_weights="mvkm", n_init=1)
    features = {client_id: kept.features(own) for client_id, own in tables.items()}
    cls.fit = fitting.fit(config, secure_sums.hold(features), kept.widths)
    cls.model = load_model.SavedMultiView(cls.fit.model, kept)
    cls.model.save(cls.saved)
    cls.loaded = load_model.load_model(cls.saved)

  def test_predictions_are_the_clusters_of_the_last_round(self):
    tables = self.loaded.open_folder(self.sites)
    predicted = {
        client_id: found["cluster"] for client_id, _, found in self.loaded.predict_tables(tables)
    }
    self.assertEqual(list(predicted), list("abcd"))
    clusters = np.concatenate(list(predicted.values()))
    np.testing.assert_array_equal(
        np.bincount(clusters, minlength=3), self.fit.history[-1].cluster_sizes
    )
    # Frames, whose columns may be in any order, give the same.
    for client_id, frames in self.frames.items():
      turned = {name: frame[frame.columns[::-1]] for name, frame in frames.items()}
      np.testing.assert_array_equal(self.loaded.predict(turned), predicted[client_id])
      in_order = [frames[name] for name in "xyz"]
      np.testing.assert_array_equal(self.model.predict(in_order), predicted[client_id])

  def test_ids_come_with_the_rows(self):
    clients = self.loaded.open_folder(self.sites)
    names = {client_id: one for client_id, one, _ in self.loaded.predict_tables(clients)}
    self.assertEqual(names["c"]["id"][:2], ["c0", "c1"])
    self.assertEqual(names["c"]["row"][:2], [1, 2])

  def test_the_loaded_model_is_the_saved_one_to_the_last_bit(self):
    for name in ("centers", "view_weights", "rates"):
      np.testing.assert_array_equal(
          getattr(self.loaded.model.on_grid, name), getattr(self.model.model.on_grid, name), name
      )
    self.assertEqual(self.loaded.model.on_grid.alpha, self.model.model.on_grid.alpha)
    np.testing.assert_array_equal(self.loaded.centroids, self.model.centroids)

  def test_centroids_are_in_the_datas_units(self):
    rows = np.concatenate([self.model.tables.features_of_frames(f) for f in self.frames.values()])
    centroids = self.loaded.centroids
    self.assertEqual(centroids.shape, (3, 10))
    self.assertEqual(self.model.tables.feature_names[4:7], ("y: c0", "y: c1", "y: flat"))
    np.testing.assert_allclose(centroids[:, 6], 7.5, rtol=1e-12)
    # Weighted means of rows are between them.
    self.assertTrue(np.all(centroids >= rows.min(axis=0) - 1e-9))
    self.assertTrue(np.all(centroids <= rows.max(axis=0) + 1e-9))
    # One in each of the other columns has the scale of its own view.
    np.testing.assert_allclose(
        np.abs(centroids).mean(axis=0)[[0, 4, 7]], [10, 1000, 0.1], rtol=0.3
    )

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


if __name__ == "__main__":
  absltest.main()
