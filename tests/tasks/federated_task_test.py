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


def _clients(*clients):
  return federated_task.PooledClients.of(clients)


def _task(**changes):
  fields = {
      "name": "digits",
      "source": "made up",
      "partition": "iid",
      "clients": _clients(_client("b"), _client("a", train=5, test=2)),
      "global_test": _examples(4, label=2),
      "global_test_source": "made up",
      "num_classes": 3,
      "model": models.build("cnn_small", (10, 10, 1), 3),
  }
  return federated_task.FederatedTask(**{**fields, **changes})


class ExamplesTest(parameterized.TestCase):

  def test_takes_images_and_tables(self):
    for features in (
        np.zeros((2, 10, 10, 1), np.uint8), np.zeros((2, 5), np.float32),
        np.zeros((2, 3, 4, 5), np.float32), np.zeros((2, 7), np.int32),
    ):
      for kind in (np.uint8, np.int64, np.uint16):
        self.assertLen(examples_lib.Examples(features, np.array([0, 3], kind)), 2)

  @parameterized.parameters(
      ("features", TypeError, np.zeros((2, 3))), ("labels", TypeError, None, [0, 1]),
      *(("labels", TypeError, None, np.zeros(2, kind)) for kind in (float, bool, "M8[s]")),
      *(("features", ValueError, np.full((2, 3), value, "f4")) for value in (np.nan, np.inf)),
      *(("features", ValueError, np.zeros(shape, "f4")) for shape in ((2,), (2, 0), (2, 3, 0))),
      ("features", ValueError, np.zeros((2, 10, 10), np.uint8)),
      ("labels", ValueError, None, np.array([0, -1])),
      ("labels", ValueError, None, np.zeros(3, int)),
  )
  def test_refuses(self, name, error, features=None, labels=None):
    features = np.ones((2, 3), np.float32) if features is None else features
    with self.assertRaisesRegex(error, f"`{name}`"):
      examples_lib.Examples(features, np.zeros(2, np.uint8) if labels is None else labels)

  def test_take_is_a_copy(self):
    examples = _examples(3)
    taken = examples.take(np.array([2, 0]))
    np.testing.assert_array_equal(taken.features, examples.features[[2, 0]])
    taken.features[:] = 0
    self.assertTrue(examples.features[2].any())


class FederatedTaskTest(parameterized.TestCase):

  @parameterized.named_parameters(
      ("no_clients", "clients", {"clients": ()}),
      ("id_twice", "client_id", {"clients": (_client("a"), _client("a"))}),
      ("empty_id", "client_id", {"clients": (_client(""),)}),
      ("number_as_id", "client_id", {"clients": (_client(3),)}),
      ("no_train", "train", {"clients": (_client("a", train=0),)}),
      ("no_test", "test", {"clients": (_client("a", test=0),)}),
      ("half_grouped", "group", {"clients": (_client("a", group=0), _client("b"))}),
      ("new_grouped", "group", {"new_clients": (_client("z", group=0),)}),
      ("shapes_differ", "test", {"clients": (
          dataclasses.replace(_client("a"), test=_examples(1, size=9)), _client("b")
      )}),
      ("no_global_test", "global_test", {"global_test": _examples(0)}),
      ("size_of_images", "global_test", {"global_test": _examples(2, size=12)}),
      ("type", "train", {"model": models.build("cnn_small", (10, 10, 1), 3, "float32")}),
      ("class_names", "class_names", {"class_names": ("a", "b")}),
      ("classes_of_bytes", "num_classes",
       {"num_classes": 257, "model": models.build("cnn_small", (10, 10, 1), 257)}),
      ("label", "global_test", {"global_test": _examples(2, label=3)}),
      ("outputs", "model", {"num_classes": 4}),
      ("new_id_twice", "client_id", {"new_clients": (_client("a"),)}),
      ("new_no_test", "test", {"new_clients": (_client("z", test=0),)}),
  )
  def test_refuses(self, name, changes):
    with self.assertRaisesRegex(ValueError, f"`{name}` must"):
      _task(**{
          part: _clients(*value) if part in ("clients", "new_clients") else value
          for part, value in changes.items()
      })

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
        "validation": (dataclasses.replace(first, validation=_examples(1)), second),
    }
    prints = {
        name: _task(clients=_clients(*clients)).fingerprint() for name, clients in changed.items()
    }
    train = task.clients.train
    for name in ("rows", "counts"):
      reversed_ = dataclasses.replace(train, **{name: getattr(train, name)[::-1]})
      clients = dataclasses.replace(task.clients, train=reversed_)
      prints[name] = _task(clients=clients).fingerprint()
    prints["global test"] = _task(global_test=_examples(4, label=1)).fingerprint()
    for size in (3, 4):
      new = _clients(_client("z", train=size))
      prints[f"{size} examples of a new client"] = _task(new_clients=new).fingerprint()
    prints["as it was"] = task.fingerprint()
    self.assertLen(set(prints.values()), len(prints))


class HoldOutTest(absltest.TestCase):

  def test_every_client_trains_or_is_new_as_the_seed_decides(self):
    task = _task(
        clients=_clients(*(_client(name, group=i % 2) for i, name in enumerate("fbdace")))
    )
    self.assertIs(held_out.HeldOut().of_task(task, 0), task)
    two = held_out.HeldOut(num_new_clients=2)
    found = two.of_task(task, 0)
    self.assertLen(found.new_client_ids, 2)
    self.assertSequenceEqual(
        found.client_ids, [one for one in task.client_ids if one not in found.new_client_ids]
    )
    self.assertContainsSubset(found.new_client_ids, task.client_ids)
    self.assertNotEqual(found.fingerprint(), task.fingerprint())
    self.assertEqual(
        found.true_groups.tolist(), ["fbdace".index(one) % 2 for one in found.client_ids]
    )
    self.assertEqual(two.of_task(task, 0).new_client_ids, found.new_client_ids)
    new = {two.of_task(task, seed).new_client_ids for seed in range(10)}
    self.assertGreater(len(new), 3)
