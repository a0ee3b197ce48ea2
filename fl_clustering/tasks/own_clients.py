"""Tasks of a user's own clients, from arrays or from TFF's client data.

Nobody can top up a client that is given.  So one with fewer than two examples is left out,
with a warning, and more than a quarter of such clients is an error, as in `splitting.py`.
"""

import dataclasses
from typing import Mapping, Optional, Union

import numpy as np

from clustering_basics import validate
from fl_clustering.tasks import federated_task
from fl_clustering.tasks import model as model_lib
from fl_clustering.tasks import models
from fl_clustering.tasks import shares
from fl_clustering.tasks import splitting


def task_from_arrays(
    clients: Mapping,
    model: Union[str, model_lib.Model],
    *,
    test_share: float = 0.2,
    seed: int = 0,
    global_test=None,
    num_classes: Optional[int] = None,
    groups: Optional[Mapping] = None,
    class_names=None,
    feature_names=None,
    name: str = "own clients",
    **model_options,
) -> federated_task.FederatedTask:
  """Returns a task of the user's own clients.

  Args:
    clients: From each client's id (text or a number) to its `(x, y)`, which are split by
      `seed` into training and test data, or to `((x_train, y_train), (x_test, y_test))`.
      `x` has the shape (num_examples, ...), alike for all clients: uint8 images of shape
      (num_examples, height, width, channels), which the model gets in [0, 1], or numbers,
      which it gets as float32, or as int32 if it is a Keras model of that.  `y` are
      integers >= 0 of shape (num_examples,).
    model: A name in `models.MODELS`, or a `model.Model`, such as `keras_model` returns.
    test_share: The share of each client's examples that is test data, in (0, 1).
    seed: Decides which examples are test data.
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
  if not clients:
    raise validate.error("clients", "hold at least one client", dict(clients))
  parts = {f"{client_id}": _parts(client_id, data) for client_id, data in clients.items()}
  if len(parts) < len(clients):
    raise validate.error("clients", "have ids that differ as text", list(clients))
  if global_test is not None:
    global_test = _pair("`global_test`", global_test)
  everything = [pair for of_client in parts.values() for pair in of_client]
  everything += [global_test] if global_test is not None else []
  _check_shapes(parts)
  dtype = _dtype([x for x, _ in everything], model)
  parts, warnings = _large_enough(parts)
  group_of = {f"{client_id}": group for client_id, group in (groups or {}).items()}
  made = tuple(
      _client(client_id, [_examples(client_id, pair, dtype) for pair in of_client],
              seed, group_of.get(client_id), test_share)
      for client_id, of_client in parts.items()
  )
  if global_test is None:
    pooled, pooled_source = _pooled(made), "the clients' pooled test data"
  else:
    pooled = _examples("global_test", global_test, dtype)
    pooled_source = "given with the clients"
  if num_classes is None:
    num_classes = _num_classes(model, class_names, [y for _, y in everything])
  return federated_task.FederatedTask(
      name=name,
      source=f"{sum(len(y) for _, y in everything):,} examples ({name})",
      partition="natural",
      clients=made,
      global_test=pooled,
      global_test_source=pooled_source,
      num_classes=num_classes,
      model=_model(model, pooled, num_classes, model_options),
      warnings=warnings,
      class_names=None if class_names is None else tuple(class_names),
      feature_names=None if feature_names is None else tuple(feature_names),
  )


def task_from_client_data(
    client_data, model, *, features_key=None, label_key=None, **arguments
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
  if isinstance(spec, Mapping):
    for argument, key in (("features_key", features_key), ("label_key", label_key)):
      if key not in spec:
        raise validate.error(argument, f"be one of {', '.join(spec)}", key)
    keys = features_key, label_key
  elif isinstance(spec, tuple) and len(spec) == 2:
    for argument, key in (("features_key", features_key), ("label_key", label_key)):
      if key is not None:
        raise validate.error(argument, "be left out for examples that are pairs", key)
    keys = 0, 1
  else:
    raise validate.error("client_data", "hold pairs or dicts", spec)

  def arrays(client_id):
    dataset = client_data.create_tf_dataset_for_client(client_id)
    examples = list(dataset.as_numpy_iterator())
    return tuple(
        np.array([example[key] for example in examples], spec[key].dtype.as_numpy_dtype)
        for key in keys
    )

  return task_from_arrays(
      {client_id: arrays(client_id) for client_id in client_data.client_ids}, model, **arguments
  )


def _parts(client_id, data):
  """Returns a client's (x, y) as a list of one pair, or of two: training and test data."""
  owner = f"client {client_id!r}"
  if not isinstance(data, (tuple, list)) or len(data) != 2:
    raise validate.error("clients", f"hold (x, y) for {owner}", type(data).__name__)
  if not all(isinstance(part, tuple) for part in data):
    return [_pair(owner, data)]
  return [_pair(owner, part) for part in data]


