import dataclasses

from absl.testing import absltest
from absl.testing import parameterized
import numpy as np

from fl_clustering.tasks import examples as examples_lib
from fl_clustering.tasks import federated_task
from fl_clustering.tasks import held_out
from fl_clustering.tasks import models


def _examples(num_examples, label=0, size=10):
  images = np.arange(num_examples * size * size, dtype=np.uint32) % 251
  return examples_lib.Examples(
      images.astype(np.uint8).reshape(num_examples, size, size, 1),
      np.full(num_examples, label, np.uint8),
  )


def _client(client_id, group=None, train=3, test=1):
  return federated_task.ClientData(client_id, _examples(train), _examples(test), group)


def _task(**changes):
  fields = {
      "name": "digits",
      "source": "made up",
      "partition": "iid",
      "clients": (_client("b"), _client("a", train=5, test=2)),
      "global_test": _examples(4, label=2),
      "global_test_source": "made up",
      "num_classes": 3,
      "model": models.build("cnn_small", (10, 10, 1), 3),
  }
  return federated_task.FederatedTask(**{**fields, **changes})


class ExamplesTest(absltest.TestCase):

  def test_takes_images_and_tables(self):
    for features in (
        np.zeros((2, 10, 10, 1), np.uint8), np.zeros((2, 5), np.float32),
        np.zeros((2, 3, 4, 5), np.float32), np.zeros((2, 7), np.int32),
    ):
      for kind in (np.uint8, np.int64, np.uint16):
        self.assertLen(examples_lib.Examples(features, np.array([0, 3], kind)), 2)

  def test_refuses_other_types(self):
    images, labels = np.zeros((2, 10, 10, 1), np.uint8), np.zeros(2, np.uint8)
    message = "`features` must be .* of uint8 or float32 or int32, got float64"
    with self.assertRaisesRegex(TypeError, message):
      examples_lib.Examples(images.astype(float), labels)
    with self.assertRaisesRegex(TypeError, "`labels` must be .* of integers, got list"):
      examples_lib.Examples(images, [0, 1])
    for kind in (float, bool, "datetime64[s]"):
      with self.assertRaisesRegex(TypeError, "`labels` must be .* of integers, got "):
        examples_lib.Examples(images, labels.astype(kind))

  def test_refuses_values_that_mean_nothing(self):
    table = np.ones((3, 2), np.float32)
    for value in (np.nan, np.inf):
      table[1, 1] = value
      with self.assertRaisesRegex(ValueError, f"`features` must be finite, got {value}"):
        examples_lib.Examples(table, np.zeros(3, int))
    with self.assertRaisesRegex(ValueError, "`labels` must be >= 0, got -1"):
      examples_lib.Examples(np.ones((3, 2), np.float32), np.array([0, -1, 1]))

  def test_refuses_wrong_shapes(self):
    images = np.zeros((2, 10, 10, 1), np.uint8)
    with self.assertRaisesRegex(ValueError, r"`features` must .*got \(2, 10, 10\)"):
      examples_lib.Examples(images[..., 0], np.zeros(2, np.uint8))
    for shape in ((2,), (2, 0), (2, 3, 0)):
      with self.assertRaisesRegex(ValueError, "`features` must have numbers in every example"):
        examples_lib.Examples(np.zeros(shape, np.float32), np.zeros(2, np.uint8))
    with self.assertRaisesRegex(ValueError, r"`labels` must .*\(2,\).*got \(3,\)"):
      examples_lib.Examples(images, np.zeros(3, np.uint8))

  def test_take_is_a_copy(self):
    examples = _examples(3)
    taken = examples.take(np.array([2, 0]))
    np.testing.assert_array_equal(taken.features, examples.features[[2, 0]])
    taken.features[:] = 0
    self.assertTrue(examples.features[2].any())


