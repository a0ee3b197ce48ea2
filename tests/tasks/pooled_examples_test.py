"""Tests of examples that clients have as rows of one pool."""

import dataclasses

from absl.testing import absltest
from absl.testing import parameterized
import numpy as np

from fl_clustering.tasks import examples as examples_lib
from fl_clustering.tasks import federated_task
from fl_clustering.tasks import models
from fl_clustering.tasks import pooled_examples


def _pool(num_examples=12, first=0):
  numbers = np.arange(first, first + num_examples)
  return examples_lib.Examples(numbers[:, None].astype(np.float32), numbers % 3)


def _shares(pool, *shares):
  return pooled_examples.PooledExamples.of_shares(pool, [np.array(share, int) for share in shares])


def _rows(found):
  """Returns the numbers that every client has."""
  clients = range(len(found.counts))
  return [found.of(client).features[:, 0].astype(int).tolist() for client in clients]


class PooledExamplesTest(absltest.TestCase):

  def setUp(self):
    super().setUp()
    self.pool = _pool()
    self.examples = _shares(self.pool, [3, 1], [], [0, 5, 3])

  def test_clients_have_their_rows(self):
    self.assertEqual(_rows(self.examples), [[3, 1], [], [0, 5, 3]])
    np.testing.assert_array_equal(self.examples.of(2).labels, [0, 2, 0])
    self.assertEqual(_rows(self.examples.among(np.array([2, 0]))), [[0, 5, 3], [3, 1]])

  def test_a_mask_and_the_rest_joined_again(self):
    mask = np.array([False, True, True, False, True])
    some, rest = self.examples.where(mask), self.examples.where(~mask)
    self.assertEqual(_rows(some), [[1], [], [0, 3]])
    self.assertEqual(_rows(rest), [[3], [], [5]])
    self.assertEqual(_rows(rest.joined(some)), [[3, 1], [], [5, 0, 3]])

  def test_followed_by_clients_of_this_and_of_another_pool(self):
    same = self.examples.followed_by(_shares(self.pool, [7]))
    self.assertIs(same.pool, self.pool)
    other = same.followed_by(
        pooled_examples.PooledExamples.of_examples([_pool(2, 20), _pool(1, 40)])
    )
    self.assertEqual(_rows(other), [[3, 1], [], [0, 5, 3], [7], [20, 21], [40]])


def _clients(**changes):
  pool = _pool()
  found = federated_task.PooledClients(
      ("a", "b"), _shares(pool, [0, 1, 2], [3, 4]), _shares(pool, [5], [6, 7]), np.array([1, 0])
  )
  return dataclasses.replace(found, **changes)


def _task(clients, **fields):
  return federated_task.FederatedTask(
      "name", "source", "partition", clients, _pool(4, 8), "of nobody", 3,
      models.build("logistic", (1,), 3, "float32"), **fields,
  )


class PooledClientsTest(parameterized.TestCase):

  def test_a_task_knows_of_them_what_it_knows_of_single_ones(self):
    clients = _clients()
    for task in map(_task, (clients, federated_task.PooledClients.of(tuple(clients)))):
      self.assertEqual(task.client_ids, ("a", "b"))
      self.assertEqual(task.true_groups.tolist(), [1, 0])
      self.assertEqual(
          task.num_examples, {"train": 5, "validation": 0, "client_test": 3, "global_test": 4}
      )
      self.assertEqual(task.counts("train").tolist(), [3, 2])
      self.assertEqual(_rows(task.pooled("train")), [[0, 1, 2], [3, 4]])
      self.assertEqual(task.pooled("validation").counts.tolist(), [0, 0])

  def test_one_by_one_or_several(self):
    clients = _clients(validation=_shares(_pool(), [], [9]))
    self.assertEqual([client.client_id for client in clients], ["a", "b"])
    self.assertIsNone(clients[0].validation)
    self.assertEqual(clients[-1].validation.features.tolist(), [[9]])
    self.assertEqual([client.group for client in clients[1:]], [0])
    with self.assertRaises(IndexError):
      clients[2]  # pylint: disable=pointless-statement

  @parameterized.named_parameters(
      ("test", {"test": _shares(_pool(), [], [6])}, "^`test`.*'a'"),
      ("client_id", {"ids": ("a", "a")}, "^`client_id`"),
      ("labels", {"train": pooled_examples.PooledExamples.of_examples([
          examples_lib.Examples(np.ones((1, 1), np.float32), np.array([label])) for label in (0, 3)
      ])}, "^`train`.*num_classes=3"),
  )
  def test_bad(self, changes, pattern):
    with self.assertRaisesRegex(ValueError, pattern):
      _task(_clients(**changes))
