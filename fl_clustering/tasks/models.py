"""The models by name.

To add a model: a frozen dataclass of its options, and a row in `MODELS`.  It says what it
is (`about`), which of `table_options.TASKS` it learns (`learns`) and which inputs it takes
(`takes`, a function of the shape and the type of an example's features), and is called as
(input_shape, num_classes, input_dtype) to return a `model.Model`.
"""

import dataclasses
import functools
from typing import Any, Mapping

from clustering_basics import options as options_lib
from clustering_basics import validate
from fl_clustering.tables import label_scale as label_scale_lib
from fl_clustering.tables import table_options
from fl_clustering.tasks import convolutions
from fl_clustering.tasks import dense
from fl_clustering.tasks import model as model_lib

MODELS: Mapping[str, Any] = {
    "cnn_small": convolutions.CnnSmall,
    "cnn": convolutions.Cnn,
    "mlp": dense.Mlp,
    "logistic": dense.Logistic,
    "linear": dense.Linear,
}

# From an option's name to the models that have it.
OPTIONS = options_lib.by_name(MODELS)


def choose(name: Any, **asked: Any) -> Any:
  """Returns a row of `MODELS` with its options; `None` where one is not asked for.

  Raises:
    ValueError: If the model does not take an option that is asked for, or not in its range.
  """
  validate.one_of(MODELS, model=name)
  given = {option: value for option, value in asked.items() if value is not None}
  for option, value in given.items():
    if option not in options_lib.of(MODELS[name]):
      users = " or ".join(OPTIONS[option])
      raise validate.error(option, f"be left out unless `model` is {users}", value)
  return MODELS[name](**given)


def check_learns(name: str, task: str) -> None:
  """Raises a ValueError unless a model learns this one of `table_options.TASKS`."""
  fitting = [other for other, row in MODELS.items() if task in row.learns]
  if name not in fitting:
    raise validate.error("model", f"be {' or '.join(fitting)} for a {task}", name)


def build(
    name: str, input_shape: tuple[int, ...], num_classes: int, input_dtype: str = "uint8",
    label_scale: label_scale_lib.LabelScale | None = None, **asked: Any,
) -> model_lib.Model:
  """Returns a model for examples of one kind, of at least two classes; options as of `choose`.

  With a `label_scale` it learns numbers that were standardized so, and `num_classes` is 1.

  Raises:
    ValueError: If the model does not take such examples, or as of `choose`.
  """
  chosen = choose(name, **asked)
  task = table_options.CLASSIFICATION if label_scale is None else table_options.REGRESSION
  if label_scale is None:
    validate.integer(minimum=2, num_classes=num_classes)
  check_learns(name, task)
  if not chosen.takes(input_shape, input_dtype):
    fitting = [
        other for other, row in MODELS.items()
        if row.takes(input_shape, input_dtype) and task in row.learns
    ]
    raise validate.error(
        "model",
        f"be {' or '.join(fitting)} for features of shape {tuple(input_shape)} and type "
        f"{input_dtype}",
        name,
    )
  built = _built(chosen, tuple(input_shape), num_classes, input_dtype)
  return built if label_scale is None else adapted(built, label_scale)


@functools.cache
def adapted(
    model: model_lib.Model, label_scale: label_scale_lib.LabelScale | None = None,
    class_weights: tuple[float, ...] | None = None,
) -> model_lib.Model:
  """Returns a model whose loss is that of standardized numbers, or weighs classes."""
  return dataclasses.replace(model, label_scale=label_scale, class_weights=class_weights)


# TFF's computations are built, and kept, once per model.  A process with many runs, such as a
# study, would otherwise keep those of every run.
@functools.cache
def _built(
    chosen: Any, input_shape: tuple[int, ...], num_classes: int, input_dtype: str
) -> model_lib.Model:
  return chosen(input_shape, num_classes, input_dtype)
