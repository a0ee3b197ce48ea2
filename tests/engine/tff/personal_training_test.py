"""Training of clients' own models; `tests/methods/personal_test.py` compares them with NumPy."""

from absl.testing import absltest
import numpy as np

from fl_clustering.engine import divergence
from fl_clustering.engine import participation
from fl_clustering.engine import personalization
from fl_clustering.engine.tff import client_update
from tests import letters
from tests import local_runtime
from tests import small_task
from tests.engine.tff import small_engine
from tests.engine.tff import small_messages

# Client "c" does not take part.
_ALL, _ROUND = np.arange(5), participation.Round(4, letters.clients("abde"), 2)
_TASK = small_task.small_task()

setUpModule = local_runtime.use


def _own_models(task):
  """Returns the clients' models and a common one."""
  rng = np.random.default_rng(0)
  vectors = rng.normal(0, 0.1, (len(task.clients) + 1, task.num_parameters))
  vectors = vectors.astype(np.float32)
  return vectors[:-1], vectors[-1]


def _read_only(array):
  array = array.copy()
  array.flags.writeable = False
  return array


class TrainOwnTest(absltest.TestCase):

  def test_without_anything_is_training_alone(self):
    own, common = _own_models(_TASK)
    how = personalization.Personalization()
    found, _, losses = small_engine.engine().train_own(own.copy(), _ALL, _ROUND, common, how)
    expected, made = small_engine.engine().train_alone(own.copy(), [_ROUND])
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-7)
    np.testing.assert_array_equal(losses.values, made[0].losses[losses.clients])

  def test_new_models_take_the_place_of_those_before_unless_they_are_read_only(self):
    own, common = _own_models(_TASK)
    how = personalization.Personalization(pull=0.1)
    arguments = _ALL, _ROUND, common, how
    before = own.copy()
    copied, _, _ = small_engine.engine().train_own(_read_only(own), *arguments)
    in_place, _, _ = small_engine.engine().train_own(own, *arguments)
    np.testing.assert_array_equal(copied, in_place)
    self.assertIs(in_place, own)
    self.assertGreater(np.abs(own - before).max(), 0)

  def test_small_messages_give_the_same(self):
    own, common = _own_models(_TASK)
    how = personalization.Personalization(pull=0.1)
    whole = small_engine.engine().train_own(_read_only(own), _ALL, _ROUND, common, how)
    with small_messages.limit(4 * 2 * _TASK.num_parameters):
      cut = small_engine.engine().train_own(_read_only(own), _ALL, _ROUND, common, how)
    np.testing.assert_array_equal(cut[0], whole[0])
    np.testing.assert_array_equal(cut[2].values, whole[2].values)

  def test_counts_steps_and_what_is_shared(self):
    task = small_task.small_task("mlp")
    own, common = _own_models(task)
    for how, num_epochs in (
        (personalization.Personalization(pull=0.1), 2),
        (personalization.Personalization(head_epochs=3), 5),
    ):
      engine_ = small_engine.engine(task)
      engine_.train_own(own.copy(), _ALL, _ROUND, common, how, num_shared=7)
      # Steps of 20 examples: of a, b, d and e.
      self.assertEqual(engine_.cost.values(), (num_epochs * (1 + 1 + 3 + 3), 4 * 4 * 7, 4 * 4 * 7))

  def test_says_whose_training_diverged(self):
    own, common = _own_models(_TASK)
    how = personalization.Personalization(pull=1e30)
    engine = small_engine.engine(options=client_update.LocalTraining(20, 1e25))
    with self.assertRaisesRegex(divergence.TrainingDiverged, "round 4.*'[abde]'"):
      engine.train_own(own, _ALL, _ROUND, common, how)


if __name__ == "__main__":
  absltest.main()
