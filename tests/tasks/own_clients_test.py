import collections

from absl.testing import absltest
from absl.testing import parameterized
import numpy as np
import pandas as pd
import tensorflow as tf
import tensorflow_federated as tff

from fl_clustering.tasks import keras_model
from fl_clustering.tasks import models
from fl_clustering.tasks import own_clients

_layers = tf.keras.layers


def _table(start, num_examples):
  """Returns rows whose first column is a number of their own, and labels."""
  numbers = np.arange(start, start + num_examples)
  return np.stack([numbers, numbers % 7, -numbers], axis=1) / 2, numbers % 3


_CLIENTS = {"b": _table(0, 10), "a": _table(100, 25), 7: _table(200, 2)}
_ONES = np.ones((2, 2))
_FRAME = pd.DataFrame(np.arange(24.0).reshape(8, 3), columns=[2019, 2020, 2021])
_OTHER_FRAME = _FRAME[[2020, 2019, 2021]]
_LABELS = np.arange(8) % 2


def _task(clients=None, model="mlp", **arguments):
  return own_clients.task_from_arrays(clients or _CLIENTS, model, **arguments)


def _rows(examples):
  return examples.features[:, 0].tolist()


class TaskFromArraysTest(parameterized.TestCase):

  def test_every_row_is_in_training_or_in_test(self):
    task = _task(validation_share=0)
    self.assertEqual(task.client_ids, ("b", "a", "7"))
    for client, (x, y) in zip(task.clients, _CLIENTS.values()):
      self.assertCountEqual(_rows(client.train) + _rows(client.test), x[:, 0].tolist())
      for examples in (client.train, client.test):
        self.assertEqual(examples.features.dtype, np.float32)
        label_of = dict(zip(x[:, 0], y))
        self.assertEqual(examples.labels.tolist(), [label_of[row] for row in _rows(examples)])
    self.assertEqual([len(client.test) for client in task.clients], [2, 5, 1])
    self.assertEqual((task.num_classes, task.model.name, task.partition), (3, "mlp", "natural"))
    self.assertEqual(
        _rows(task.global_test), [row for client in task.clients for row in _rows(client.test)]
    )
    # Some of those for training are for validation.
    for client, before in zip(_task().clients, task.clients):
      held = [] if client.validation is None else _rows(client.validation)
      self.assertCountEqual(_rows(client.train) + held, _rows(before.train))
      self.assertLen(held, round(0.1 * len(before.train)) if len(before.train) >= 20 else 0)

  def test_the_split_follows_from_the_seed_and_the_id(self):
    def split(seed, clients=None):
      return [_rows(client.test) for client in _task(clients, seed=seed).clients]

    self.assertEqual(split(1), split(1))
    self.assertNotEqual(split(2), split(1))
    self.assertEqual(split(1, dict(reversed(_CLIENTS.items()))), split(1)[::-1])

  @parameterized.parameters((0.01, [1, 1, 1]), (0.5, [5, 12, 1]), (0.99, [9, 24, 1]))
  def test_each_part_has_one_row_at_least(self, test_share, sizes):
    task = _task(test_share=test_share)
    self.assertEqual([len(client.test) for client in task.clients], sizes)

  def test_a_split_of_the_users_own(self):
    clients = {"a": (_table(0, 4), _table(10, 3)), "b": _table(20, 6)}
    task = _task(clients, global_test=_table(90, 5))
    self.assertEqual(_rows(task.clients[0].train), [0, 0.5, 1, 1.5])
    self.assertEqual(_rows(task.clients[0].test), [5, 5.5, 6])
    self.assertEqual(_rows(task.global_test), [45, 45.5, 46, 46.5, 47])
    # What is held out of the given training data depends on the seed.
    clients = {"a": (_table(0, 60), _table(70, 3))}
    held = [_rows(_task(clients, seed=seed).clients[0].validation) for seed in (0, 1, 1)]
    self.assertNotEqual(held[0], held[1])
    self.assertEqual(held[1], held[2])

  def test_names_and_groups(self):
    names = ("no", "yes", "maybe", "never")
    task = _task(class_names=names, groups={"a": 1, "b": 0, 7: 1}, hidden_units="4")
    self.assertEqual((task.num_classes, task.class_names), (4, names))
    self.assertEqual(dict(zip(task.client_ids, task.true_groups)), {"b": 0, "a": 1, "7": 1})
    self.assertEqual(task.num_parameters, 3 * 4 + 4 + 4 * 4 + 4)

  def test_types_of_features(self):
    images = {"a": (np.full((3, 10, 10, 1), 255, np.uint8), np.array([0, 1, 0], np.int8))}
    self.assertEqual(_task(images, "cnn_small").model.input_dtype, "uint8")
    for pixels in (np.full((3, 10, 10, 1), 0.5), np.full((3, 10, 10, 1), 7)):
      with self.assertRaisesRegex(TypeError, "^`x`.*'b'.*'a'"):  # 0 to 255 beside other numbers.
        _task({**images, "b": (pixels, np.array([0, 1, 0]))}, "cnn_small")
    nothing = np.zeros((0, 10, 10, 1)), np.zeros(0, int)
    several = {**{name: images["a"] for name in "abcd"}, "e": nothing}
    task = _task(several, "cnn_small")
    self.assertEqual((task.model.input_dtype, task.client_ids), ("uint8", tuple("abcd")))
    model = models.build("cnn_small", (10, 10, 1), 3)
    floats = {"a": (np.full((3, 10, 10, 1), 0.5), np.arange(3))}
    self.assertEqual(_task(floats, model).model.input_dtype, "float32")
    self.assertEqual(model.input_dtype, "uint8")  # It can serve several tasks.
    task = _task({"a": (np.full((3, 4), 7, np.uint8), np.arange(3))})
    self.assertEqual(task.model.input_dtype, "float32")
    self.assertEqual(task.clients[0].train.features.max(), 7)
    mixed = {"a": (np.ones((3, 4), int), np.arange(3)), "b": (np.ones((3, 4)) / 2, np.arange(3))}
    self.assertEqual(_task(mixed).model.input_dtype, "float32")

  @parameterized.parameters(["u8"], ["u1", "u8", "i4"])
  def test_labels_of_any_type_of_integer(self, *types):
    expected = [[label % 2 for label in range(4)] for _ in types]
    task = _task(
        {i: (np.eye(4), np.array(one, kind)) for i, (one, kind) in enumerate(zip(expected, types))}
    )
    found = [[*client.train.labels, *client.test.labels] for client in task.clients]
    self.assertEqual([sorted(one) for one in found], [sorted(one) for one in expected])
    self.assertEqual(task.clients.train.pool.labels.dtype, np.int64)

  def test_a_model_of_the_users_own_says_what_it_takes(self):
    tokens = keras_model.keras_model(lambda: tf.keras.Sequential([
        _layers.Input((4,), dtype=tf.int32), _layers.Embedding(9, 3), _layers.Flatten(),
        _layers.Dense(5),
    ]))
    task = _task({"a": (np.full((3, 4), 8, np.int64), np.arange(3))}, tokens)
    self.assertEqual((task.model.input_dtype, task.num_classes), ("int32", 5))
    self.assertEqual(task.clients[0].train.features.dtype, np.int32)
    images = keras_model.keras_model(lambda: tf.keras.Sequential([
        _layers.Input((4, 4, 1)), _layers.Flatten(), _layers.Dense(5),
    ]))
    task = _task({"a": (np.full((3, 4, 4, 1), 8, np.uint8), np.arange(3))}, images)
    self.assertEqual(task.model.input_dtype, "uint8")
    for name, error, x, options in (
        ("x", TypeError, np.ones((3, 4)), {}), ("x", ValueError, np.full((3, 4), 2**32), {}),
        ("train", ValueError, np.ones((3, 3), int), {}),
        ("hidden_units", ValueError, np.ones((3, 4), int), {"hidden_units": "3"}),
    ):
      with self.assertRaisesRegex(error, f"`{name}`"):
        _task({"a": (x, np.arange(3))}, tokens, **options)

  def test_clients_too_small_are_left_out_with_a_warning(self):
    clients = {**_CLIENTS, "one": _table(300, 1), "d": _table(400, 5)}
    with self.assertLogs(level="WARNING") as logs:
      task = _task(clients)
    self.assertEqual(task.client_ids, ("b", "a", "7", "d"))
    self.assertIn("(one)", task.warnings[0])
    self.assertIn(task.warnings[0], logs.output[0])
    clients["no test"] = (_table(500, 5), _table(600, 0))
    with self.assertRaisesRegex(ValueError, "`clients`"):
      _task(clients)

  @parameterized.parameters(
      ("clients", ValueError, {}), ("clients", ValueError, {"1": _table(0, 4), 1: _table(9, 4)}),
      ("'a'", ValueError, {"a": _ONES}), ("`y`.*'a'", ValueError, {"a": (np.ones((3, 2)), [0, 1])}),
      ("`y`", ValueError, {"a": (np.ones(3), [0, 1, 1])}),
      ("`x`.*'a'", TypeError, {"a": (np.array([["x"]] * 3), [0, 1, 1])}),
      ("`y`", TypeError, {"a": (_ONES, ["x", "y"])}),
      ("`y`", TypeError, {"a": (_ONES, [0.5, 1.5])}),
      ("`labels`.*'a'", ValueError, {"a": (_ONES, [0, -1])}),
      ("`features`.*'a'", ValueError, {"a": (_ONES * np.nan, [0, 1])}),
      ("`features`.*'a'", ValueError, {"a": (_ONES * 1e39, [0, 1])}),
      ("`x`.*'b'", ValueError, {"a": _table(0, 4), "b": (np.ones((4, 2)), [0, 1, 0, 1])}),
      # Columns in another order, or without names.
      ("`x`.*'b'", ValueError, {"a": (_FRAME, _LABELS), "b": (_OTHER_FRAME, _LABELS)}),
      ("`x`.*'b'", ValueError, {"a": (_FRAME, _LABELS), "b": (_FRAME.to_numpy(), _LABELS)}),
      ("`x`.*'a'", ValueError, {"a": ((_FRAME, _LABELS), (_OTHER_FRAME, _LABELS))}),
  )
  def test_refuses_clients(self, where, error, clients):
    with self.assertRaisesRegex(error, where):
      own_clients.task_from_arrays(clients, "mlp")

  @parameterized.parameters(
      ("validation_share", {"validation_share": -0.1}), ("test_share", {"test_share": 1}),
      ("model", {"model": "forest"}), ("model", {"model": "cnn"}), ("units", {"units": 3}),
      ("num_classes", {"num_classes": 2}), ("groups", {"groups": {"a": 1, "b": 0, 7: 1, "c": 1}}),
      *(("group", {"groups": {"a": 1, "b": group, 7: 1}})
        for group in (-1, 0.5, float("nan"), "north")),
      ("x", {"clients": {"a": (_FRAME, _LABELS)}, "global_test": (_OTHER_FRAME, _LABELS)}),
  )
  def test_refuses_arguments(self, name, arguments):
    with self.assertRaisesRegex((ValueError, TypeError), f"`{name}`|{name}="):
      _task(**arguments)

  def test_frames_have_the_same_columns_in_the_same_order(self):
    task = _task({"a": (_FRAME, _LABELS)}, global_test=(_FRAME, _LABELS))
    np.testing.assert_array_equal(task.global_test.features, _FRAME)


