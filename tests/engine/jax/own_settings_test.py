"""What a user's program or environment has set of JAX changes nothing of the engine's numbers."""

import dataclasses

from absl.testing import absltest
import jax
import numpy as np

from fl_clustering.engine import participation
from fl_clustering.engine.jax import engine as jax_engine
from fl_clustering.engine.jax import evaluation
from tests import small_task

_USERS = {
    "jax_enable_x64": True,
    "jax_default_prng_impl": "rbg",
    "jax_threefry_partitionable": False,
    "jax_numpy_dtype_promotion": "strict",
    "jax_numpy_rank_promotion": "raise",
    "jax_transfer_guard": "disallow",
    "jax_debug_nans": True,
}


def _computed():
  """Returns arrays that the engine computes, random order and dropout among them."""
  task = small_task.small_task("logistic")
  model = dataclasses.replace(
      task.model, uses_dropout=True, layers=(("dropout", 0.5), *task.model.layers)
  )
  engine = jax_engine.engine_of_task(dataclasses.replace(task, model=model), 20, 0.1, 3)
  everyone, vectors = engine.clients, np.zeros((2, model.num_parameters), np.float32)
  vectors[1, 5] = np.nan
  round_ = participation.Round(1, everyone, 2)
  trained, (losses,) = engine.train(vectors[:1], [everyone], round_)
  each, _ = engine.train_each(vectors[[0, 0]], everyone[:2], round_)
  alone, (of_round,) = engine.train_alone(np.tile(trained, (5, 1)), [round_])
  return (
      trained, losses.values, each, alone, of_round.confusions,
      engine.losses(vectors, everyone), *engine.confusions(trained, [everyone]),
      engine.global_confusions(trained), engine.sketches(everyone, 8),
      evaluation.logits(model, trained[0], np.ones((3, 28, 28, 1), np.float32)),
  )


class OwnSettingsTest(absltest.TestCase):

  def test_the_users_settings_change_no_bit_and_stay(self):
    expected = _computed()
    for name, value in _USERS.items():
      self.addCleanup(jax.config.update, name, getattr(jax.config, name))
      jax.config.update(name, value)
    for one, other in zip(_computed(), expected, strict=True):
      self.assertEqual(one.dtype, other.dtype)
      np.testing.assert_array_equal(one, other)
    for name, value in _USERS.items():
      self.assertEqual(getattr(jax.config, name), value)


if __name__ == "__main__":
  absltest.main()
