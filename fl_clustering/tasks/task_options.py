"""What task is asked for; `registry.check` checks it."""

import dataclasses
from typing import Any, Mapping

from fl_clustering.tables import schema as schema_lib
from fl_clustering.tasks import examples as examples_lib
from fl_clustering.tasks import held_out
from fl_clustering.tasks import model as model_lib
from fl_clustering.tasks import models


@dataclasses.dataclass(frozen=True)
class TaskOptions:
  """What task is asked for.

  Attributes:
    dataset: A name in `registry.DATASETS`.
    data_dir: Folder with the data (`idx`, `files`), cache folder (`emnist`); None for the
      default cache folder.
    partition: A name in `registry.PARTITION_NAMES`; None for the data set's own default.
    model: A name in `models.MODELS`.
    seed: Decides who gets what.
    partition_options: The partition's options by name; None where one is not given.
    model_options: The same of the model's options.
    schema: What the clients' files hold; None for other data.
    test_share: The share of every client's rows that is for testing; None for the default.
    num_new_clients: How many of the clients will not train.
    fold: Which examples of every client are for testing; None for a random share.
    image_size: To which images are averaged down, in pixels a side (`digits`, `idx`); None leaves
      them as they are.
  """

  dataset: str = "digits"
  data_dir: str | None = None
  num_clients: int = 100
  partition: str | None = None
  model: str = "cnn_small"
  seed: int = 0
  partition_options: Mapping[str, Any] = dataclasses.field(default_factory=dict)
  model_options: Mapping[str, Any] = dataclasses.field(default_factory=dict)
  schema: schema_lib.Schema | None = None
  test_share: float | None = None
  num_new_clients: int = 0
  fold: held_out.Fold | None = None
  image_size: int | None = None

  def build_model(
      self, examples: examples_lib.Examples, num_classes: int
  ) -> model_lib.Model:
    """Returns the model that is asked for, for examples of the kind that it gets."""
    return models.build(
        self.model, examples.feature_shape, num_classes, examples.dtype, **self.model_options
    )