class TaskFromClientDataTest(absltest.TestCase):

  def test_is_the_task_of_the_arrays(self):
    clients = {client_id: _CLIENTS[client_id] for client_id in "ab"}
    dicts = tff.simulation.datasets.TestClientData({
        client_id: collections.OrderedDict(x=x, y=y, note=np.array(["?"] * len(y)))
        for client_id, (x, y) in clients.items()
    })
    pairs = dicts.preprocess(lambda dataset: dataset.map(lambda one: (one["x"], one["y"])))
    triples = dicts.preprocess(lambda dataset: dataset.map(lambda one: (one["x"],)))
    nobody = dicts.preprocess(lambda dataset: dataset.take(0))
    with self.assertRaisesRegex(ValueError, "2 of 2"):  # And not of another shape.
      own_clients.task_from_client_data(nobody, "mlp", features_key="x", label_key="y")
    for data, keys in ((dicts, {"features_key": "x", "label_key": "y"}), (pairs, {})):
      task = own_clients.task_from_client_data(data, "mlp", **keys)
      self.assertEqual(task.fingerprint(), _task(clients).fingerprint())
    for name, data, keys in (
        ("label_key", pairs, {"label_key": "y"}), ("label_key", dicts, {"features_key": "x"}),
        ("client_data", triples, {}),
    ):
      with self.assertRaisesRegex(ValueError, f"`{name}`"):
        own_clients.task_from_client_data(data, "mlp", **keys)
