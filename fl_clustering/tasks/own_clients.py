"""Tasks of a user's own clients, from arrays or from TFF's client data.

A user's client can't be given extra examples.  So one with fewer than two is left out, with a
warning, and more than a quarter of such clients is an error, as in `partition.py`.
"""

import dataclasses
from typing import Any, Hashable, Iterable, Mapping, Sequence

import numpy as np

from clustering_basics import validate
from dp_clustering import data_frames
from fl_clustering.tasks import examples as examples_lib
from fl_clustering.tasks import federated_task
from fl_clustering.tasks import held_out
from fl_clustering.tasks import model as model_lib
from fl_clustering.tasks import models
from fl_clustering.tasks import shares

# Features and labels that are as long as each other.
_Pair = tuple[np.ndarray, np.ndarray]


def task_from_arrays(
    clients: Mapping[Hashable, Sequence],
    model: str | model_lib.Model,
    *,
    test_share: float = 0.2,
    validation_share: float = held_out.VALIDATION_SHARE,
    seed: int = 0,
    global_test: Sequence | None = None,
    num_classes: int | None = None,
    groups: Mapping[Hashable, int] | None = None,
    class_names: Iterable[str] | None = None,
    feature_names: Iterable[str] | None = None,
    name: str = "own clients",
    **model_options: Any,
) -> federated_task.FederatedTask:
  """Returns a task of the user's own clients.

  Args:
    clients: From each client's id (text or a number) to its `(x, y)`, which are split by
      `seed` into training and test data, or to `((x_train, y_train), (x_test, y_test))`.
      `x` has the shape (num_examples, ...), alike for all clients: uint8 images of shape
      (num_examples, height, width, channels), which the model gets in [0, 1], or numbers,
      which it gets as float32, or as int32 if it is a Keras model of that.  Data frames must have
      the same columns in the same order.  `y` are
      integers >= 0 of shape (num_examples,).
    model: A name in `models.MODELS`, or a `model.Model`, such as `keras_model` returns.
    test_share: The share of each client's examples that is test data, in (0, 1).
    validation_share: The share of each client's training examples, in [0, 1), by which a run makes
      its choices and on which it does not train.  Clients with fewer than 20 have none.
    seed: Decides which examples these are.
    global_test: `(x, y)` that belong to no client; `None` = all clients' test data.
    num_classes: The labels are below it; `None` = the model's number of outputs, the
      number of `class_names`, or the largest label + 1.
    groups: From each client's id to the number of its true group, if these are known: the
      clusters are compared with it.
    class_names: What the labels mean, in their order.
    feature_names: The columns' names, where an example is a row of a table.
    name: What the data are called.
    **model_options: Options of a model that is named, such as `hidden_units="64"`.

  Raises:
    TypeError: If an array has a type that can't be used.
    ValueError: If the arrays don't fit each other or the model, or more than a quarter of
      the clients have fewer than two examples.
  """
  validate.between(0, 1, test_share=test_share)
  validate.integer(0, seed=seed)
  validate.within(0, 1, validation_share=validation_share)
  if not clients:
    raise validate.error("clients", "hold at least one client", dict(clients))
  parts = {f"{client_id}": _parts(client_id, data) for client_id, data in clients.items()}
  if len(parts) < len(clients):
    raise validate.error("clients", "have ids that differ as text", list(clients))
  everything = [pair for of_client in parts.values() for pair in of_client]
  everything += [_pair("`global_test`", global_test)] if global_test is not None else []
  _check_columns(clients, global_test)
  _check_shapes(parts)
  dtype = _dtype([x for x, _ in everything], model)
  kept = {client_id: pairs for client_id, pairs in parts.items() if _is_large_enough(pairs)}
  warnings = held_out.left_out_warnings(list(parts), kept)
  group_of = {f"{client_id}": group for client_id, group in (groups or {}).items()}
  unknown = [client_id for client_id in group_of if client_id not in parts]
  if unknown:
    raise validate.error("groups", "hold only clients' ids", unknown[0])
  made = []
  for client_id, pairs in kept.items():
    first, *others = (examples_lib.converted(client_id, x, y, dtype) for x, y in pairs)
    group = group_of.get(client_id)
    if others:
      made.append(federated_task.ClientData(client_id, first, others[0], group))
    else:
      made.append(held_out.split_client(client_id, first, seed, group, test_share))
  if global_test is None:
    pooled = examples_lib.pooled(client.test for client in made)
    pooled_source = "the clients' pooled test data"
  else:
    x, y = everything[-1]
    pooled = examples_lib.converted("global_test", x, y, dtype)
    pooled_source = "given with the clients"
  class_names = None if class_names is None else tuple(class_names)
  if num_classes is None:
    num_classes = _num_classes(model, class_names, [y for _, y in everything])
  task = federated_task.FederatedTask(
      name=name,
      source=f"{sum(len(y) for _, y in everything):,} examples ({name})",
      partition="natural",
      clients=tuple(made),
      global_test=pooled,
      global_test_source=pooled_source,
      num_classes=num_classes,
      model=_model(model, pooled, num_classes, model_options),
      warnings=warnings,
      class_names=class_names,
      feature_names=None if feature_names is None else tuple(feature_names),
  )
  return held_out.with_validation(task, validation_share, seed)


