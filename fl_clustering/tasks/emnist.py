"""TFF's federated EMNIST digits: 3,383 writers, each a client as in the source.

TFF's loader reads the file (4.7 GB), and downloads it (170 MB) where it is missing.  It sets no
timeout, and takes what an interrupted download left for the whole.  So it downloads into a folder
apart here, and a file has to be as long as it says itself.

References:
  Sebastian Caldas, Sai Meher Karthik Duddu, Peter Wu, Tian Li, Jakub Konecny,
  H. Brendan McMahan, Virginia Smith, Ameet Talwalkar. LEAF: A Benchmark for
  Federated Settings. 2018. https://arxiv.org/abs/1812.01097
"""

from __future__ import annotations

import contextlib
import os
import shlex
import socket
import sqlite3
import tempfile
from typing import TYPE_CHECKING, Any, Iterator, Sequence

import numpy as np

from clustering_basics import randomness
from clustering_basics import validate
from fl_clustering.tasks import examples as examples_lib
from fl_clustering.tasks import federated_task

if TYPE_CHECKING:
  from fl_clustering.tasks import held_out
  from fl_clustering.tasks import registry

# TensorFlow and TFF are imported where they are needed: the command line reads the
# registry that this module is in, and should answer at once.

FILE_NAME = "emnist_all.sqlite"
NUM_WRITERS = 3383
MAX_GLOBAL_TEST_EXAMPLES = 10_000
# A pipeline for each writer would take ten times as long; one for all of them would hold every
# image in memory as floats.
WRITERS_PER_PIPELINE = 100
TIMEOUT_SECONDS = 20

_DEFAULT_CACHE_DIR = "~/.tff"  # TFF's own default.
_NUM_CLASSES = 10


def load_task(
    options: registry.TaskOptions, data_dir: str | None, unused_held_out: Any = None,
    fold: held_out.Fold | None = None,
) -> federated_task.FederatedTask:
  """Returns the task whose clients are writers drawn with the seed.

  The global test set is test data of writers who are not clients, or, when no
  writer is left over, the clients' pooled test data, which with folds would be trained on.  Ink is
  255 as in MNIST; in the source it is 0.

  Raises:
    ValueError: If the file is not in the cache and cannot be downloaded, is damaged, or has
      fewer writers than `num_clients`, or with folds as many.
  """
  folder = os.path.abspath(os.path.expanduser(data_dir or _DEFAULT_CACHE_DIR))
  path = os.path.join(folder, FILE_NAME)
  if not os.path.exists(path):
    _download(path)
  defect = _defect(path)
  if defect:
    # Programs name the folder by different flags.
    raise ValueError(
        f"The cache of `dataset`='emnist' must hold a whole {FILE_NAME} or none, got {path}, which "
        f"is damaged ({defect}). Remove it (rm {shlex.quote(path)}), and it is downloaded again."
    )
  return _read_task(path, options, is_for_all=fold is None)


def _defect(path: str) -> str | None:
  """Returns why a file is no SQLite database of the length that its header states, or None."""
  try:
    with contextlib.closing(sqlite3.connect(path)) as database:
      (length,) = database.execute(
          "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size"
      ).fetchone()
  except sqlite3.Error as error:
    return str(error)
  is_whole = 0 < length == os.path.getsize(path)
  return None if is_whole else f"{os.path.getsize(path):,} bytes of {length:,}"


def _download(path: str) -> None:
  """Lets TFF download the file; `path` is whole or absent, also if that is interrupted."""
  import tensorflow_federated as tff

  folder = os.path.dirname(path)
  timeout = socket.getdefaulttimeout()
  socket.setdefaulttimeout(TIMEOUT_SECONDS)
  try:
    os.makedirs(folder, exist_ok=True)
    # In the cache, because a rename is atomic in one file system only.
    with tempfile.TemporaryDirectory(prefix=f"{FILE_NAME}.", dir=folder) as apart:
      tff.simulation.datasets.emnist.load_data(cache_dir=apart)
      downloaded = os.path.join(apart, FILE_NAME)
      defect = _defect(downloaded)
      if defect:
        raise OSError(f"it ended after {defect}")
      os.replace(downloaded, path)
  # Of urllib, LZMA, TensorFlow's files, SQLite or TFF.
  except Exception as error:  # pylint: disable=broad-exception-caught
    cause = " ".join(str(error).split()) or type(error).__name__
    raise validate.error(
        "dataset",
        f"be one that this machine has or can download; {path} is not there, and its download "
        f"failed ({cause}); put {FILE_NAME} there, or use `dataset` digits, which needs no network",
        "emnist",
    ) from error
  finally:
    socket.setdefaulttimeout(timeout)