class FederatedTaskTest(parameterized.TestCase):

  def test_says_what_it_holds(self):
    task = _task()
    self.assertEqual(task.client_ids, ("b", "a"))
    self.assertIsNone(task.true_groups)
    self.assertEqual(
        task.num_examples,
        {"train": 8, "validation": 0, "client_test": 3, "global_test": len(task.global_test)},
    )
    self.assertEqual(task.num_parameters, task.model.num_parameters)

  def test_true_groups_are_in_the_order_of_the_clients(self):
    task = _task(clients=(_client("b", group=1), _client("a", group=0)))
    self.assertEqual(task.true_groups.tolist(), [1, 0])

  @parameterized.named_parameters(
      ("no_clients", {"clients": ()}, "`clients` must hold at least one"),
      ("id_twice", {"clients": (_client("a"), _client("a"))}, "`client_id` .*got 'a'"),
      ("empty_id", {"clients": (_client(""),)}, "`client_id` must be a non-empty string"),
      ("number_as_id", {"clients": (_client(3),)}, "`client_id` must be .*got 3"),
      ("no_train", {"clients": (_client("a", train=0),)}, "`train` must .* client 'a'"),
      ("no_test", {"clients": (_client("a", test=0),)}, "`test` must .* client 'a'"),
      (
          "half_grouped",
          {"clients": (_client("a", group=0), _client("b"))},
          "`group` must be known .*'b'",
      ),
      ("no_global_test", {"global_test": _examples(0)}, "`global_test` must hold at least one"),
      (
          "size_of_images",
          {"global_test": _examples(2, size=12)},
          r"`global_test` must .*\(10, 10, 1\).*got \(12, 12, 1\)",
      ),
      (
          "type",
          {"model": models.build("cnn_small", (10, 10, 1), 3, "float32")},
          "`train` must hold features of the model's type float32 for client 'b', got 'uint8'",
      ),
      ("class_names", {"class_names": ("a", "b")}, r"`class_names` must be 3 names, got \('a'"),
      (
          "classes_of_bytes",
          {"num_classes": 257, "model": models.build("cnn_small", (10, 10, 1), 257)},
          "`num_classes` must be at most 256 for uint8, got 257",
      ),
      ("label", {"global_test": _examples(2, label=3)}, "`global_test` .*num_classes=3.*got 3"),
      ("outputs", {"num_classes": 4}, r"`model` must .*\(4\), got 3"),
  )
  def test_refuses(self, changes, message):
    with self.assertRaisesRegex(ValueError, message):
      _task(**changes)

  def test_fingerprint_depends_on_all_data_and_on_nothing_else(self):
    task = _task()
    first, second = task.clients
    same = _task(source="from another folder", warnings=("careful",))
    self.assertEqual(same.fingerprint(), task.fingerprint())

    brighter = examples_lib.Examples(first.train.features + np.uint8(1), first.train.labels)
    changed = {
        "order": (second, first),
        "id": (dataclasses.replace(first, client_id="c"), second),
        "pixels": (dataclasses.replace(first, train=brighter), second),
        "labels": (dataclasses.replace(first, test=_examples(1, label=1)), second),
        "groups": tuple(dataclasses.replace(client, group=0) for client in task.clients),
    }
    prints = {name: _task(clients=clients).fingerprint() for name, clients in changed.items()}
    prints["global test"] = _task(global_test=_examples(4, label=1)).fingerprint()
    prints["as it was"] = task.fingerprint()
    self.assertLen(set(prints.values()), len(prints))
    self.assertRegex(task.fingerprint(), "^[0-9a-f]{64}$")


class HoldOutTest(absltest.TestCase):

  def _held_out(self, num_new, seed):
    task = _task(clients=tuple(_client(name, group=i % 2) for i, name in enumerate("fbdace")))
    return task, held_out.hold_out(task, num_new, seed)

  def test_every_client_trains_or_is_new(self):
    task, held_out = self._held_out(2, seed=0)
    self.assertLen(held_out.client_ids, 4)
    self.assertLen(held_out.new_client_ids, 2)
    order = [c for c in task.client_ids if c in held_out.client_ids]
    self.assertSequenceEqual(held_out.client_ids, order)
    self.assertCountEqual(held_out.client_ids + held_out.new_client_ids, task.client_ids)
    self.assertNotEqual(held_out.fingerprint(), task.fingerprint())
    self.assertEqual(held_out.true_groups.tolist(), [client.group for client in held_out.clients])

  def test_the_seed_decides_who_is_new(self):
    new = {self._held_out(2, seed)[1].new_client_ids for seed in range(10)}
    self.assertGreater(len(new), 3)
    self.assertEqual(self._held_out(2, 5)[1].new_client_ids, self._held_out(2, 5)[1].new_client_ids)

  def test_none_new_is_the_task_itself(self):
    task, held_out = self._held_out(0, seed=0)
    self.assertIs(held_out, task)

  def test_new_clients_are_checked_too(self):
    with self.assertRaisesRegex(ValueError, "`client_id` must be a client's own"):
      _task(new_clients=(_client("a"),))
    with self.assertRaisesRegex(ValueError, "`test` must hold at least one example.*'z'"):
      _task(new_clients=(_client("z", test=0),))


if __name__ == "__main__":
  absltest.main()
