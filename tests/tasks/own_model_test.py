from absl.testing import parameterized
import jax
import jax.numpy as jnp
import numpy as np

from fl_clustering.tasks import own_model


def _init(key):
  keys = jax.random.split(key)
  return {
      "second": (jnp.zeros(3), jax.random.normal(keys[0], (4, 3))),
      "first": {"kernel": jax.random.normal(keys[1], (6, 4))},
  }


def _apply(parameters, inputs, key):
  hidden = jnp.tanh(inputs @ parameters["first"]["kernel"])
  if key is not None:
    hidden = jnp.where(jax.random.bernoulli(key, 0.5, hidden.shape), 2 * hidden, 0)
  bias, kernel = parameters["second"]
  return hidden @ kernel + bias


def _model(init=_init, apply=_apply, input_shape=(6,), **more):
  return own_model.jax_model(init, apply, input_shape, **more)


def _normalized(parameters, inputs, key):
  outputs = _apply(parameters, inputs, None)
  return outputs if key is None else outputs - outputs.mean(axis=0)


def _another_draw(parameters, inputs, key):
  return _apply(parameters, inputs, None) + np.random.normal(size=3).astype(np.float32)


class OwnModelTest(parameterized.TestCase):

  def test_describes_itself(self):
    model = _model(head=lambda parameters: parameters["second"], name="own")
    shapes = list(model.parameter_shapes.values())
    self.assertEqual(shapes, [(6, 4), (3,), (4, 3)])  # JAX sorts the keys.
    self.assertEqual(model.head, tuple(model.parameter_shapes)[1:])
    self.assertEqual((model.name, model.num_classes, model.num_parameters), ("own", 3, 39))
    self.assertEmpty(_model().head)

  def test_starts_from_what_the_generator_draws(self):
    first, same, other = (
        _model().initial_parameters(np.random.default_rng(seed)) for seed in (0, 0, 1)
    )
    self.assertEqual([one.shape for one in first], list(_model().parameter_shapes.values()))
    for one, again in zip(first, same):
      np.testing.assert_array_equal(one, again)
    self.assertFalse(np.array_equal(first[0], other[0]))

  def test_a_flat_list_of_its_parameters_gives_its_logits(self):
    model, rng = _model(), np.random.default_rng(0)
    parameters, inputs = model.initial_parameters(rng), rng.random((5, 6), np.float32)
    tree = {"first": {"kernel": parameters[0]}, "second": tuple(parameters[1:])}
    for key in (None, jax.random.PRNGKey(3)):
      np.testing.assert_array_equal(
          model.jax_logits(parameters, inputs, key), _apply(tree, inputs, key)
      )

  def test_takes_integers(self):
    model = _model(
        lambda key: [jnp.zeros((9, 3))], lambda own, x, key: own[0][x].sum(axis=1), (4,),
        input_dtype="int32",
    )
    self.assertEqual((model.input_dtype, model.num_classes), ("int32", 3))

  # And a word of what the message names.
  @parameterized.parameters(
      ("init", "batch_stats", {"init": lambda key: {"params": 0, "batch_stats": 0}}),
      ("init", "int32", {"init": lambda key: [jnp.zeros(3), jnp.zeros(3, jnp.int32)]}),
      ("init", "function", {"init": lambda key: [jnp.zeros(3), lambda: 0]}),
      ("init", "float32", {"init": lambda key: {}}),
      ("init", "finite", {"init": lambda key: [jnp.full(3, jnp.nan)]}),
      ("init", "same key", {"init": lambda key: [np.random.random(3).astype(np.float32)]}),
      ("apply", "alone", {"apply": lambda *of: (_apply(*of), {})}),
      ("apply", "classes", {"apply": lambda *of: _apply(*of)[:, :1]}),
      ("apply", "float32", {"apply": lambda *of: _apply(*of).astype(jnp.bfloat16)}),
      ("apply", "beside", {"apply": _normalized}),
      ("apply", "beside", {"apply": _another_draw}),
      ("head", "part", {"head": lambda parameters: 7}),
      ("head", "part", {"head": lambda parameters: ()}),
      ("input_shape", "integers", {"input_shape": 6}),
      ("input_shape", "integers", {"input_shape": (None, 6)}),
      ("input_dtype", "uint8", {"input_dtype": "float64"}),
  )
  def test_refuses(self, argument, word, arguments):
    with self.assertRaisesRegex(ValueError, f"^`{argument}`.*{word}") as raised:
      _model(**arguments)
    self.assertNotIn("\n", str(raised.exception))

  @parameterized.parameters({"init": None}, {"apply": {}}, {"head": "second"})
  def test_refuses_what_is_no_function(self, **arguments):
    with self.assertRaisesRegex(TypeError, f"^`{next(iter(arguments))}`"):
      _model(**arguments)
