import collections
import os

from absl.testing import absltest
from absl.testing import parameterized
import numpy as np

from fl_clustering.tables import schema as schema_lib
from fl_clustering.tasks import held_out
from fl_clustering.tasks import registry
from tests import small_task
from tests.tasks import data_files


def _examples(*parts):
  """Returns how often each example is in the parts."""
  return collections.Counter(
      (features.tobytes(), int(label))
      for part in parts
      for features, label in zip(part.features, part.labels)
  )


class PositionsTest(parameterized.TestCase):

  @parameterized.parameters(10, 11, 47, 100)
  def test_each_example_is_for_testing_in_one_fold(self, num_examples):
    parts = [
        held_out.Fold(i, 10).test_positions(num_examples, 0, "a") for i in range(10)
    ]

    self.assertCountEqual(np.concatenate(parts), range(num_examples))
    sizes = list(map(len, parts))
    self.assertLessEqual(max(sizes) - min(sizes), 1)

  @parameterized.parameters(2, 3, 9)
  def test_a_small_client_tests_one_example_in_each_fold(self, num_examples):
    parts = [
        held_out.Fold(i, 10).test_positions(num_examples, 0, "a") for i in range(10)
    ]

    self.assertEqual(set(map(len, parts)), {1})
    times = np.bincount(np.concatenate(parts), minlength=num_examples)
    self.assertGreaterEqual(times.min(), 1)
    self.assertLessEqual(times.max() - times.min(), 1)

  def test_seed_and_client_decide(self):
    fold = held_out.Fold(0, 2)
    first = fold.test_positions(40, 0, "a")

    np.testing.assert_array_equal(first, fold.test_positions(40, 0, "a"))
    self.assertNotEqual(list(first), list(fold.test_positions(40, 1, "a")))
    self.assertNotEqual(list(first), list(fold.test_positions(40, 0, "b")))

  @parameterized.parameters((0, 1, "num_folds"), (-1, 3, "index"), (3, 3, "index"))
  def test_bad_fold(self, index, num_folds, name):
    with self.assertRaisesRegex(ValueError, f"^`{name}` must be "):
      held_out.Fold(index, num_folds)


class TaskTest(absltest.TestCase):

  def test_clients_keep_their_examples_and_test_each_of_them_once(self):
    task = small_task.small_task()
    tasks = [held_out.in_fold(task, held_out.Fold(i, 3), 0) for i in range(3)]

    for number, client in enumerate(task.clients):
      in_folds = [one.clients[number] for one in tasks]
      own = _examples(client.train, client.test)
      self.assertEqual({one.client_id for one in in_folds}, {client.client_id})
      for one in in_folds:
        self.assertEqual(_examples(one.train, one.test), own)
      self.assertEqual(_examples(*(one.test for one in in_folds)), own)
    self.assertLen({one.fingerprint() for one in tasks}, 3)


