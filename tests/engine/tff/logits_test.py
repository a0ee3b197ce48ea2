from unittest import mock

from absl.testing import absltest
import numpy as np

from fl_clustering.engine.tff import evaluation
from tests import local_runtime
from tests import small_task
from tests.engine.tff import small_engine

# All clients.
_ALL = np.arange(5)
_TASK = small_task.small_task()
_VECTOR = np.random.default_rng(0).normal(size=_TASK.num_parameters).astype(np.float32) / 20

setUpModule = local_runtime.use


class LogitsTest(absltest.TestCase):

  def _moments(self):
    return small_engine.engine(_TASK).moments(_VECTOR, _ALL, by_label=True)

  def test_in_batches(self):
    whole = self._moments()
    with mock.patch.object(evaluation, "BATCH_EXAMPLES", 3):
      evaluation.build_logits.cache_clear()
      parts = self._moments()
    evaluation.build_logits.cache_clear()
    np.testing.assert_allclose(parts, whole, atol=1e-5)
