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

  @parameterized.parameters(2, 3, 9, 10, 11, 47)
  def test_each_example_is_for_testing_as_often_as_any_other(self, num_examples):
    parts = [held_out.Fold(i, 10).test_positions(num_examples, 0, "a") for i in range(10)]
    sizes = list(map(len, parts))
    self.assertLessEqual(max(sizes) - min(sizes), 1)
    times = np.bincount(np.concatenate(parts), minlength=num_examples)
    if num_examples >= 10:
      self.assertEqual(set(times), {1})
    else:
      self.assertEqual(set(sizes), {1})
      self.assertBetween(times.max() - times.min(), 0, 1)

  def test_seed_and_client_decide(self):
    fold = held_out.Fold(0, 2)
    for draw in (
        fold.test_positions, lambda n, seed, name: held_out.draw_validation(name, n, 0.25, seed)
    ):
      first = list(draw(40, 0, "a"))
      self.assertEqual(list(draw(40, 0, "a")), first)
      self.assertNotEqual(list(draw(40, 1, "a")), first)
      self.assertNotEqual(list(draw(40, 0, "b")), first)

  @parameterized.parameters((0, 1, "num_folds"), (-1, 3, "index"), (3, 3, "index"))
  def test_bad_fold(self, index, num_folds, name):
    with self.assertRaisesRegex(ValueError, f"^`{name}`"):
      held_out.Fold(index, num_folds)


class ValidationTest(parameterized.TestCase):

  @parameterized.parameters(
      (0, 0.1, 0), (19, 0.1, 0), (20, 0.1, 2), (20, 0.01, 1), (41, 0.5, 20), (100, 0.0, 0)
  )
  def test_numbers(self, num_train, share, expected):
    mask = held_out.draw_validation("a", num_train, share, 0)
    self.assertEqual((mask.shape, mask.sum()), ((num_train,), expected))

  def test_a_client_keeps_something_to_train_on(self):
    with self.assertRaisesRegex(ValueError, "^`validation_share`"):
      held_out.draw_validation("b", 20, 0.99, 0)

  def test_of_a_task(self):
    whole = registry.load_task(registry.TaskOptions(seed=2))
    self.assertIs(held_out.HeldOut(validation_share=0.0).of_task(whole, 2), whole)
    task = held_out.HeldOut(num_new_clients=10).of_task(whole, 2)
    found = held_out.HeldOut(validation_share=0.1).of_task(task, 2)
    self.assertEqual(found.new_clients, task.new_clients)
    self.assertNotEqual(found.fingerprint(), task.fingerprint())
    for client, before in zip(found.clients, task.clients):
      np.testing.assert_array_equal(client.test.features, before.test.features)
      if len(before.train) < held_out.MIN_TRAIN_TO_VALIDATE:
        self.assertIsNone(client.validation)
        continue
      self.assertLen(client.validation, round(0.1 * len(before.train)))
      self.assertEqual(_examples(client.train, client.validation), _examples(before.train))
    self.assertIn(None, [client.validation for client in found.clients])
    # New clients train on what was to validate.
    before = {client.client_id: client for client in whole.clients}
    validated = held_out.HeldOut(validation_share=0.2).of_task(whole, 2)
    for client in held_out.HeldOut(num_new_clients=3).of_task(validated, 0).new_clients:
      self.assertIsNone(client.validation)
      self.assertEqual(_examples(client.train), _examples(before[client.client_id].train))


class FoldsTest(absltest.TestCase):

  def setUp(self):
    super().setUp()
    self.folder = self.create_tempdir().full_path

  def _load(self, fold, test_share=None, **options):
    options = registry.TaskOptions(num_clients=3, seed=1, **options)
    return registry.load_task(
        options, self.folder, held_out.HeldOut(test_share=test_share), fold
    )

  def _assert_folds(self, tasks, whole):
    """Checks that clients keep their examples, and test each of them once."""
    for number, client in enumerate(whole.clients):
      in_folds, own = [one.clients[number] for one in tasks], _examples(client.train, client.test)
      for one in in_folds:
        self.assertEqual((one.client_id, one.group), (client.client_id, client.group))
        self.assertEqual(_examples(one.train, one.test), own)
      self.assertEqual(_examples(*(one.test for one in in_folds)), own)
    self.assertLen({one.fingerprint() for one in tasks}, len(tasks))

  def test_of_a_task(self):
    task = small_task.small_task()
    self._assert_folds([held_out.in_fold(task, held_out.Fold(i, 3), 0) for i in range(3)], task)

  def test_of_a_partition(self):
    data_files.write_idx_files(self.folder, data_files.idx_arrays(num_train=60))
    whole, *tasks = (
        self._load(fold, dataset="idx", partition="rotated", num_groups=2)
        for fold in (None, *(held_out.Fold(i, 4) for i in range(4)))
    )
    self._assert_folds(tasks, whole)

  def test_of_tables_scale_by_the_rows_that_train(self):
    rng = np.random.default_rng(0)
    for name, num_rows in (("a", 20), ("b", 30), ("c", 2)):
      rows = [f"{x:.3f},{i % 2}" for i, x in enumerate(rng.normal(5, 2, num_rows))]
      with open(os.path.join(self.folder, f"{name}.csv"), "w", encoding="utf-8") as file:
        file.write("\n".join(["x,y", *rows, ""]))
    schema = schema_lib.strict(("x", "y"), label="y")
    tasks = [self._load(held_out.Fold(i, 4), dataset="files", schema=schema) for i in range(4)]
    for task in tasks:
      train = np.concatenate([client.train.features for client in task.clients])
      np.testing.assert_allclose(train.mean(axis=0), 0, atol=1e-5)
    for number, num_rows in enumerate((20, 30)):
      self.assertEqual(sum(len(one.clients[number].test) for one in tasks), num_rows)
    self.assertEqual([len(one.clients[2].test) for one in tasks], [1] * 4)

  def test_nothing_else_says_what_is_for_testing(self):
    plain = schema_lib.strict(("x", "y"), label="y")
    split = schema_lib.strict(("x", "y", "part"), label="y", split="part")
    for name, options in (
        ("test_share", {"schema": plain, "test_share": 0.3}), ("split_column", {"schema": split}),
    ):
      with self.assertRaisesRegex(ValueError, f"^`{name}`"):
        self._load(held_out.Fold(0, 2), dataset="files", **options)
    with self.assertRaisesRegex(ValueError, "^`test_share`.*images"):
      held_out.HeldOut(test_share=0.3).check_rows(None)
