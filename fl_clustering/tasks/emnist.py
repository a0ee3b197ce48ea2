"""TFF's federated EMNIST digits: 3,383 writers, each a client as in the source.

TFF's own loader writes its download straight to the final name, so an interrupted
download is taken for a complete one from then on; and it sets no timeout.  Here the
file (170 MB, unpacked on the fly to 4.7 GB) gets its name only when it is complete and
has been checked.  TFF's loader then reads it.

References:
  Sebastian Caldas, Sai Meher Karthik Duddu, Peter Wu, Tian Li, Jakub Konecny,
  H. Brendan McMahan, Virginia Smith, Ameet Talwalkar. LEAF: A Benchmark for
  Federated Settings. 2018. https://arxiv.org/abs/1812.01097
"""

import contextlib
import errno
import http.client
import lzma
import os
import pathlib
import shlex
import sqlite3
import stat
import urllib.request
from typing import Any, BinaryIO, Iterator, Sequence

import numpy as np
import tqdm

from clustering_basics import randomness
from clustering_basics import validate
from fl_clustering.tasks import examples as examples_lib
from fl_clustering.tasks import federated_task
from fl_clustering.tasks import task_options

# TensorFlow and TFF are imported where they are needed: the command line reads the
# registry that this module is in, and should answer at once.

URL = "https://storage.googleapis.com/tff-datasets-public/emnist_all.sqlite.lzma"
FILE_NAME = "emnist_all.sqlite"
NUM_WRITERS = 3383
MAX_GLOBAL_TEST_EXAMPLES = 10_000
# A pipeline for each writer would take ten times as long, one for all of them would hold every image
# in memory as floats.
WRITERS_PER_PIPELINE = 100

_DEFAULT_CACHE_DIR = "~/.tff"  # TFF's own default.
_CACHE = "The cache of `dataset`='emnist'"  # Programs name it by different flags.
TIMEOUT_SECONDS = 20
_CHUNK_BYTES = 1 << 20
_NUM_CLASSES = 10
_TRAIN_SPLIT = "digits_only_train"
_TEST_SPLIT = "digits_only_test"


class EmnistUnavailable(ValueError):
  """The data set is not in the cache folder and can't be downloaded.

  Attributes:
    reason: Why, in a few words.
  """

  def __init__(self, reason: str) -> None:
    super().__init__(
        "`dataset` must be one that this machine has or can download, got 'emnist': "
        f"{reason}. Put {FILE_NAME} into the cache folder, or use `dataset` digits, which needs no "
        "network."
    )
    self.reason = reason


def load_task(options: task_options.TaskOptions) -> federated_task.FederatedTask:
  """Returns the task whose clients are writers drawn with the seed.

  The global test set is test data of writers who are not clients, or, when no
  writer is left over, the clients' pooled test data.  Ink is 255 as in MNIST; in
  the source it is 0.

  Raises:
    EmnistUnavailable: If the file is not in the cache and cannot be downloaded.
    ValueError: If the file is damaged, or has fewer writers than `num_clients`.
  """
  path = _cached_path(options.data_dir)
  _check_cache(path)
  if not os.path.exists(path):
    download(path, URL)
  return _read_task(path, options)


def missing_path(data_dir: str | None) -> str | None:
  """Returns where EMNIST's file is missing; None if it is in the cache folder.

  Raises:
    ValueError: If the file is damaged.
  """
  path = _cached_path(data_dir)
  _check_cache(path)
  return None if os.path.exists(path) else path


def download(path: str, url: str) -> None:
  """Downloads the LZMA-compressed database, unpacks and checks it; `path` is whole or absent.

  Raises:
    EmnistUnavailable: If that fails for any reason.
  """
  # In the same folder, because a rename is atomic only there; with the process id, because
  # two runs may download at once.
  partial_path = f"{path}.{os.getpid()}.part"
  try:
    with _unavailable_on_error(path, url):
      with _open_url(url) as response:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(partial_path, "wb") as partial_file:
          unpack(response, partial_file)
      defect = _defect(partial_path)
      if defect:
        raise EmnistUnavailable(f"what {url} serves is not the data set ({defect})")
      os.replace(partial_path, path)
  finally:
    with contextlib.suppress(OSError):
      os.unlink(partial_path)