class ValidationTest(parameterized.TestCase):

  @parameterized.parameters((0, 0.1, 0), (19, 0.1, 0), (20, 0.1, 2), (20, 0.01, 1), (41, 0.5, 20),
                            (100, 0.0, 0))
  def test_numbers(self, num_train, share, expected):
    mask = held_out.draw_validation("a", num_train, share, 0)
    self.assertEqual(mask.shape, (num_train,))
    self.assertEqual(mask.sum(), expected)

  def test_seed_and_client_decide(self):
    def drawn(client_id, seed):
      return held_out.draw_validation(client_id, 40, 0.25, seed)

    np.testing.assert_array_equal(drawn("a", 0), drawn("a", 0))
    self.assertFalse(np.array_equal(drawn("a", 0), drawn("a", 1)))
    self.assertFalse(np.array_equal(drawn("a", 0), drawn("b", 0)))

  def test_a_client_keeps_something_to_train_on(self):
    with self.assertRaisesRegex(
        ValueError, r"^`validation_share` must leave client 'b' one of its 20 examples to train on"
    ):
      held_out.draw_validation("b", 20, 0.99, 0)

  def test_of_a_task(self):
    task = registry.load_task(dataset="digits", num_clients=100, seed=2)
    task = held_out.hold_out(task, 10, 2)
    found = held_out.with_validation(task, 0.1, 2)
    self.assertEqual(found.new_clients, task.new_clients)
    self.assertNotEqual(found.fingerprint(), task.fingerprint())
    for client, before in zip(found.clients, task.clients):
      self.assertIs(client.test, before.test)
      if len(before.train) < held_out.MIN_TRAIN_TO_VALIDATE:
        self.assertIsNone(client.validation)
        continue
      self.assertLen(client.validation, round(0.1 * len(before.train)))
      self.assertEqual(_examples(client.train, client.validation), _examples(before.train))
    self.assertIn(None, [client.validation for client in found.clients])

  def test_new_clients_train_on_theirs(self):
    task = held_out.with_validation(registry.load_task(dataset="digits", num_clients=10), 0.2, 0)
    found = held_out.hold_out(task, 3, 0)
    before = {client.client_id: client for client in task.clients}
    for client in found.new_clients:
      self.assertIsNone(client.validation)
      was = before[client.client_id]
      self.assertEqual(_examples(client.train), _examples(was.train, was.validation))

  def test_share_of_zero_changes_nothing(self):
    task = registry.load_task(dataset="digits", num_clients=10)
    self.assertEqual(held_out.with_validation(task, 0.0, 0).fingerprint(), task.fingerprint())


class LoadTest(absltest.TestCase):

  def setUp(self):
    super().setUp()
    self.folder = self.create_tempdir().full_path

  def _load(self, fold, **options):
    return registry.load_task(
        data_dir=self.folder, num_clients=3, seed=1, fold=fold, **options
    )

  def test_folds_of_a_partition(self):
    data_files.write_idx_files(self.folder, data_files.idx_arrays(num_train=60))

    whole = self._load(None, dataset="idx", partition="rotated", num_groups=2)
    tasks = [
        self._load(held_out.Fold(i, 4), dataset="idx", partition="rotated", num_groups=2)
        for i in range(4)
    ]

    for number, client in enumerate(whole.clients):
      self.assertEqual(
          _examples(*(one.clients[number].test for one in tasks)),
          _examples(client.train, client.test),
      )
      self.assertEqual({one.clients[number].group for one in tasks}, {client.group})

  def _write_tables(self):
    rng = np.random.default_rng(0)
    for name, num_rows in (("a", 20), ("b", 30), ("c", 2)):
      rows = [f"{x:.3f},{i % 2}" for i, x in enumerate(rng.normal(5, 2, num_rows))]
      with open(os.path.join(self.folder, f"{name}.csv"), "w", encoding="utf-8") as file:
        file.write("\n".join(["x,y", *rows, ""]))

  def test_folds_of_tables_scale_by_the_rows_that_train(self):
    self._write_tables()
    schema = schema_lib.strict(("x", "y"), label="y")
    tasks = [
        self._load(held_out.Fold(i, 4), dataset="files", schema=schema) for i in range(4)
    ]

    for task in tasks:
      train = np.concatenate([client.train.features for client in task.clients])
      np.testing.assert_allclose(train.mean(axis=0), 0, atol=1e-5)
    for number, num_rows in enumerate((20, 30)):
      self.assertEqual(sum(len(one.clients[number].test) for one in tasks), num_rows)
    self.assertEqual([len(one.clients[2].test) for one in tasks], [1] * 4)

  def test_nothing_else_says_what_is_for_testing(self):
    schema = schema_lib.strict(("x", "y"), label="y")
    with self.assertRaisesRegex(ValueError, "^`test_share` must be left out with folds"):
      self._load(held_out.Fold(0, 2), dataset="files", schema=schema, test_share=0.3)
    schema = schema_lib.strict(("x", "y", "part"), label="y", split="part")
    with self.assertRaisesRegex(ValueError, "^`split_column` must be left out with folds"):
      self._load(held_out.Fold(0, 2), dataset="files", schema=schema)


if __name__ == "__main__":
  absltest.main()
