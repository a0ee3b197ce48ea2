"""A model of the user's own is trained and evaluated as the same one of layers is."""

import dataclasses

from absl.testing import absltest
import jax
import jax.numpy as jnp
import numpy as np

from fl_clustering.engine import participation
from fl_clustering.engine import personalization
from fl_clustering.engine.jax import engine as jax_engine
from fl_clustering.engine.jax import networks
from fl_clustering.tasks import models
from fl_clustering.tasks import own_clients
from fl_clustering.tasks import own_model
from tests import nightly

_SIZES = [(6, 7), (7,), (7, 3), (3,)]


def _init(key):
  return [0.5 * jax.random.normal(jax.random.fold_in(key, i), s) for i, s in enumerate(_SIZES)]


def _apply(parameters, inputs, key):
  if key is not None:
    keep = jax.random.uniform(jax.random.fold_in(key, 0), inputs.shape) >= 0.2
    inputs = jnp.where(keep, inputs / 0.8, 0)
  hidden = jax.nn.relu(inputs @ parameters[0] + parameters[1])
  return hidden @ parameters[2] + parameters[3]


class OwnModelTest(absltest.TestCase):

  def test_does_what_the_layers_do(self):
    rng = np.random.default_rng(0)
    task = own_clients.task_from_arrays({
        name: (rng.normal(size=(size, 6)), rng.integers(3, size=size))
        for name, size in zip("abc", (12, 30, 45))
    }, own_model.jax_model(_init, _apply, (6,), head=lambda parameters: parameters[2:]))
    of_layers = models.build("mlp", (6,), 3, "float32", hidden_units="7")
    of_layers = dataclasses.replace(
        of_layers, layers=(("dropout", 0.2), *of_layers.layers), uses_dropout=True
    )
    vectors = np.stack([
        np.concatenate([one.ravel() for one in task.model.initial_parameters(rng)])
        for _ in range(2)
    ])
    round_, found = participation.Round(1, np.arange(3), 3), []
    how = personalization.Personalization(pull=0.1, head_epochs=1)
    for model in (task.model, of_layers):
      engine = jax_engine.Engine(dataclasses.replace(task, model=model), 20, 0.1, seed=3)
      personal, _, _ = engine.train_own(vectors.copy(), np.array([2, 0]), round_, vectors[1], how)
      found.append((personal, engine.losses(personal, engine.clients)))
      if nightly.either(False, True):  # They compute the same outputs and gradients.
        trained, _ = engine.train(vectors, [np.array([0, 1]), np.array([1, 2])], round_)
        found[-1] += (
            trained, engine.moments(trained[0], engine.clients, by_label=True),
            *engine.confusions(trained, [engine.clients] * 2),
        )
    self.assertGreater(np.abs(found[0][0] - vectors).max(), 1e-2)
    for own, expected in zip(*found, strict=True):
      np.testing.assert_allclose(own, expected, atol=1e-6)

  def test_counts_what_its_gradient_keeps(self):
    # The inputs and their mask, two numbers of each hidden unit and its sign, or a little more.
    num_kept = networks.numbers_per_example(own_model.jax_model(_init, _apply, (6,)))
    self.assertBetween(num_kept, 6 + 7, 4 * (6 + 7 + 3))
