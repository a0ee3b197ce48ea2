"""Work on models that TFF clients share out among themselves, in messages of bounded size.

Every piece of work is a job, the value of one TFF client.  A job names its model by index,
and the models are broadcast: however many jobs use a model, a message holds it once.
"""

import collections

import numpy as np
import tensorflow_federated as tff

from fl_clustering import runtime

_BYTES_PER_NUMBER = 4
# So few that a worker keeps the memory of a message for the next one (`worker_process.py`).
_MESSAGE_BYTES = 28 * 2**20
# For models so large that a message would not have work for every core.  The worker holds a message
# several times over.
_MOST_MESSAGE_BYTES = 128 * 2**20


def job_type(*fields):
  """Returns the TFF type of a job.

  Args:
    *fields: Pairs of a name and a type, beside `index`, by which the job's result is known,
      and `model`, the index of its model.
  """
  return tff.StructWithPythonType(
      [("index", np.int32), ("model", np.int32), *fields], collections.OrderedDict
  )


def models_type(num_parameters):
  """Returns the TFF type of models, float32 of shape (num_models, num_parameters)."""
  return tff.TensorType(np.float32, [None, num_parameters])


def on_clients(work, num_parameters, type_of_job):
  """Returns the TFF computation that does every job.

  Args:
    work: A TensorFlow function of (a model's parameters as a vector, job) to a tuple.
    num_parameters: The models' number of parameters, P.
    type_of_job: Of `job_type`.

  Returns:
    The computation `(models@SERVER, {job}@CLIENTS) -> {(index, *result)}@CLIENTS`.
  """
  type_of_models = models_type(num_parameters)

  @tff.tensorflow.computation(type_of_models, type_of_job)
  def do_job(models, job):
    return job["index"], *work(models[job["model"]], job)

  @tff.federated_computation(
      tff.FederatedType(type_of_models, tff.SERVER),
      tff.FederatedType(type_of_job, tff.CLIENTS),
  )
  def do_all(models, jobs):
    return tff.federated_map(do_job, (tff.federated_broadcast(models), jobs))

  return do_all


def batches(sizes, models=None, model_size=0):
  """Cuts a sequence of items into batches that fit one message each way.

  Args:
    sizes: The size of every item, in numbers of float32.
    models: Every item's model, of which a batch is sent one copy; `None` if there are none.
    model_size: The size of a model, in numbers of float32.

  Returns:
    A list of slices, in order; an item that fits no message is a batch of its own.
  """
  num_cores = runtime.num_cores()

  def fits(number, size):
    most = _MOST_MESSAGE_BYTES if number <= num_cores else _MESSAGE_BYTES
    return _BYTES_PER_NUMBER * size <= most

  starts, filled, sent = [], 0, set()
  for i, size in enumerate(sizes):
    model = set() if models is None else {models[i]}
    if (
        not starts
        or not fits(i - starts[-1] + 1, filled + size)
        or not (model <= sent or fits(len(sent) + 1, (len(sent) + 1) * model_size))
    ):
      starts.append(i)
      filled, sent = 0, set()
    filled += size
    sent |= model
  return [slice(*bounds) for bounds in zip(starts, [*starts[1:], len(sizes)])]


def results(do_all, models, jobs, result_sizes):
  """Yields the results of all jobs, in the order of the jobs.

  Args:
    do_all: A computation of `on_clients`.
    models: float32 of shape (num_models, P), of which rows are taken by their positions.  All
      rows of a view made by `np.broadcast_to` are the same model.
    jobs: Dicts with the fields of the job's type but for `index`; `model` is a row of
      `models`.
    result_sizes: Per job the most numbers that its result holds.

  Yields:
    Tuples, without the index.
  """
  is_one_model = isinstance(models, np.ndarray) and models.strides[0] == 0
  used = np.array([0 if is_one_model else job["model"] for job in jobs], np.int32)
  for batch in batches(result_sizes, used.tolist(), models.shape[1]):
    rows, places = np.unique(used[batch], return_inverse=True)
    sent = [
        collections.OrderedDict(index=i, **{**job, "model": int(place)})
        for i, (job, place) in enumerate(zip(jobs[batch], places))
    ]
    # TFF may return results in the order of completion.
    for _, *result in sorted(do_all(models[rows], sent), key=lambda found: found[0]):
      yield result
