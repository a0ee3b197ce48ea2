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


def _table(start, num_examples):
  """Returns rows whose first column is a number of their own, and labels."""
  numbers = np.arange(start, start + num_examples)
  return np.stack([numbers, numbers % 7, -numbers], axis=1) / 2, numbers % 3


_CLIENTS = {"b": _table(0, 10), "a": _table(100, 25), 7: _table(200, 2)}


def _task(clients=None, model="mlp", **arguments):
  return own_clients.task_from_arrays(clients or _CLIENTS, model, **arguments)


def _rows(examples):
  return examples.features[:, 0].tolist()


class TaskFromArraysTest(parameterized.TestCase):

  def test_some_of_the_training_rows_are_for_validation(self):
    task, whole = _task(), _task(validation_share=0)
    for client, before in zip(task.clients, whole.clients):
      held = [] if client.validation is None else _rows(client.validation)
      self.assertCountEqual(_rows(client.train) + held, _rows(before.train))
      self.assertLen(held, round(0.1 * len(before.train)) if len(before.train) >= 20 else 0)
    self.assertGreater(task.num_examples["validation"], 0)
    with self.assertRaisesRegex(ValueError, r"^`validation_share` must be a number in \[0, 1\]"):
      _task(validation_share=-0.1)

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

  def test_the_split_follows_from_the_seed_and_the_id(self):
    split = [_rows(client.test) for client in _task(seed=1).clients]
    self.assertEqual([_rows(client.test) for client in _task(seed=1).clients], split)
    self.assertNotEqual([_rows(client.test) for client in _task(seed=2).clients], split)
    turned = dict(reversed(_CLIENTS.items()))
    self.assertEqual(
        [_rows(client.test) for client in _task(turned, seed=1).clients], split[::-1]
    )

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

  def test_names_and_groups(self):
    task = _task(
        class_names=["no", "yes", "maybe", "never"],
        groups={"a": 1, "b": 0, 7: 1}, hidden_units="4",
    )
    self.assertEqual(task.num_classes, 4)
    self.assertEqual(task.class_names, ("no", "yes", "maybe", "never"))
    self.assertEqual(dict(zip(task.client_ids, task.true_groups)), {"b": 0, "a": 1, "7": 1})
    self.assertEqual(task.num_parameters, 3 * 4 + 4 + 4 * 4 + 4)

  def test_types_of_features(self):
    images = {"a": (np.full((3, 10, 10, 1), 255, np.uint8), np.array([0, 1, 0], np.int8))}
    self.assertEqual(_task(images, "cnn_small").model.input_dtype, "uint8")
    bytes_of_a_table = {"a": (np.full((3, 4), 7, np.uint8), np.arange(3))}
    task = _task(bytes_of_a_table)
    self.assertEqual(task.model.input_dtype, "float32")
    self.assertEqual(task.clients[0].train.features.max(), 7)
    mixed = {"a": (np.ones((3, 4), int), np.arange(3)), "b": (np.ones((3, 4)) / 2, np.arange(3))}
    self.assertEqual(_task(mixed).model.input_dtype, "float32")

  def test_a_model_of_the_users_own_says_what_it_takes(self):
    layers = tf.keras.layers
    tokens = keras_model.keras_model(lambda: tf.keras.Sequential([
        layers.Input((4,), dtype=tf.int32), layers.Embedding(9, 3), layers.Flatten(),
        layers.Dense(5),
    ]))
    task = _task({"a": (np.full((3, 4), 8, np.int64), np.arange(3))}, tokens)
    self.assertEqual((task.model.input_dtype, task.num_classes), ("int32", 5))
    self.assertEqual(task.clients[0].train.features.dtype, np.int32)
    images = keras_model.keras_model(lambda: tf.keras.Sequential([
        layers.Input((4, 4, 1)), layers.Flatten(), layers.Dense(5),
    ]))
    task = _task({"a": (np.full((3, 4, 4, 1), 8, np.uint8), np.arange(3))}, images)
    self.assertEqual(task.model.input_dtype, "uint8")
    with self.assertRaisesRegex(TypeError, "`x` must be integers for a model of int32"):
      _task({"a": (np.ones((3, 4)), np.arange(3))}, tokens)
    with self.assertRaisesRegex(ValueError, "`x` must fit into int32 for 'a', got 4294967296"):
      _task({"a": (np.full((3, 4), 2**32), np.arange(3))}, tokens)
    with self.assertRaisesRegex(ValueError, r"`train` .*shape \(4,\) for client 'a', got \(3,\)"):
      _task({"a": (np.ones((3, 3), int), np.arange(3))}, tokens)
    with self.assertRaisesRegex(ValueError, "`hidden_units` must be given only with the name"):
      _task({"a": (np.ones((3, 4), int), np.arange(3))}, tokens, hidden_units="3")

  def test_clients_too_small_are_left_out_with_a_warning(self):
    clients = {**_CLIENTS, "one": _table(300, 1), "d": _table(400, 5)}
    task = _task(clients)
    self.assertEqual(task.client_ids, ("b", "a", "7", "d"))
    self.assertRegex(task.warnings[0], r"^1 of 5 clients \(one\) are left out: ")
    clients["no test"] = (_table(500, 5), _table(600, 0))
    with self.assertRaisesRegex(ValueError, "`clients` must .* three in four .* '2 of 6 without'"):
      _task(clients)

  @parameterized.named_parameters(
      ("nothing", {}, ValueError, "`clients` must hold at least one client"),
      ("no_pair", {"a": np.ones((2, 2))}, ValueError, r"hold \(x, y\) for client 'a', got 'nda"),
      ("lengths", {"a": (np.ones((3, 2)), [0, 1])}, ValueError, r"`y` must .*\(3, 2\).*'a', got"),
      ("flat", {"a": (np.ones(3), [0, 1, 1])}, ValueError, r"`y` must .* shape \(3,\), for"),
      ("text", {"a": (np.array([["x"]] * 3), [0, 1, 1])}, TypeError, "`x` must be numbers .*'a'"),
      ("text_label", {"a": (np.ones((2, 2)), ["x", "y"])}, TypeError, "`y` must be int.*np.unique"),
      ("numbers", {"a": (np.ones((2, 2)), [0.5, 1.5])}, TypeError, "`y` must be int.*got float64"),
      ("negative", {"a": (np.ones((2, 2)), [0, -1])}, ValueError, "`labels` .*got -1 for 'a'"),
      ("nan", {"a": (np.full((2, 2), np.nan), [0, 1])}, ValueError, "`features` .* nan for 'a'"),
      ("large", {"a": (np.full((2, 2), 1e39), [0, 1])}, ValueError, "`features` .* inf for 'a'"),
      (
          "widths",
          {"a": _table(0, 4), "b": (np.ones((4, 2)), [0, 1, 0, 1])},
          ValueError,
          r"`x` must hold examples of the shape \(3,\) for .* 'b', as for .* 'a', got \(2,\)",
      ),
      ("ids", {"1": _table(0, 4), 1: _table(9, 4)}, ValueError, "`clients` must have ids that"),
  )
  def test_refuses(self, clients, error, message):
    with self.assertRaisesRegex(error, message):
      own_clients.task_from_arrays(clients, "mlp")

  def test_frames_have_the_same_columns_in_the_same_order(self):
    labels = np.arange(8) % 2
    frame = pd.DataFrame(np.arange(24.0).reshape(8, 3), columns=[2019, 2020, 2021])
    other = frame[[2020, 2019, 2021]]
    task = _task({"a": (frame, labels), "b": (frame, labels)}, global_test=(frame, labels))
    np.testing.assert_array_equal(task.global_test.features, frame)
    for wrong, part in (
        ({"a": (frame, labels), "b": (other, labels)}, "client 'b'"),
        ({"a": ((frame, labels), (other, labels))}, "client 'a'"),
        ({"a": (frame, labels), "b": (frame.to_numpy(), labels)}, "client 'b'"),
    ):
      with self.assertRaisesRegex(ValueError, f"`x` must have .* for {part}"):
        _task(wrong)
    with self.assertRaisesRegex(ValueError, "`x` must have .* for `global_test`"):
      _task({"a": (frame, labels)}, global_test=(other, labels))

  def test_refuses_groups_that_are_none(self):
    for group in (-1, 0.5, float("nan"), "north"):
      with self.assertRaisesRegex(ValueError, "`group` must be an integer >= 0"):
        _task(groups={"a": 1, "b": group, 7: 1})
    with self.assertRaisesRegex(ValueError, "`groups` must .* 'c'"):
      _task(groups={"a": 1, "b": 0, 7: 1, "c": 1})

  def test_refuses_arguments(self):
    with self.assertRaisesRegex(ValueError, r"`test_share` must be a number in \(0, 1\), got 1"):
      _task(test_share=1)
    with self.assertRaisesRegex(ValueError, "`model` must be one of .*, got 'forest'"):
      _task(model="forest")
    with self.assertRaisesRegex(ValueError, r"`model` must be .*mlp.* got 'cnn'"):
      _task(model="cnn")
    with self.assertRaisesRegex(TypeError, "no argument `units`"):
      _task(units=3)
    with self.assertRaisesRegex(ValueError, "hold labels < num_classes=2 for client 'b', got 2"):
      _task(num_classes=2)


