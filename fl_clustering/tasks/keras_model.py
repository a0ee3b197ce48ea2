"""A Keras model of the user's own as a `model.Model`.

Keras layers keep their weights in variables.  A `Model` is a function of its parameters.
So the parameters take the variables' places in the layers while the model is called.
"""

import concurrent.futures
import contextlib
import functools
import random
from typing import Any, Callable, Iterator, Sequence

import numpy as np
import tensorflow as tf

from clustering_basics import randomness
from clustering_basics import validate
from fl_clustering.tasks import model as model_lib

# Operations of TensorFlow that draw numbers from a hidden state.
_RANDOM_OPERATIONS = (
    "Multinomial", "ParameterizedTruncatedNormal", "Random", "Rng", "StatefulRandom",
    "StatefulStandard", "StatefulTruncated", "StatefulUniform", "TruncatedNormal",
)


def keras_model(
    build: "Callable[[], tf.keras.Model]", name: str = "keras"
) -> model_lib.Model:
  """Returns a user's Keras model as one that trains as all others do.

  It starts from what the layers' initializers draw with the run's seed, or from weights
  that `build` loads.  Its loss is the cross-entropy of its outputs, which are logits.
  `tf.keras.layers.Dropout` draws with the run's seed.

  Args:
    build: A function without arguments that returns a `tf.keras.Model` with one input of
      a fixed shape, float32 or int32, and one output of shape (None, num_classes): logits,
      without softmax.  It is called anew for every model to start from.

  Raises:
    TypeError: If `build` is no such function.
    ValueError: If the model is no function of its weights, its input and the seed alone
      (batch normalization is none), or has parts that the training would leave out.
  """
  if isinstance(build, tf.keras.Model) or not callable(build):
    raise TypeError(
        "`build` must be a function that returns a tf.keras.Model, got "
        f"{type(build).__name__}; use `lambda: ...`."
    )
  keras = build()
  if not isinstance(keras, tf.keras.Model):
    raise TypeError(f"`build` must return a tf.keras.Model, got {type(keras).__name__}.")
  _check_layers(keras)
  dropouts = [
      layer for layer in keras.submodules if type(layer) is tf.keras.layers.Dropout
  ]
  variables = {f"{i}/{one.name}": one for i, one in enumerate(keras.trainable_variables)}
  last = [layer.trainable_variables for layer in keras.layers if layer.trainable_variables][-1:]
  ids_of_last = {id(variable) for of_last in last for variable in of_last}

  def logits(parameters: Sequence[Any], inputs: Any, dropout_seed: Any = None) -> Any:
    tensors = {
        id(variable): tf.convert_to_tensor(parameter)
        for variable, parameter in zip(keras.trainable_variables, parameters)
    }
    changed = [
        (module, name, tensors[id(value)])
        for module in (keras, *keras.submodules)
        for name, value in vars(module).items()
        if id(value) in tensors
    ]
    changed += [
        (layer, "call", functools.partial(_dropout, layer, place, dropout_seed))
        for place, layer in enumerate(dropouts)
    ]
    with _attributes(changed):
      return keras(inputs, training=dropout_seed is not None)

  def draw(unused_shapes: Any, rng: np.random.Generator) -> list[np.ndarray]:
    return _initial_weights(build, int(rng.integers(2**32)))

  model = model_lib.Model(
      name=name,
      input_shape=tuple(keras.input_shape[1:]),
      input_dtype=keras.inputs[0].dtype.name,
      num_classes=keras.output_shape[-1],
      parameter_shapes={name: tuple(one.shape) for name, one in variables.items()},
      uses_dropout=any(layer.rate for layer in dropouts),
      logits=model_lib.for_any_batch(logits),
      draw=draw,
      head=tuple(name for name, one in variables.items() if id(one) in ids_of_last),
  )
  _check_function(model)
  _check_draw(model)
  return model


def _check(is_followed: bool, rule: str, value: Any) -> None:
  """Raises a ValueError unless the model follows a rule; later rules may rest on it."""
  if not is_followed:
    raise validate.error("build", f"return a model {rule}", value)


