"""Training of clients' own models; `tests/methods/personal_test.py` compares them with NumPy."""

from absl.testing import absltest
import numpy as np

from fl_clustering.engine import participation
from fl_clustering.engine import personalization
from tests import letters
from tests import local_runtime
from tests import small_task
from tests.engine.tff import small_engine
from tests.engine.tff import small_messages

# Client "c" does not take part.
_ALL, _ROUND = np.arange(5), participation.Round(4, letters.clients("abde"), 2)
_TASK = small_task.small_task()

setUpModule = local_runtime.use


class TrainOwnTest(absltest.TestCase):

  def test_small_messages_give_the_same(self):
    own, (common,) = small_engine.vectors(_TASK, 5), small_engine.vectors(_TASK, 6)[5:]
    how = personalization.Personalization(pull=0.1)
    whole = small_engine.engine().train_own(own.copy(), _ALL, _ROUND, common, how)
    with small_messages.limit(4 * 2 * _TASK.num_parameters):
      cut = small_engine.engine().train_own(own, _ALL, _ROUND, common, how)
    np.testing.assert_array_equal(cut[0], whole[0])
    np.testing.assert_array_equal(cut[2].values, whole[2].values)
