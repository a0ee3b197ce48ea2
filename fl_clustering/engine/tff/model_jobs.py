"""Work that TFF clients share out among themselves, in messages of bounded size.

Every piece of work is a job, the value of one TFF client.  What jobs have in common is broadcast.
A job names its model by index: however many jobs use a model, a message holds it once.
"""

import collections
from typing import Any, Callable, Iterable, Iterator, Mapping, Sequence

import numpy as np
import tensorflow_federated as tff

from fl_clustering import runtime
from fl_clustering.engine import cost

# So few that a worker keeps the memory of a message for the next one (`worker_process.py`).
MESSAGE_BYTES = 28 * 2**20
# For models so large that a message would not have work for every core.  The worker holds a message
# several times over.
MOST_MESSAGE_BYTES = 128 * 2**20

# The name and the TFF type of a job's value.
Field = tuple[str, Any]


def models_type(num_parameters: int) -> tff.TensorType:
  """Returns the TFF type of models, float32 of shape (num_models, num_parameters)."""
  return tff.TensorType(np.float32, [None, num_parameters])


def on_clients(
    work: Callable[[Any, Any], tuple], common_type: tff.Type, *fields: Field
) -> tff.Computation:
  """Returns the TFF computation that does every job.

  Args:
    work: A TensorFlow function of (what all jobs have in common, job).
    common_type: The type of what they have in common.
    *fields: A job's fields beside `index`, by which its result is known.

  Returns:
    The computation `(common@SERVER, {job}@CLIENTS) -> {(index, *result)}@CLIENTS`.
  """
  job_type = tff.StructWithPythonType([("index", np.int32), *fields], collections.OrderedDict)

  @tff.tensorflow.computation(common_type, job_type)
  def do_job(common: Any, job: Any) -> tuple:
    return job["index"], *work(common, job)

  @tff.federated_computation(
      tff.FederatedType(common_type, tff.SERVER), tff.FederatedType(job_type, tff.CLIENTS)
  )
  def do_all(common: Any, jobs: Any) -> Any:
    return tff.federated_map(do_job, (tff.federated_broadcast(common), jobs))

  return do_all


def on_models(
    work: Callable[[Any, Any], tuple], num_parameters: int, *fields: Field
) -> tff.Computation:
  """Returns the computation of `on_clients` for jobs that use one of the models each.

  Args:
    work: A TensorFlow function of (a model's parameters as a vector, job).
    num_parameters: The models' number of parameters.
    *fields: A job's fields beside `index` and `model`, the index of its model.
  """
  return on_clients(
      lambda models, job: work(models[job["model"]], job),
      models_type(num_parameters), ("model", np.int32), *fields,
  )


def batches(
    sizes: Sequence[int], models: Sequence[Iterable[int]] | None = None, model_size: int = 0
) -> list[slice]:
  """Cuts a sequence of items into batches that fit one message each way.

  Args:
    sizes: The size of every item, in numbers of float32.
    models: Every item's models, of which a batch is sent one copy; `None` if there are none.
    model_size: The size of a model, in numbers of float32.

  Returns:
    The batches in order; an item that fits no message is a batch of its own.
  """
  num_cores = runtime.num_cores()

  def fits(number: int, size: int) -> bool:
    most = MOST_MESSAGE_BYTES if number <= num_cores else MESSAGE_BYTES
    return cost.BYTES_PER_NUMBER * size <= most

  starts: list[int] = []
  filled, sent = 0, set[int]()
  for i, size in enumerate(sizes):
    used = set() if models is None else set(models[i])
    num_sent = len(sent) + len(used - sent)
    if (
        not starts
        or not fits(i - starts[-1] + 1, filled + size)
        or not (used <= sent or fits(num_sent, num_sent * model_size))
    ):
      starts.append(i)
      filled, sent = 0, set()
    filled += size
    sent |= used
  return [slice(*bounds) for bounds in zip(starts, [*starts[1:], len(sizes)])]


def in_order(
    do_all: tff.Computation, common: Any, jobs: Sequence[Mapping[str, Any]]
) -> list[list]:
  """Returns the results of all jobs, without their indices, in the order of the jobs.

  Args:
    do_all: A computation of `on_clients`.
    common: What the jobs have in common.
    jobs: The jobs without `index`; their fields are in the order of their type.
  """
  sent = [collections.OrderedDict(index=i, **job) for i, job in enumerate(jobs)]
  # TFF may return results in the order of completion.
  found = sorted(do_all(common, sent), key=lambda one: one[0])
  return [result for _, *result in found]


def on_files(
    do_all: tff.Computation, common: Any, paths: np.ndarray, sizes: np.ndarray
) -> Iterator[np.ndarray]:
  """Yields the results of jobs that read a file each, whose only field is its `path`.

  Args:
    sizes: Of each job's only result, in numbers of float32.
  """
  jobs = [{"path": path} for path in paths]
  for batch in batches(sizes.tolist()):
    for (result,) in in_order(do_all, common, jobs[batch]):
      yield result


def results(
    do_all: tff.Computation,
    models: Any,
    jobs: Sequence[Mapping[str, Any]],
    result_sizes: Sequence[int],
) -> Iterator[list]:
  """Yields the results of jobs that use one or several of the models, in the order of the jobs.

  Args:
    do_all: A computation of `on_models`, or of `on_clients` with the models in common.
    models: float32 of shape (num_models, P), or what returns its rows by their positions.  All
      rows of a view made by `np.broadcast_to` are the same model.
    jobs: As of `in_order`; `model`, the first field, is a row of `models`, or an array of rows.
    result_sizes: Per job the most numbers that its result holds.
  """
  is_one_model = isinstance(models, np.ndarray) and models.strides[0] == 0
  used = [np.where(is_one_model, 0, job["model"]) for job in jobs]
  for batch in batches(result_sizes, [of_job.ravel() for of_job in used], models.shape[1]):
    rows = np.unique(np.concatenate([of_job.ravel() for of_job in used[batch]]))
    sent = [
        {**job, "model": np.int32(np.searchsorted(rows, of_job))}
        for job, of_job in zip(jobs[batch], used[batch])
    ]
    yield from in_order(do_all, models[rows], sent)