def _cached_path(data_dir: str | None) -> str:
  folder = os.path.abspath(os.path.expanduser(data_dir or _DEFAULT_CACHE_DIR))
  if os.path.exists(folder) and not os.path.isdir(folder):
    raise ValueError(f"{_CACHE} must be a folder, got {data_dir!r}.")
  return os.path.join(folder, FILE_NAME)


def _check_cache(path: str) -> None:
  """Checks the file at `path`, if there is one."""
  if not os.path.lexists(path):
    return
  try:
    # Reading a named pipe would wait for ever.
    if not stat.S_ISREG(os.stat(path).st_mode):
      raise OSError(errno.EINVAL, "not a regular file")
    with open(path, "rb"):
      pass
  except OSError as error:
    raise ValueError(
        f"{_CACHE} must hold a readable {FILE_NAME}, got {path}, which can't be read "
        f"({error.strerror})."
    ) from error
  defect = _defect(path)
  if defect:
    raise _damaged(path, defect)


def _damaged(path: str, defect: str) -> ValueError:
  return ValueError(
      f"{_CACHE} must hold a whole {FILE_NAME} or none, got {path}, which is damaged "
      f"({defect}). "
      f"Remove it (rm {shlex.quote(path)}), and it is downloaded again."
  )


def _defect(path: str) -> str | None:
  """Returns what is wrong with the database; None if it opens and has the splits."""
  uri = pathlib.Path(path).as_uri() + "?mode=ro"
  try:
    with contextlib.closing(sqlite3.connect(uri, uri=True)) as database:
      database.execute(
          "SELECT split_name, client_id, serialized_example_proto FROM examples LIMIT 1"
      ).fetchone()
      rows = database.execute("SELECT DISTINCT split_name FROM client_metadata").fetchall()
      (page_bytes,) = database.execute("PRAGMA page_size").fetchone()
  except sqlite3.Error as error:
    return str(error)
  # SQLite itself finds missing pages, but not that the last one is cut short.
  if os.path.getsize(path) % page_bytes:
    return "it is not a whole number of pages long"
  missing = {_TRAIN_SPLIT, _TEST_SPLIT} - {split for (split,) in rows}
  if missing:
    return f"it has no {' and no '.join(sorted(missing))}"
  return None


@contextlib.contextmanager
def _unavailable_on_error(path: str, url: str) -> Iterator[None]:
  """Turns what can go wrong in a download into `EmnistUnavailable`."""
  try:
    yield
  except (OSError, http.client.HTTPException, lzma.LZMAError) as error:
    # A URLError wraps the reason, and says "<urlopen error ...>" itself.
    cause = str(getattr(error, "reason", error)) or repr(error)
    raise EmnistUnavailable(
        f"{path} is not there and the download of {url} failed ({cause})"
    ) from error


def _open_url(url: str) -> Any:
  return urllib.request.urlopen(url, timeout=TIMEOUT_SECONDS)


def unpack(response: Any, file: BinaryIO) -> None:
  """Writes what `response` holds compressed to `file`, with a progress bar."""
  decompressor = lzma.LZMADecompressor()
  length = response.headers.get("Content-Length")
  with tqdm.tqdm(
      desc=f"Downloading {FILE_NAME}",
      total=int(length) if length else None,
      unit="B",
      unit_scale=True,
      disable=None,  # Unless it is a terminal.
  ) as progress:
    while not decompressor.eof:
      chunk = response.read(_CHUNK_BYTES)
      if not chunk:
        raise OSError(f"the connection ended after {progress.n} bytes")
      progress.update(len(chunk))
      file.write(decompressor.decompress(chunk))


