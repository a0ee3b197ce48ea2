"""The models by name.

To add a model: a frozen dataclass of its options, and a row in `MODELS`, as in `networks.py`.  It
says what it is (`about`) and which inputs it takes (`takes`, a function of the shape and the type
of an example's features), and is called as (input_shape, num_classes, input_dtype) to return a
`model.Model`.
"""

import dataclasses
import functools
from typing import Any, Mapping

from clustering_basics import options as options_lib
from clustering_basics import validate
from fl_clustering.tasks import model as model_lib
from fl_clustering.tasks import networks

MODELS: Mapping[str, Any] = {
    "cnn_small": networks.CnnSmall,
    "cnn": networks.Cnn,
    "mlp": networks.Mlp,
    "logistic": networks.Logistic,
}

# From an option's name to the models that have it.
OPTIONS = options_lib.by_name(MODELS)


def choose(name: Any, **asked: Any) -> Any:
  """Returns a row of `MODELS` with its options, as of `options.chosen`."""
  return options_lib.chosen("model", MODELS, name, **asked)


def build(
    name: str, input_shape: tuple[int, ...], num_classes: int, input_dtype: str = "uint8",
    **asked: Any,
) -> model_lib.Model:
  """Returns a model for examples of one kind, of at least two classes; options as of `choose`.

  Raises:
    ValueError: If the model does not take such examples, or as of `choose`.
  """
  chosen = choose(name, **asked)
  validate.integer(minimum=2, num_classes=num_classes)
  if not chosen.takes(input_shape, input_dtype):
    fitting = [other for other, row in MODELS.items() if row.takes(input_shape, input_dtype)]
    raise validate.error(
        "model",
        f"be {' or '.join(fitting)} for features of shape {tuple(input_shape)} and type "
        f"{input_dtype}",
        name,
    )
  return _built(name, chosen, tuple(input_shape), num_classes, input_dtype)


# TFF's computations are built, and kept, once per model.  A process with many runs, such as a
# study, would otherwise keep those of every run.
@functools.cache
def _built(
    name: str, chosen: Any, input_shape: tuple[int, ...], num_classes: int, input_dtype: str
) -> model_lib.Model:
  # A user's row may return a model with another name; files have that of the row.
  return dataclasses.replace(chosen(input_shape, num_classes, input_dtype), name=name)
