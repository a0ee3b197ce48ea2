"""Tests of which method's models are saved, and of who gets which of them."""

import dataclasses
import importlib.util
import math
import os
import types
from unittest import mock

from absl.testing import absltest
from absl.testing import parameterized
import jax.numpy as jnp
import numpy as np
import pandas as pd
from scipy import special

from fl_clustering import saved_clusters
from fl_clustering import load_model
from fl_clustering.engine import engines
from fl_clustering.methods import cluster_assignment
from fl_clustering.tables import bad_table
from fl_clustering.tables import read
from fl_clustering.tables import schema as schema_lib
from fl_clustering.tasks import models
from fl_clustering.tasks import networks
from fl_clustering.tasks import own_model
from fl_clustering.tasks import registry


def _confusions(*num_right):
  """Returns confusion matrices of clients with so many right answers of ten."""
  return np.array([[[right, 10 - right], [0, 0]] for right in num_right])


def _method(clients, validation=None):
  return types.SimpleNamespace(
      clients=_confusions(*clients),
      validation=None if validation is None else _confusions(*validation),
  )


class MostAccurateTest(absltest.TestCase):

  def _chosen(self, methods=("kmeans", "ifca"), **found):
    return saved_clusters.most_accurate(
        types.SimpleNamespace(methods=methods),
        types.SimpleNamespace(methods=found),
    )

  def test_validation_rows_decide_where_there_are_any(self):
    # Only one of the clients has such rows.
    found = {"kmeans": _method((9, 9), (5,)), "ifca": _method((6, 6), (7,))}
    self.assertEqual(self._chosen(**found), "ifca")

  def test_test_rows_decide_where_there_are_none(self):
    self.assertEqual(self._chosen(kmeans=_method((9, 5)), ifca=_method((6, 7))), "kmeans")

  def test_controls_are_not_chosen_but_where_no_method_is(self):
    found = {"kmeans": _method((5,)), "fedavg": _method((9,)), "local": _method((10,))}
    self.assertEqual(self._chosen(methods=("kmeans",), **found), "kmeans")
    self.assertEqual(self._chosen(methods=(), **found), "fedavg")


