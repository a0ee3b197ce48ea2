"""A Keras model of the user's own as a `model.Model`.

Keras layers keep their weights in variables.  A `Model` is a function of its parameters.
So the parameters take the variables' places in the layers while the model is called.
"""

import concurrent.futures
import contextlib
import random
from typing import Any, Callable, Iterator, Sequence

import numpy as np
import tensorflow as tf

from clustering_basics import randomness
from clustering_basics import validate
from fl_clustering.tasks import model as model_lib

_PROBABILITIES = ("softmax", "sigmoid")
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
  keras = _built(build)
  _check_ends(keras)
  _check_weights(keras)
  dropouts = [
      layer for layer in keras.submodules if type(layer) is tf.keras.layers.Dropout
  ]
  variables = keras.trainable_variables
  names = [f"{i}/{variable.name}" for i, variable in enumerate(variables)]

  def logits(parameters: Sequence[Any], inputs: Any, dropout_seed: Any = None) -> Any:
    parameters = [tf.convert_to_tensor(parameter) for parameter in parameters]
    with _parameters_in_place(keras, parameters), _seeded(dropouts, dropout_seed):
      return keras(inputs, training=dropout_seed is not None)

  def draw(unused_shapes: Any, rng: np.random.Generator) -> list[np.ndarray]:
    return _initial_weights(build, int(rng.integers(2**32)))

  model = model_lib.Model(
      name=name,
      input_shape=tuple(keras.input_shape[1:]),
      input_dtype=keras.inputs[0].dtype.name,
      num_classes=keras.output_shape[-1],
      parameter_shapes={
          name: tuple(variable.shape) for name, variable in zip(names, variables)
      },
      uses_dropout=any(layer.rate for layer in dropouts),
      logits=model_lib.for_any_batch(logits),
      draw=draw,
      head=_head(keras, names),
  )
  _check_function(model)
  _check_draw(model)
  return model


def _head(keras: Any, names: Sequence[str]) -> tuple[str, ...]:
  """Returns the names of the last layer's weights, given those of all."""
  of_layers = [layer.trainable_variables for layer in keras.layers if layer.trainable_variables]
  ids = {id(variable) for of_last in of_layers[-1:] for variable in of_last}
  return tuple(
      name for name, variable in zip(names, keras.trainable_variables) if id(variable) in ids
  )


def _error(rule: str, value: Any) -> ValueError:
  return validate.error("build", f"return a model {rule}", value)


def _built(build: Callable[[], Any]) -> Any:
  keras = build()
  if not isinstance(keras, tf.keras.Model):
    raise TypeError(f"`build` must return a tf.keras.Model, got {type(keras).__name__}.")
  if not keras.built or keras.inputs is None:
    raise _error("whose input shape is known: begin with tf.keras.Input", keras.name)
  return keras


def _check_ends(keras: Any) -> None:
  if len(keras.inputs) != 1 or len(keras.outputs) != 1:
    counts = f"{len(keras.inputs)} and {len(keras.outputs)}"
    raise _error("with one input and one output", counts)
  if None in keras.input_shape[1:] or len(keras.input_shape) < 2:
    raise _error("whose input shape is fixed but for the batch", keras.input_shape)
  if keras.inputs[0].dtype not in (tf.float32, tf.int32):
    raise _error("whose input is float32 or int32", keras.inputs[0].dtype.name)
  shape = keras.output_shape
  if len(shape) != 2 or (shape[1] or 0) < 2:
    raise _error("whose output has the shape (None, num_classes), with two classes or more", shape)
  last = keras.layers[-1]
  activation = getattr(getattr(last, "activation", None), "__name__", None)
  if isinstance(last, tf.keras.layers.Softmax) or activation in _PROBABILITIES:
    raise _error(
        "that ends in logits, without softmax or sigmoid", activation or type(last).__name__
    )