def task_from_client_data(
    client_data: Any,
    model: str | model_lib.Model,
    *,
    features_key: str | None = None,
    label_key: str | None = None,
    **arguments: Any,
) -> federated_task.FederatedTask:
  """Returns a task of the clients of TFF's client data.

  Args:
    client_data: A `tff.simulation.datasets.ClientData` whose examples, one by one and not
      in batches, are pairs of features and label, or dicts.
    model: As of `task_from_arrays`.
    features_key: The key of the features, if an example is a dict.
    label_key: The key of the label.
    **arguments: As of `task_from_arrays`.

  Raises:
    TypeError: As of `task_from_arrays`.
    ValueError: If the examples don't have these keys, or as of `task_from_arrays`.
  """
  spec = client_data.element_type_structure
  asked = {"features_key": features_key, "label_key": label_key}
  keys: tuple[Any, ...] = (0, 1)
  if isinstance(spec, Mapping):
    for argument, key in asked.items():
      if key not in spec:
        raise validate.error(argument, f"be one of {', '.join(spec)}", key)
    keys = features_key, label_key
  elif isinstance(spec, tuple) and len(spec) == 2:
    for argument, key in asked.items():
      if key is not None:
        raise validate.error(argument, "be left out for examples that are pairs", key)
  else:
    raise validate.error("client_data", "hold pairs or dicts", spec)

  def arrays(client_id: str) -> tuple[np.ndarray, ...]:
    dataset = client_data.create_tf_dataset_for_client(client_id)
    examples = list(dataset.as_numpy_iterator())
    return tuple(
        np.array([example[key] for example in examples], spec[key].dtype.as_numpy_dtype)
        for key in keys
    )

  return task_from_arrays(
      {client_id: arrays(client_id) for client_id in client_data.client_ids}, model, **arguments
  )


def _parts(client_id: Hashable, data: Any) -> list[_Pair]:
  """Returns a client's (x, y) as a list of one pair, or of two: training and test data."""
  owner = f"client {client_id!r}"
  if not isinstance(data, (tuple, list)) or len(data) != 2:
    raise validate.error("clients", f"hold (x, y) for {owner}", type(data).__name__)
  return [_pair(owner, part) for part in _parts_of(data)]


def _parts_of(data: Any) -> list[Any]:
  """Returns a client's pairs as they are given: one, or training and test data."""
  return list(data) if all(isinstance(part, tuple) for part in data) else [data]