class SavedClustersTest(parameterized.TestCase):

  def setUp(self):
    super().setUp()
    self._folder = self.create_tempdir()
    for client_id in "abc":
      rows = "".join(f"{i},{'yes' if i % 3 else 'no'}\n" for i in range(20))
      self._folder.create_file(f"{client_id}.csv", f"dose,sick\n{rows}")
    self._task = registry.load_task(registry.TaskOptions(
        dataset="files", model="logistic",
        schema=schema_lib.strict(("dose", "sick"), label="sick"),
    ), self._folder.full_path)

  def _saved(self, task, vectors):
    """Returns what is saved of the clusters of a and of b and c."""
    found = types.SimpleNamespace(
        assignment=cluster_assignment.ClusterAssignment(([0], [1, 2])),
        vectors=vectors, new_client_clusters=None,
    )
    result = types.SimpleNamespace(methods={"kmeans": found})
    return saved_clusters.of_result("kmeans", result, task, {})

  def test_a_new_client_chooses_by_the_loss(self):
    # One model says `no` of all, the other `yes`.
    vectors = np.zeros((2, self._task.num_parameters), np.float32)
    vectors[:, -2:] = [[2, 0], [0, 2]]
    saved = self._saved(self._task, vectors)
    path = self.create_tempdir().full_path
    saved.save(os.path.join(path, "model"))
    loaded = load_model.load_model(os.path.join(path, "model"))
    for num_yes, expected in ((6, "1"), (4, "0")):
      rows = "".join(f"{i},{'yes' if i < num_yes else 'no'}\n" for i in range(10))
      folder = self.create_tempdir()
      folder.create_file("new.csv", f"dose,sick\n{rows}")
      for one in (saved, loaded):
        ((_, _, columns),) = one.predict_tables(one.tables.open_folder(folder.full_path))
        self.assertEqual(set(columns["cluster"]), {expected})

  def test_clients_of_whose_rows_some_have_labels(self):
    vectors = np.zeros((2, self._task.num_parameters), np.float32)
    vectors[:, -2:] = [[2, 0], [0, 2]]
    saved = dataclasses.replace(
        self._saved(self._task, vectors), global_vector=np.ones_like(vectors[0])
    )
    folder = self.create_tempdir()
    for name, labels in {
        "a": ["", "yes"], "new": ["yes", ""], "some": ["", "", "", "no", "no"], "none": ["", ""],
        "B": [""],
    }.items():
      rows = "".join(f"{dose},{label}\n" for dose, label in enumerate(labels))
      folder.create_file(f"{name}.csv", f"dose,sick\n{rows}")
    clients = saved.tables.open_folder(folder.full_path)
    with mock.patch.object(read, "_opened", side_effect=AssertionError):  # All was read.
      placed, notes = saved.place_others(clients)
      found = {name: columns["cluster"] for name, _, columns in placed.predict_tables(clients)}
    self.assertEqual(found, {
        "a": ["0"] * 2, "new": ["1"] * 2, "some": ["0"] * 5, "none": ["global"] * 2,
        "B": ["global"],
    })
    with_labels, without = notes
    self.assertIn("new, some: ", with_labels)
    self.assertIn("B, none: ", without)
    folder.create_file("a.csv", "dose,sick\n1,well\n")
    with self.assertRaises(bad_table.BadTable) as caught:
      saved.tables.open_folder(folder.full_path)
    self.assertEqual((caught.exception.line, caught.exception.column), (2, "sick"))
    with self.assertRaisesRegex(ValueError, "`client_id`.*'new'"):
      saved.predict(pd.DataFrame({"dose": [1]}), "new")

  @parameterized.parameters(("a", "new"), ("new", "a"))
  def test_labels_are_dropped_where_no_file_has_them_alone(self, without, having):
    saved = self._saved(self._task, np.zeros((2, self._task.num_parameters), np.float32))
    folder = self.create_tempdir()
    folder.create_file(f"{without}.csv", "dose\n1\n")
    saved.tables.open_folder(folder.full_path)
    folder.create_file(f"{having}.csv", "dose,sick\n1,yes\n")
    with self.assertRaisesRegex(bad_table.BadTable, f"{without}.csv"):
      saved.tables.open_folder(folder.full_path)

  def test_the_nearest_means_are_scaled_as_the_rows(self):
    vectors = np.zeros((3, self._task.num_parameters), np.float32)
    means = self._task.tables.scaling.apply(np.array([[1.0], [math.nan], [19.0]]))
    saved = dataclasses.replace(self._saved(self._task, vectors), means=means)
    path = self.create_tempdir().full_path
    saved.save(path)
    self.assertIsNone(self._saved(self._task, vectors).means)
    folder = self.create_tempdir()
    folder.create_file("new.csv", "dose,sick\n16,\n18,\n")
    clients = saved.tables.open_folder(folder.full_path)
    for one in (saved, load_model.load_model(path)):
      placed, _ = one.place_others(clients, "profile")
      self.assertEqual(placed.clusters["new"], (2,))

  def test_outputs_that_are_not_finite_are_refused(self):
    saved = self._saved(self._task, np.ones((2, self._task.num_parameters), np.float32))
    self.assertEqual(saved.predict(pd.DataFrame({"dose": [1.0]})[:0], "a").shape, (0, 2))
    with self.assertRaisesRegex(ValueError, "^`frame`.* row 2"):
      saved.predict(pd.DataFrame({"dose": [1, 1e99]}), "a")
    folder = self.create_tempdir()
    folder.create_file("a.csv", "dose,sick\n1,no\n2,yes\n1e99,no\n")
    with self.assertRaisesRegex(ValueError, "^`data_dir`.*'a'.* row 3"):
      list(saved.predict_tables(saved.tables.open_folder(folder.full_path)))

  def test_images(self):
    folder, rng = self.create_tempdir().full_path, np.random.default_rng(0)
    x = rng.normal(size=(20, 8, 6))
    for client_id in "abc":
      np.savez(os.path.join(folder, f"{client_id}.npz"), x=x, y=np.arange(20) % 2)
    task = registry.load_task(registry.TaskOptions(
        dataset="files", model="cnn",
        schema=schema_lib.strict(read.header(os.path.join(folder, "a.npz")), label="y"),
    ), folder)
    parameters = task.model.initial_parameters(rng)
    vector = np.concatenate([one.ravel() for one in parameters])
    path = os.path.join(self.create_tempdir().full_path, "model")
    self._saved(task, np.stack([vector, 0 * vector])).save(path)
    later = self.create_tempdir().full_path
    np.savez(os.path.join(later, "a.npz"), x=x[:5])
    saved = load_model.load_model(path)
    scaling = task.tables.scaling
    scaled = (x[:5].reshape(5, 48) - scaling.shift) * scaling.factor
    logits = saved_clusters._logits(
        task.model, vector, scaled.astype(np.float32).reshape(5, 8, 6, 1)
    )
    expected = special.softmax(logits, axis=1).max(axis=1)
    for engine in filter(engines.is_installed, engines.ENGINES):
      with mock.patch.object(engines, "usual", return_value=engine):
        ((_, names, columns),) = saved.predict_tables(saved.tables.open_folder(later))
      self.assertEqual(names, {"row": [1, 2, 3, 4, 5]})
      np.testing.assert_allclose(np.array(columns["probability"], float), expected, atol=1e-6)
    with (
        mock.patch.object(importlib.util, "find_spec", return_value=None),
        self.assertRaisesRegex(ValueError, "^`engine`"),
    ):
      list(saved.predict_tables(saved.tables.open_folder(later)))
    np.savez(os.path.join(later, "a.npz"), x=np.ones((5, 9, 6)))
    with self.assertRaisesRegex(bad_table.BadTable, "a.npz"):
      saved.tables.open_folder(later)

  def test_a_model_of_ones_own_in_jax_is_a_row(self):

    class Own(networks.Logistic):

      def __call__(self, input_shape, num_classes, input_dtype):
        return own_model.jax_model(
            lambda key: {"b": jnp.zeros(num_classes), "w": jnp.zeros((*input_shape, num_classes))},
            # With a -1 as many flatten, which fails of no rows.
            lambda parameters, x, key: x.reshape(len(x), -1) @ parameters["w"] + parameters["b"],
            input_shape,
            name="own",
        )

    self.enter_context(mock.patch.dict(models.MODELS, {"own": Own}))
    task = dataclasses.replace(self._task, model=models.build("own", (1,), 2, "float32"))
    vectors = np.array([[1, 2, 3, 4], [0, 0, 0, 0]], np.float32)
    path = os.path.join(self.create_tempdir().full_path, "model")
    self._saved(task, vectors).save(path)
    frame = pd.DataFrame({"dose": [1.0, 15.0]})
    scaled = (frame.to_numpy() - task.tables.scaling.shift) * task.tables.scaling.factor
    np.testing.assert_allclose(
        load_model.load_model(path).predict(frame, "a"),
        special.softmax([1, 2] + scaled * [3, 4], axis=1), rtol=1e-5,
    )
    self.assertEqual(load_model.load_model(path).predict(frame[:0], "a").shape, (0, 2))

  def test_a_client_in_several_clusters_gets_the_mean_of_their_models(self):
    task = self._task
    vectors = np.random.default_rng(0).normal(size=(3, task.num_parameters)).astype(np.float32)
    saved = saved_clusters.SavedClusters(
        "dynamic_distance", vectors, {"a": (0,), "b": (1,), "c": (0, 2)}, task.tables,
        {"name": "logistic"},
    )
    mean = dataclasses.replace(
        saved, vectors=vectors[[0, 2]].mean(axis=0, keepdims=True), clusters={"c": (0,)}
    )
    frame = pd.DataFrame({"dose": [1.0, 15.0]})
    np.testing.assert_allclose(saved.predict(frame, "c"), mean.predict(frame, "c"), rtol=1e-5)
