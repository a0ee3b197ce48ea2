from unittest import mock

from absl.testing import absltest
import numpy as np

from fl_clustering.engine.tff import client_subspaces
from tests import local_runtime
from tests import small_task
from tests.engine.tff import small_engine
from tests.engine.tff import small_messages

# All clients.
_ALL = np.arange(5)
_TASK = small_task.small_task()

setUpModule = local_runtime.use


def _subspaces(clients, num_vectors):
  return client_subspaces.subspaces(_TASK.model, small_engine.files(_TASK), clients, num_vectors)


class ClientSubspacesTest(absltest.TestCase):

  def test_messages_of_any_size_give_the_same_in_any_order(self):
    whole = _subspaces(_ALL, 2)
    inner = client_subspaces.build_subspaces(_TASK.model)
    find_all = mock.Mock(side_effect=lambda *args: list(inner(*args))[::-1])
    with (
        small_messages.limit(2 * 4 * 784 * 10 * 2),
        mock.patch.object(client_subspaces, "build_subspaces", return_value=find_all),
    ):
      parts = _subspaces(_ALL, 2)
    self.assertEqual([len(call.args[1]) for call in find_all.call_args_list], [2, 2, 1])
    for bases, expected in zip(parts, whole):
      self.assertCountEqual(bases, expected)
      for label in bases:
        np.testing.assert_array_equal(bases[label], expected[label])


if __name__ == "__main__":
  absltest.main()