def _pair(owner, pair):
  """Returns (x, y) as arrays that are as long as each other."""
  if not isinstance(pair, (tuple, list)) or len(pair) != 2:
    raise validate.error("clients", f"hold (x, y) for {owner}", type(pair).__name__)
  x, y = map(np.asarray, pair)
  if x.dtype.kind not in "biuf":
    raise TypeError(f"`x` must be numbers for {owner}, got {x.dtype}.")
  if y.dtype.kind not in "iu":
    raise TypeError(
        f"`y` must be integers from 0 for {owner}, got {y.dtype}; np.unique(labels, "
        "return_inverse=True) gives numbers to names."
    )
  if x.ndim < 2 or y.shape != x.shape[:1]:
    raise validate.error(
        "y", f"have a label for each example of `x`, of shape {x.shape}, for {owner}", y.shape
    )
  return x, y


def _check_shapes(parts):
  shapes = {client_id: of_client[0][0].shape[1:] for client_id, of_client in parts.items()}
  first, expected = next(iter(shapes.items()))
  for client_id, shape in shapes.items():
    if shape != expected:
      raise validate.error(
          "x", f"hold examples of the shape {expected} for {client_id!r}, as for {first!r}", shape
      )


def _dtype(arrays, model):
  """Returns the type of features that all arrays become."""
  wanted = model.input_dtype if isinstance(model, model_lib.Model) else "float32"
  are_images = all(x.dtype == np.uint8 and x.ndim == 4 for x in arrays)
  if are_images and wanted != "int32":
    return "uint8"
  if wanted == "int32" and any(x.dtype.kind == "f" for x in arrays):
    raise TypeError("`x` must be integers for a model of int32, got floating-point numbers.")
  return "float32" if wanted == "uint8" else wanted


def _examples(owner, pair, dtype):
  x, y = pair
  with np.errstate(over="ignore"):  # It is told as a number that is not finite.
    features = x.astype(dtype)
  if dtype == "int32" and not np.array_equal(features, x):
    raise validate.error("x", f"fit into int32 for {owner!r}", x[features != x][0])
  try:
    return federated_task.Examples(features, y)
  except ValueError as e:
    raise ValueError(f"{str(e)[:-1]} for {owner!r}.") from e


def left_out_warnings(client_ids, kept):
  """Returns a tuple of warnings of the clients that can't be trained and tested.

  Args:
    client_ids: The ids of all clients.
    kept: Those that can be.

  Raises:
    ValueError: If more than a quarter of the clients can't be.
  """
  left_out = [client_id for client_id in client_ids if client_id not in kept]
  if not left_out:
    return ()
  if len(left_out) > splitting.MAX_SMALL_FRACTION * len(client_ids):
    raise validate.error(
        "clients",
        "hold an example for training and one for testing for three in four of them",
        f"{len(left_out)} of {len(client_ids)} without",
    )
  names = ", ".join(left_out[:5]) + (", ..." if len(left_out) > 5 else "")
  return (
      f"{len(left_out)} of {len(client_ids)} clients ({names}) are left out: they have no example "
      "for training and another one for testing.",
  )


def _large_enough(parts):
  """Returns the clients that can be trained and tested, and warnings of the others."""
  kept = {
      client_id: of_client
      for client_id, of_client in parts.items()
      if len(of_client) == 2 and all(len(y) for _, y in of_client)
      or len(of_client) == 1 and len(of_client[0][1]) >= shares.MIN_EXAMPLES_PER_CLIENT
  }
  return kept, left_out_warnings(list(parts), kept)


def _client(client_id, examples, seed, group, test_share):
  if len(examples) == 1:
    return splitting.client(client_id, examples[0], seed, group, test_share)
  return federated_task.ClientData(client_id, *examples, group)


def _pooled(clients):
  parts = [client.test for client in clients]
  return federated_task.Examples(
      np.concatenate([part.features for part in parts]),
      np.concatenate([part.labels for part in parts]),
  )


def _num_classes(model, class_names, labels):
  if isinstance(model, model_lib.Model):
    return model.num_classes
  if class_names is not None:
    return len(class_names)
  return max(int(max(y.max(initial=0) for y in labels)) + 1, 2)


def _model(model, examples, num_classes, model_options):
  if isinstance(model, model_lib.Model):
    if model_options:
      raise validate.error(
          next(iter(model_options)), "be given only with the name of a model", model.name
      )
    # What takes float32 takes bytes in [0, 1].
    return dataclasses.replace(model, input_dtype=examples.features.dtype.name)
  unknown = [option for option in model_options if option not in models.OPTIONS]
  if unknown:
    raise TypeError(f"task_from_arrays() has no argument `{unknown[0]}`.")
  return models.build(
      model, examples.features.shape[1:], num_classes, examples.features.dtype.name,
      **model_options,
  )