class TaskFromClientDataTest(absltest.TestCase):

  def _dicts(self):
    return tff.simulation.datasets.TestClientData({
        client_id: collections.OrderedDict(x=x, y=y, note=np.array(["?"] * len(y)))
        for client_id, (x, y) in list(_CLIENTS.items())[:2]
    })

  def _assert_is_the_task_of_the_arrays(self, task):
    expected = _task({client_id: _CLIENTS[client_id] for client_id in task.client_ids})
    self.assertCountEqual(task.client_ids, ("a", "b"))
    self.assertEqual(task.fingerprint(), expected.fingerprint())

  def test_dicts(self):
    self._assert_is_the_task_of_the_arrays(own_clients.task_from_client_data(
        self._dicts(), "mlp", features_key="x", label_key="y"
    ))

  def test_pairs(self):
    pairs = self._dicts().preprocess(
        lambda dataset: dataset.map(lambda example: (example["x"], example["y"]))
    )
    self._assert_is_the_task_of_the_arrays(own_clients.task_from_client_data(pairs, "mlp"))
    with self.assertRaisesRegex(ValueError, "`label_key` must be left out .*, got 'y'"):
      own_clients.task_from_client_data(pairs, "mlp", label_key="y")

  def test_refuses_unknown_keys_and_other_structures(self):
    with self.assertRaisesRegex(ValueError, "`label_key` must be one of x, y, note, got None"):
      own_clients.task_from_client_data(self._dicts(), "mlp", features_key="x")
    triples = self._dicts().preprocess(lambda dataset: dataset.map(lambda e: (e["x"],)))
    with self.assertRaisesRegex(ValueError, "`client_data` must hold pairs or dicts"):
      own_clients.task_from_client_data(triples, "mlp")


class ModelsAreUnchangedTest(absltest.TestCase):

  def test_a_model_can_serve_several_tasks(self):
    model = models.build("cnn_small", (10, 10, 1), 3)
    x = np.full((3, 10, 10, 1), 0.5)
    self.assertEqual(_task({"a": (x, np.arange(3))}, model).model.input_dtype, "float32")
    self.assertEqual(model.input_dtype, "uint8")


if __name__ == "__main__":
  absltest.main()