def _check_layers(keras: Any) -> None:
  _check(
      keras.built and keras.inputs is not None,
      "whose input shape is known: begin with tf.keras.Input", keras.name,
  )
  into, dtype, out = keras.input_shape, keras.inputs[0].dtype, keras.output_shape
  is_simple = (
      len(keras.inputs) == len(keras.outputs) == 1 and len(into) > 1 and None not in into[1:]
      and dtype in (tf.float32, tf.int32) and len(out) == 2 and (out[1] or 0) >= 2
  )
  _check(
      is_simple,
      "with one input, float32 or int32, whose shape is fixed but for the batch, and one output of "
      "the shape (None, num_classes), with two classes or more",
      f"{dtype.name} {into} -> {out}",
  )
  last = keras.layers[-1]
  end = getattr(getattr(last, "activation", None), "__name__", type(last).__name__)
  is_logits = not isinstance(last, tf.keras.layers.Softmax) and end not in ("softmax", "sigmoid")
  _check(is_logits, "that ends in logits, without softmax or sigmoid", end)
  others = [variable.name for variable in keras.non_trainable_variables]
  _check(
      not others,
      "all of whose weights are trained; batch normalization and other layers with a state are "
      "none, layer normalization is", others[0] if others else None,
  )
  _check(bool(keras.trainable_variables), "with weights", keras.name)
  _check(
      not keras.losses, "without regularizers, which the clients' training leaves out", keras.name
  )
  for variable in keras.trainable_variables:
    _check(variable.dtype == tf.float32, "whose weights are float32", variable.dtype.name)


@contextlib.contextmanager
def _attributes(changed: Sequence[tuple[Any, str, Any]]) -> Iterator[None]:
  """Gives layers other attributes, and those that they had back at the end."""
  # Not by setattr(), with which a layer takes notice of its new weights.
  before = [(vars(layer), name, vars(layer).get(name)) for layer, name, _ in changed]
  for layer, name, value in changed:
    vars(layer)[name] = value
  try:
    yield
  finally:
    for attributes, name, value in before:
      if value is None:
        del attributes[name]
      else:
        attributes[name] = value


def _dropout(layer: Any, place: int, seed: Any, inputs: Any, training: Any = None) -> Any:
  if seed is None or not layer.rate or not training:
    return inputs
  # In Keras, None stands for the inputs' own size.
  noise_shape = layer.noise_shape and [
      tf.shape(inputs)[axis] if size is None else size
      for axis, size in enumerate(layer.noise_shape)
  ]
  # A mask of its own for each layer and step, as seeds may be counted up.
  return tf.nn.experimental.stateless_dropout(
      inputs, layer.rate, tf.random.experimental.stateless_fold_in(seed, place),
      noise_shape=noise_shape,
  )


def _check_function(model: model_lib.Model) -> None:
  """Traces the model as a training does, and checks that it is a pure function."""

  @tf.function
  def train(parameters: Any, inputs: Any, seed: Any) -> Any:
    with tf.GradientTape() as tape:
      tape.watch(parameters)
      total = tf.reduce_sum(model.logits(parameters, inputs, seed))
    return tape.gradient(total, parameters)

  # In a graph, as in TFF's computations: what was computed outside can't be used there.
  with tf.Graph().as_default():
    traced = train.get_concrete_function(
        [tf.TensorSpec(shape) for shape in model.parameter_shapes.values()],
        tf.TensorSpec((None, *model.input_shape), model.input_dtype),
        tf.TensorSpec((2,), tf.int32),
    )
  graph = traced.graph.as_graph_def()
  for node in (*graph.node, *(node for f in graph.library.function for node in f.node_def)):
    _check(
        not node.op.startswith(_RANDOM_OPERATIONS),
        "that is random by tf.keras.layers.Dropout alone, which draws with the run's seed",
        node.name,
    )
  for variable in traced.graph.variables:
    _check(False, "whose layers hold each weight as an attribute, not in a list", variable.name)
  for name, gradient in zip(model.parameter_shapes, traced.structured_outputs):
    _check(gradient is not None, "all of whose weights change the output", name)


def _check_draw(model: model_lib.Model) -> None:
  once, again = (
      model.initial_parameters(randomness.generator(0, "keras")) for _ in range(2)
  )
  shapes = [one.shape for one in once]
  _check(shapes == list(model.parameter_shapes.values()), "of the same weights each time", shapes)
  _check(
      all(map(np.array_equal, once, again)),
      "whose first weights come from Keras' initializers, which follow the run's seed, or are "
      "always the same",
      "others with the same seed",
  )


def _initial_weights(build: Callable[[], Any], seed: int) -> list[np.ndarray]:
  """Returns a new model's weights; Keras' initializers seed themselves by `random`."""
  state = random.getstate()
  random.seed(seed)
  try:
    # `tf.keras.utils.set_random_seed` leaves another source of seeds, in its thread alone.
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
      keras = pool.submit(build).result()
  finally:
    random.setstate(state)
  return [variable.numpy() for variable in keras.trainable_variables]