def _check_weights(keras: Any) -> None:
  names = [variable.name for variable in keras.non_trainable_variables]
  if names:
    raise _error(
        "all of whose weights are trained; batch normalization and other layers with a state "
        "are none, layer normalization is",
        names[0],
    )
  if not keras.trainable_variables:
    raise _error("with weights", keras.name)
  if keras.losses:
    raise _error("without regularizers, which the clients' training leaves out", keras.name)
  types = {variable.dtype.name for variable in keras.trainable_variables} - {"float32"}
  if types:
    raise _error("whose weights are float32", types.pop())


@contextlib.contextmanager
def _parameters_in_place(keras: Any, parameters: Sequence[Any]) -> Iterator[None]:
  """Puts tensors where the layers hold their variables, and the variables back."""
  tensors = {
      id(variable): parameter
      for variable, parameter in zip(keras.trainable_variables, parameters)
  }
  places = [
      (vars(module), attribute, value)
      for module in (keras, *keras.submodules)
      for attribute, value in vars(module).items()
      if id(value) in tensors
  ]
  # Not by setattr(), with which a layer takes notice of its new weights.
  for attributes, attribute, variable in places:
    attributes[attribute] = tensors[id(variable)]
  try:
    yield
  finally:
    for attributes, attribute, variable in places:
      attributes[attribute] = variable


@contextlib.contextmanager
def _seeded(dropouts: Sequence[Any], seed: Any) -> Iterator[None]:
  """Lets dropout layers draw with a seed; with None, they are not at work."""
  for place, layer in enumerate(dropouts):
    vars(layer)["call"] = _dropout_call(layer, place, seed)
  try:
    yield
  finally:
    for layer in dropouts:
      del vars(layer)["call"]


def _dropout_call(layer: Any, place: int, seed: Any) -> Callable[..., Any]:
  def call(inputs: Any, training: Any = None) -> Any:
    if seed is None or not layer.rate or not training:
      return inputs
    # A mask of its own for each layer and step, as seeds may be counted up.
    return tf.nn.experimental.stateless_dropout(
        inputs, layer.rate, tf.random.experimental.stateless_fold_in(seed, place),
        noise_shape=layer.noise_shape,
    )

  return call


def _check_function(model: model_lib.Model) -> None:
  """Traces the model as a training does and refuses what is no pure function."""

  @tf.function
  def train(parameters: Any, inputs: Any, seed: Any) -> Any:
    with tf.GradientTape() as tape:
      tape.watch(parameters)
      total = tf.reduce_sum(model.logits(parameters, inputs, seed))
    return tape.gradient(total, parameters)

  # In a graph, as in TFF's computations: what was computed outside can't be used there.
  with tf.Graph().as_default():
    try:
      traced = train.get_concrete_function(
          [tf.TensorSpec(shape) for shape in model.parameter_shapes.values()],
          tf.TensorSpec((None, *model.input_shape), model.input_dtype),
          tf.TensorSpec((2,), tf.int32),
      )
    except Exception as e:
      reason = str(e).strip().splitlines()[0] if str(e).strip() else type(e).__name__
      raise _error("that TensorFlow can run as a graph with other weights", reason) from e
  graph = traced.graph.as_graph_def()
  nodes = [*graph.node, *(node for f in graph.library.function for node in f.node_def)]
  for node in nodes:
    if node.op.startswith(_RANDOM_OPERATIONS):
      raise _error(
          "that is random by tf.keras.layers.Dropout alone, which draws with the run's seed",
          node.name,
      )
  if traced.graph.variables:
    raise _error(
        "whose layers hold each weight as an attribute, not in a list",
        traced.graph.variables[0].name,
    )
  for name, gradient in zip(model.parameter_shapes, traced.structured_outputs):
    if gradient is None:
      raise _error("all of whose weights change the output", name)


def _check_draw(model: model_lib.Model) -> None:
  once, again = (
      model.initial_parameters(randomness.generator(0, "keras")) for _ in range(2)
  )
  if [one.shape for one in once] != list(model.parameter_shapes.values()):
    raise _error("of the same weights each time", [one.shape for one in once])
  if not all(map(np.array_equal, once, again)):
    raise _error(
        "whose first weights come from Keras' initializers, which follow the run's seed, or "
        "are always the same",
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