def _pair(owner: str, pair: Any) -> _Pair:
  """Returns (x, y) as arrays that are as long as each other."""
  if not isinstance(pair, (tuple, list)) or len(pair) != 2:
    raise validate.error("clients", f"hold (x, y) for {owner}", type(pair).__name__)
  x, y = map(np.asarray, pair)
  if x.dtype.kind not in "biuf":
    raise TypeError(f"`x` must be numbers for {owner}, got {x.dtype}.")
  if y.dtype.kind not in "iu":
    raise TypeError(
        f"`y` must be integers from 0 for {owner}, got {y.dtype}; "
        "np.unique(labels, return_inverse=True) gives numbers to names."
    )
  if x.ndim < 2 or y.shape != x.shape[:1]:
    raise validate.error(
        "y", f"have a label for each example of `x`, of shape {x.shape}, for {owner}", y.shape
    )
  return x, y


def _check_columns(clients: Mapping[Hashable, Sequence], global_test: Sequence | None) -> None:
  """Raises a ValueError unless data frames have the same columns in the same order."""
  given = [
      (f"client {client_id!r}", x)
      for client_id, data in clients.items() for x, _ in _parts_of(data)
  ]
  given += [] if global_test is None else [("`global_test`", global_test[0])]
  names = [data_frames.column_names(x, f"`x` for {owner}") for owner, x in given]
  for (owner, _), own in zip(given, names):
    if own != names[0]:
      rule = f"have the columns {names[0]}, in this order, for {owner} as for {given[0][0]}"
      raise validate.error("x", rule, own)


def _check_shapes(parts: Mapping[str, Sequence[_Pair]]) -> None:
  shapes = {client_id: of_client[0][0].shape[1:] for client_id, of_client in parts.items()}
  first, expected = next(iter(shapes.items()))
  for client_id, shape in shapes.items():
    if shape != expected:
      raise validate.error(
          "x", f"hold examples of the shape {expected} for {client_id!r}, as for {first!r}", shape
      )


def _dtype(arrays: Sequence[np.ndarray], model: str | model_lib.Model) -> str:
  """Returns the type of features that all arrays become."""
  wanted = model.input_dtype if isinstance(model, model_lib.Model) else "float32"
  are_images = all(x.dtype == np.uint8 and x.ndim == 4 for x in arrays)
  if are_images and wanted != "int32":
    return "uint8"
  if wanted == "int32" and any(x.dtype.kind == "f" for x in arrays):
    raise TypeError("`x` must be integers for a model of int32, got floating-point numbers.")
  return "float32" if wanted == "uint8" else wanted


def _is_large_enough(parts: Sequence[_Pair]) -> bool:
  """Returns whether a client can be trained and tested."""
  if len(parts) == 1:
    return len(parts[0][1]) >= shares.MIN_EXAMPLES_PER_CLIENT
  return all(len(y) for _, y in parts)


def _num_classes(
    model: str | model_lib.Model, class_names: Sequence[str] | None,
    labels: Sequence[np.ndarray],
) -> int:
  if isinstance(model, model_lib.Model):
    return model.num_classes
  if class_names is not None:
    return len(class_names)
  return max(int(max(y.max(initial=0) for y in labels)) + 1, 2)


def _model(
    model: str | model_lib.Model, examples: examples_lib.Examples, num_classes: int,
    model_options: Mapping[str, Any],
) -> model_lib.Model:
  if isinstance(model, model_lib.Model):
    if model_options:
      raise validate.error(
          next(iter(model_options)), "be given only with the name of a model", model.name
      )
    # What takes float32 takes bytes in [0, 1].
    return dataclasses.replace(model, input_dtype=examples.dtype)
  unknown = [option for option in model_options if option not in models.OPTIONS]
  if unknown:
    raise TypeError(f"task_from_arrays() has no argument `{unknown[0]}`.")
  return models.build(
      model, examples.feature_shape, num_classes, examples.dtype, **model_options
  )