def _read_task(
    path: str, options: registry.TaskOptions, is_for_all: bool
) -> federated_task.FederatedTask:
  """Returns the task; its clients may be all writers only if it `is_for_all`."""
  import tensorflow_federated as tff

  train, test = tff.simulation.datasets.emnist.load_data(
      only_digits=True, cache_dir=os.path.dirname(path)
  )
  writers = sorted(set(train.client_ids) & set(test.client_ids))
  if options.num_clients > (most := len(writers) - (not is_for_all)):
    raise validate.error(
        "num_clients",
        f"be at most {most}, of {len(writers)} writers in {path} with training and test data",
        options.num_clients,
    )
  rng = randomness.generator(options.seed, "emnist: clients")
  chosen = sorted(rng.choice(writers, options.num_clients, replace=False).tolist())
  test_examples = dict(_read_writers(test, chosen))
  clients = federated_task.PooledClients.of([
      federated_task.ClientData(writer, train_examples, test_examples[writer])
      for writer, train_examples in _read_writers(train, chosen)
  ])
  global_test, global_test_source = _global_test_set(test, clients, options.seed)
  warnings: tuple[str, ...] = ()
  if len(writers) < NUM_WRITERS:
    warnings = (
        f"{path} has {len(writers):,} writers with training and test data; federated EMNIST "
        f"has {NUM_WRITERS:,}.",
    )
  return federated_task.FederatedTask(
      name="emnist",
      source=(
          f"federated EMNIST digits of {len(writers):,} writers, from {path} by TFF "
          f"{tff.__version__}"
      ),
      partition="natural",
      clients=clients,
      global_test=global_test,
      global_test_source=global_test_source,
      num_classes=_NUM_CLASSES,
      model=options.build_model(global_test, _NUM_CLASSES),
      warnings=warnings,
  )


def _global_test_set(
    client_data: Any, clients: federated_task.PooledClients, seed: int
) -> tuple[examples_lib.Examples, str]:
  """Returns at most `MAX_GLOBAL_TEST_EXAMPLES`, and where they are from."""
  others = sorted(set(client_data.client_ids) - set(clients.ids))
  if not others:
    source = "the clients' pooled test data, for every writer is a client"
    return clients.test.together, source
  rng = randomness.generator(seed, "emnist: global test set")
  parts: list[examples_lib.Examples] = []
  for _, examples in _read_writers(client_data, rng.permutation(others).tolist()):
    parts.append(examples)
    if sum(map(len, parts)) >= MAX_GLOBAL_TEST_EXAMPLES:
      break
  source = f"test data of {len(parts):,} writers who are not clients"
  return examples_lib.pooled(parts).take(slice(MAX_GLOBAL_TEST_EXAMPLES)), source


def _read_writers(
    client_data: Any, writers: Sequence[str]
) -> Iterator[tuple[str, examples_lib.Examples]]:
  """Yields (writer, examples), in the order of `writers`."""
  import tensorflow as tf

  def examples_of(writer: Any) -> Any:
    examples = client_data.serializable_dataset_fn(writer)
    return examples.map(lambda example: (writer, example["pixels"], example["label"]))

  for start in range(0, len(writers), WRITERS_PER_PIPELINE):
    some = writers[start : start + WRITERS_PER_PIPELINE]
    dataset = tf.data.Dataset.from_tensor_slices(some).flat_map(examples_of).batch(1000)
    owners, pixels, labels = map(np.concatenate, zip(*dataset.as_numpy_iterator()))
    # Paper is 1 and ink 0 in the source.
    images = np.rint(255 * (1 - pixels)).astype(np.uint8)[..., np.newaxis]
    for writer in some:
      own = owners == writer.encode()
      yield writer, examples_lib.Examples(images[own], labels[own].astype(np.uint8))
