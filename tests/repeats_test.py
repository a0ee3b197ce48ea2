"""Tests of training again; the rounds are a stand-in that trains nothing."""

from unittest import mock

from absl.testing import absltest
import numpy as np

from fl_clustering.engine import cost
from fl_clustering.methods import method
from fl_clustering.three_phase import config as config_lib
from fl_clustering.three_phase import repeats
from fl_clustering.three_phase import result
from fl_clustering.three_phase import rounds


class _Engine:
  """Of a client's 4 examples of the rarer class, a model has as many right as its number says."""

  clients = np.arange(2)

  def confusions(self, vectors, members, part):
    del part  # They are the same on all data.
    return [np.array([[[r, 4 - r], [0, 16]]] * len(m)) for (r,), m in zip(vectors, members)]


class RepeatsTest(absltest.TestCase):

  def test_are_other_rounds_and_give_every_clients_accuracy(self):
    trained, config = [], config_lib.ThreePhaseConfig(num_clients=2)

    def run(start, numbers, *unused_arguments, is_scored):
      self.assertFalse(is_scored)
      trained.append(numbers)
      state = method.ClusterState(np.array([[start]], np.float32), ([0, 1],))
      return result.Outcome(state, np.zeros(1), cost.Cost())

    with mock.patch.object(rounds, "run", run):
      accuracy = repeats.run(lambda repeat: repeat, 2, (4, 5), config, _Engine(), None)
    np.testing.assert_allclose(accuracy, [[17 / 20] * 2, [18 / 20] * 2])
    self.assertEqual(trained, [[1_000_004, 1_000_005], [2_000_004, 2_000_005]])