def _read_task(
    path: str, options: task_options.TaskOptions
) -> federated_task.FederatedTask:
  import tensorflow_federated as tff

  # TFF's loader takes the file that is there, and so downloads nothing.
  train, test = tff.simulation.datasets.emnist.load_data(
      only_digits=True, cache_dir=os.path.dirname(path)
  )
  writers = sorted(set(train.client_ids) & set(test.client_ids))
  if options.num_clients > len(writers):
    raise validate.error(
        "num_clients",
        f"be at most {len(writers)}, the writers in {path} with training and test data",
        options.num_clients,
    )
  rng = randomness.generator(options.seed, "emnist: clients")
  chosen = sorted(rng.choice(writers, options.num_clients, replace=False).tolist())
  test_examples = dict(_read_writers(test, chosen, path))
  clients = tuple(
      federated_task.ClientData(writer, train_examples, test_examples[writer])
      for writer, train_examples in _read_writers(train, chosen, path)
  )
  global_test, global_test_source = _global_test_set(test, clients, options.seed, path)
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
    client_data: Any, clients: Sequence[federated_task.ClientData], seed: int, path: str
) -> tuple[examples_lib.Examples, str]:
  """Returns the examples and where they are from."""
  others = sorted(set(client_data.client_ids) - {client.client_id for client in clients})
  if not others:
    source = "the clients' pooled test data, for every writer is a client"
    return examples_lib.pooled(client.test for client in clients), source
  rng = randomness.generator(seed, "emnist: global test set")
  examples, num_read = _first_examples(client_data, rng.permutation(others).tolist(), path)
  return examples, f"test data of {num_read:,} writers who are not clients"


def _first_examples(
    client_data: Any, writers: Sequence[str], path: str
) -> tuple[examples_lib.Examples, int]:
  """Returns the first `MAX_GLOBAL_TEST_EXAMPLES` of `writers` and how many they took."""
  parts, num_examples = [], 0
  for _, examples in _read_writers(client_data, writers, path):
    parts.append(examples)
    num_examples += len(examples)
    if num_examples >= MAX_GLOBAL_TEST_EXAMPLES:
      break
  return examples_lib.pooled(parts).take(slice(MAX_GLOBAL_TEST_EXAMPLES)), len(parts)


def _read_writers(
    client_data: Any, writers: Sequence[str], path: str
) -> Iterator[tuple[str, examples_lib.Examples]]:
  """Yields (writer, examples), in the order of `writers`."""
  for start in range(0, len(writers), WRITERS_PER_PIPELINE):
    some = writers[start : start + WRITERS_PER_PIPELINE]
    owners, examples = _read_together(client_data, some, path)
    for writer in some:
      own = examples.take(owners == writer)
      if not len(own):
        raise _damaged(path, f"writer {writer} has no examples")
      yield writer, own


def _read_together(
    client_data: Any, writers: Sequence[str], path: str
) -> tuple[np.ndarray, examples_lib.Examples]:
  """Returns the writers' examples and, of the same length, whose each is."""
  import tensorflow as tf

  def examples_of(writer: Any) -> Any:
    examples = client_data.serializable_dataset_fn(writer)
    return examples.map(lambda example: (writer, example["pixels"], example["label"]))

  dataset = tf.data.Dataset.from_tensor_slices(writers).flat_map(examples_of).batch(1000)
  try:
    batches = list(dataset.as_numpy_iterator())
  except tf.errors.OpError as error:
    raise _damaged(path, error.message.splitlines()[0]) from error
  if not batches:
    raise _damaged(path, f"writer {writers[0]} has no examples")
  owners, pixels, labels = (np.concatenate(column) for column in zip(*batches))
  if not np.all((pixels >= 0) & (pixels <= 1)):
    raise _damaged(path, "it has pixels outside [0, 1]")
  if not np.all((labels >= 0) & (labels < _NUM_CLASSES)):
    raise _damaged(path, f"it has labels outside [0, {_NUM_CLASSES - 1}]")
  # Paper is 1 and ink 0 in the source.
  images = np.rint(255 * (1 - pixels)).astype(np.uint8)[..., np.newaxis]
  return owners.astype(str), examples_lib.Examples(images, labels.astype(np.uint8))
