import unittest
from unittest import mock

from absl.testing import parameterized
import numpy as np
import tensorflow_federated as tff
from tensorflow_federated.python.core.impl.executors import value_serialization

from fl_clustering import runtime

_ROWS = tff.TensorType(np.float32, [None, 3])


def setUpModule():
  local = runtime.LocalRuntime(num_cores=1)
  unittest.addModuleCleanup(local.close)


@tff.tensorflow.computation(_ROWS, np.float32)
def _scale(rows, factor):
  return rows * factor


@tff.federated_computation(
    tff.FederatedType(_ROWS, tff.SERVER), tff.FederatedType(np.float32, tff.CLIENTS)
)
def _scaled(rows, factors):
  return tff.federated_map(_scale, (tff.federated_broadcast(rows), factors))


class ArrayExecutorTest(parameterized.TestCase):

  @parameterized.named_parameters(
      ("no_rows", np.zeros((0, 3), np.float32)),
      ("one_row", np.float32([[1, 2, 3]])),
      ("by_columns", np.asfortranarray(np.arange(12, dtype=np.float32).reshape(4, 3))),
      ("a_view", np.arange(24, dtype=np.float32).reshape(4, 6)[::2, ::2]),
      ("one_row_many_times", np.broadcast_to(np.float32([1, 2, 3]), (5, 3))),
      ("numbers_that_are_not_finite", np.float32([[np.nan, np.inf, -0.0]])),
  )
  def test_an_array_arrives_as_it_is(self, rows):
    for factor, found in zip((1, -2), _scaled(rows, [1.0, -2.0])):
      np.testing.assert_array_equal(found, factor * rows)

  def test_it_is_not_wrapped_by_tff(self):
    serialize = value_serialization.serialize_value
    sent = []

    def record(value, type_spec):
      sent.append(value)
      return serialize(value, type_spec)

    with mock.patch.object(value_serialization, "serialize_value", record):
      _scaled(np.ones((2, 3), np.float32), [1.0])
    self.assertNotEmpty(sent)  # The computation and the factors.
    self.assertFalse(any(isinstance(value, np.ndarray) for value in sent))

  def test_other_values_are_tffs_own_matter(self):
    np.testing.assert_array_equal(_scaled([[1.0, 2.0, 3.0]], [2.0]), [[[2, 4, 6]]])

  def test_a_wrong_shape(self):
    with self.assertRaisesRegex(TypeError, r"shape \(2, 4\)"):
      _scaled(np.zeros((2, 4), np.float32), [1.0])
