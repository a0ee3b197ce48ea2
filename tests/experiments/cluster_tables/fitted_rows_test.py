import csv
import os
import types

from absl.testing import parameterized
import numpy as np
import pandas as pd

from experiments.cluster_tables import fitted_rows

# Rows of two columns, and their clusters; the model has a third one, without rows.
_FEATURES = {"a": np.array([[1.0, 2.0], [3.0, 6.0]]), "b": np.zeros((0, 2)), "c": np.ones((1, 2))}
_LABELS = {"a": ["ill", "well"], "b": [], "c": ["ill"]}
_CLUSTERS = {"a": [1, 1], "b": [], "c": [0]}


class _Model:
  """As a `load_model.SavedModel`."""

  centroids = np.array([[5.0, 5.0], [6.0, 6.0], [7.0, 7.0]])
  noise = None

  def __init__(self, has_views):
    self.tables = types.SimpleNamespace(feature_names=("u", "v"), has_views=has_views)

  def predict_tables(self, clients):
    for client_id in clients:
      found = np.array(_CLUSTERS[client_id], int)
      rows = [place + 1 for place in range(len(found))]
      names = {"row": rows, "id": [f"{client_id}{row}" for row in rows]}
      yield client_id, names, {"cluster": found}

  def save(self, directory):
    os.mkdir(directory)


class FittedRowsTest(parameterized.TestCase):

  def setUp(self):
    super().setUp()
    self.folder = self.create_tempdir().full_path

  def _write(self, has_views=False, has_labels=True):
    fitted_rows.write(self.folder, _Model(has_views), {
        client_id: types.SimpleNamespace(
            features=features, labels=np.array(_LABELS[client_id]) if has_labels else None
        ) for client_id, features in _FEATURES.items()
    })

  def _rows(self, name):
    with open(os.path.join(self.folder, name), encoding="utf-8", newline="") as file:
      return list(csv.reader(file))

  def test_every_row_and_client_is_counted(self):
    self._write()

    self.assertEqual(self._rows("clusters.csv"), [
        ["client", "row", "id", "cluster"], ["a", "1", "a1", "1"], ["a", "2", "a2", "1"],
        ["c", "1", "c1", "0"],
    ])
    sizes = pd.read_csv(os.path.join(self.folder, "cluster_sizes.csv"))
    table = sizes.pivot(index="client", columns="cluster", values="rows")
    self.assertEqual(table.to_numpy().tolist(), [[0, 2, 0], [0, 0, 0], [1, 0, 0]])
    self.assertIn(["1", "2", "v", "4.0", "2.0"], [row[:5] for row in self._rows("profiles.csv")])
    self.assertTrue(os.path.isdir(os.path.join(self.folder, "model")))
    classes = pd.read_csv(os.path.join(self.folder, "classes.csv"))
    self.assertEqual(classes["class"].unique().tolist(), ["ill", "well"])
    self.assertEqual(classes["rows"].tolist(), [1, 1, 0, 0, 1, 0])

  @parameterized.parameters(
      (True, [["0", "1", "5.0", "5.0"], ["1", "2", "6.0", "6.0"]]),
      (False, [["0", "1", "1.0", "1.0"], ["1", "2", "2.0", "4.0"]]),
  )
  def test_centroids_are_means_but_of_views_and_of_empty_clusters(self, has_views, expected):
    self._write(has_views, has_labels=False)
    self.assertFalse(os.path.exists(os.path.join(self.folder, "classes.csv")))

    self.assertEqual(self._rows("centroids.csv"), [
        ["cluster", "num_points", "u", "v"], *expected, ["2", "0", "7.0", "7.0"],
    ])
