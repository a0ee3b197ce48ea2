from absl.testing import absltest
import numpy as np

from fl_clustering.engine import divergence
from fl_clustering.engine import participation
from fl_clustering.engine.tff import client_update
from tests import letters
from tests import local_runtime
from tests import small_task
from tests.engine.tff import small_engine

# Not everyone takes part, and client "c" in no round; numbers and epochs are those of each round.
_ROUNDS = (
    participation.Round(4, letters.clients("abd"), 1),
    participation.Round(6, letters.clients("ae"), 2),
    participation.Round(7, letters.clients("bde"), 1),
)

_TASK = small_task.small_task()

setUpModule = local_runtime.use


def _vectors():
  return small_engine.vectors(_TASK, len(_TASK.clients))


class TrainAloneTest(absltest.TestCase):

  def _assert_equal(self, found, expected):
    np.testing.assert_array_equal(found[0], expected[0])
    self.assertLen(found[1], len(expected[1]))
    for one, other in zip(found[1], expected[1]):
      self.assertEqual(one.cost, other.cost)
      np.testing.assert_array_equal(one.losses, other.losses)
      np.testing.assert_array_equal(one.confusions, other.confusions)

  def test_equals_clusters_of_one_client_round_by_round_to_the_last_bit(self):
    engine_, vectors = small_engine.engine(), _vectors()
    members = engine_.clients[:, None]
    trained, made = small_engine.engine().train_alone(_vectors(), _ROUNDS)
    for round_, found in zip(_ROUNDS, made, strict=True):
      vectors, losses = engine_.train(vectors, members, round_)
      expected = np.array([one.values[0] if len(one.values) else np.nan for one in losses])
      np.testing.assert_array_equal(found.losses, expected)
      confusions = np.concatenate(engine_.confusions(vectors, members))
      np.testing.assert_array_equal(found.confusions, confusions)
    np.testing.assert_array_equal(trained, vectors)
    np.testing.assert_array_equal(trained[2], _vectors()[2])
    # Blocks of any length give the same.
    first, of_first = small_engine.engine().train_alone(_vectors(), _ROUNDS[:1])
    rest, of_rest = small_engine.engine().train_alone(first, _ROUNDS[1:])
    self._assert_equal((rest, of_first + of_rest), (trained, made))

  def test_divergence_names_round_and_client(self):
    engine = small_engine.engine(options=client_update.LocalTraining(20, 3e38))
    rounds = [participation.Round(number, letters.clients("b"), 1) for number in (4, 6, 7)]
    # In a round of one step, the loss is that of the model before.
    with self.assertRaisesRegex(divergence.TrainingDiverged, "loss is .* round 6, client 'b'"):
      engine.train_alone(_vectors(), rounds)
    # Equal outputs of any size have a loss; a step takes those of frequent labels to infinity.
    vectors = _vectors()
    vectors[:, -10:] = 3.3e38
    with self.assertRaisesRegex(divergence.TrainingDiverged, "after round 4, client 'b'"):
      engine.train_alone(vectors, rounds[:1])
