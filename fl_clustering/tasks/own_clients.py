"""Tasks of a user's own clients, from arrays or from TFF's client data.

A user's client can't be given extra examples.  So one with fewer than two is left out, with a
warning, and more than a quarter of such clients is an error, as in `partition.py`.
"""

import dataclasses
from typing import Any, Hashable, Iterable, Mapping, NamedTuple, Sequence

from absl import logging
import numpy as np

from clustering_basics import validate
from dp_clustering import data_frames
from fl_clustering.tasks import examples as examples_lib
from fl_clustering.tasks import federated_task
from fl_clustering.tasks import held_out
from fl_clustering.tasks import model as model_lib
from fl_clustering.tasks import models
from fl_clustering.tasks import shares


class _Pair(NamedTuple):
  """Features and labels that are as long as each other, and the names of the features' columns."""

  owner: str
  x: np.ndarray
  y: np.ndarray
  columns: list[Any] | None


def task_from_arrays(
    clients: Mapping[Hashable, Sequence],
    model: str | model_lib.Model,
    *,
    test_share: float = held_out.TEST_SHARE,
    validation_share: float = held_out.VALIDATION_SHARE,
    seed: int = 0,
    global_test: Sequence | None = None,
    num_classes: int | None = None,
    groups: Mapping[Hashable, int] | None = None,
    class_names: Iterable[str] | None = None,
    name: str = "own clients",
    **model_options: Any,
) -> federated_task.FederatedTask:
  """Returns a task of the user's own clients.

  Args:
    clients: From each client's id (text or a number) to its `(x, y)`, which are split by
      `seed` into training and test data, or to `((x_train, y_train), (x_test, y_test))`.
      `x` has the shape (num_examples, ...), alike for all clients: uint8 images of shape
      (num_examples, height, width, channels), which the model gets in [0, 1], or numbers,
      which it gets as float32, or as int32 if it is a model of that.  Data frames must have
      the same columns in the same order.  `y` are
      integers >= 0 of shape (num_examples,).
    model: A name in `models.MODELS`, or a `model.Model`, such as `jax_model` returns.
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
    name: What the data are called.
    **model_options: Options of a model that is named, such as `hidden_units="64"`.

  Raises:
    TypeError: If an array has a type that can't be used.
    ValueError: If the arrays don't fit each other or the model, or more than a quarter of
      the clients have fewer than two examples.
  """
  held = held_out.HeldOut(test_share=test_share, validation_share=validation_share)
  validate.integer(0, seed=seed)
  if not clients:
    raise validate.error("clients", "hold at least one client", dict(clients))
  parts = {
      f"{client_id}": _pairs(f"client {client_id!r}", data) for client_id, data in clients.items()
  }
  if len(parts) < len(clients):
    raise validate.error("clients", "have ids that differ as text", list(clients))
  everything = [pair for pairs in parts.values() for pair in pairs]
  if global_test is not None:
    everything.append(_pair("`global_test`", global_test))
  _check_alike(everything)
  dtype = _dtype(everything, model)
  kept = {
      client_id: pairs for client_id, pairs in parts.items()
      if all(len(pair.y) >= shares.MIN_EXAMPLES_PER_CLIENT // len(pairs) for pair in pairs)
  }
  warnings = held_out.left_out_warnings(list(parts), kept)
  for text in warnings:
    logging.warning("%s", text)
  group_of = {f"{client_id}": group for client_id, group in (groups or {}).items()}
  unknown = [client_id for client_id in group_of if client_id not in parts]
  if unknown:
    raise validate.error("groups", "hold only clients' ids", unknown[0])
  made = []
  for client_id, pairs in kept.items():
    own = [examples_lib.converted(client_id, x, y, dtype) for _, x, y, _ in pairs]
    if len(own) == 1:
      dealt = held_out.deal_out(client_id, len(own[0]), seed, test_share)
      own = [own[0].take(positions) for positions in dealt]
    train, test = own
    made.append(federated_task.ClientData(client_id, train, test, group_of.get(client_id)))
  pooled_clients = federated_task.PooledClients.of(made)
  if global_test is None:
    pooled = pooled_clients.test.together
    pooled_source = "the clients' pooled test data"
  else:
    pooled = examples_lib.converted("global_test", everything[-1].x, everything[-1].y, dtype)
    pooled_source = "given with the clients"
  class_names = None if class_names is None else tuple(class_names)
  if num_classes is None:
    if isinstance(model, model_lib.Model):
      num_classes = model.num_classes
    elif class_names is not None:
      num_classes = len(class_names)
    else:
      num_classes = max(2, *(int(pair.y.max(initial=0)) + 1 for pair in everything))
  task = federated_task.FederatedTask(
      name=name,
      source=f"{sum(len(pair.y) for pair in everything):,} examples ({name})",
      partition="natural",
      clients=pooled_clients,
      global_test=pooled,
      global_test_source=pooled_source,
      num_classes=num_classes,
      model=_model(model, pooled, num_classes, model_options),
      warnings=warnings,
      class_names=class_names,
  )
  return held.of_task(task, seed)


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
      validate.one_of(spec, **{argument: key})
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
    found = [
        np.array([example[key] for example in examples], spec[key].dtype.as_numpy_dtype)
        for key in keys
    ]
    if not examples:
      found = [one.reshape(0, *spec[key].shape) for one, key in zip(found, keys)]
    return tuple(found)

  return task_from_arrays(
      {client_id: arrays(client_id) for client_id in client_data.client_ids}, model, **arguments
  )


def _pairs(owner: str, data: Any) -> list[_Pair]:
  """Returns a client's (x, y) as a list of one pair, or of two: training and test data."""
  is_split = isinstance(data, (tuple, list)) and all(isinstance(part, tuple) for part in data)
  return [_pair(owner, part) for part in (data if is_split and len(data) == 2 else [data])]


def _pair(owner: str, pair: Any) -> _Pair:
  if not isinstance(pair, (tuple, list)) or len(pair) != 2:
    raise validate.error("clients", f"hold (x, y) for {owner}", type(pair).__name__)
  columns = data_frames.column_names(pair[0], f"`x` for {owner}")
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
  return _Pair(owner, x, y, columns)


def _check_alike(pairs: Sequence[_Pair]) -> None:
  """Raises a ValueError unless all have the same columns, in the same order, and shape."""
  first, shape = pairs[0], pairs[0].x.shape[1:]
  for owner, x, _, columns in pairs:
    if columns != first.columns:
      rule = f"have the columns {first.columns}, in this order, for {owner} as for {first.owner}"
      raise validate.error("x", rule, columns)
    if x.shape[1:] != shape:
      rule = f"hold examples of the shape {shape} for {owner}, as for {first.owner}"
      raise validate.error("x", rule, x.shape[1:])


def _dtype(pairs: Sequence[_Pair], model: str | model_lib.Model) -> str:
  """Returns the type of features that all arrays become."""
  wanted = model.input_dtype if isinstance(model, model_lib.Model) else "float32"
  if wanted == "int32":
    if any(pair.x.dtype.kind == "f" for pair in pairs):
      raise TypeError("`x` must be integers for a model of int32, got floating-point numbers.")
    return wanted
  owners: dict[bool, str] = {}
  for pair in pairs:
    if len(pair.x):
      owners.setdefault(pair.x.dtype == np.uint8 and pair.x.ndim == 4, pair.owner)
  if len(owners) > 1:
    raise TypeError(
        f"`x` must be uint8 images for all clients or for none, got other numbers for "
        f"{owners[False]} and uint8 images, from 0 to 255, for {owners[True]}."
    )
  return "uint8" if True in owners else "float32"


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
