"""Google's fedjax: its federated averaging with models of the same layers in JAX."""

from typing import Any, Callable, Sequence

import fedjax
from fedjax.algorithms import fed_avg
import jax
import jax.numpy as jnp
import numpy as np

from bench.contest import job as job_lib


def _convolution(images: jax.Array, kernel: jax.Array, bias: jax.Array) -> jax.Array:
  layout = ("NHWC", "HWIO", "NHWC")
  out = jax.lax.conv_general_dilated(images, kernel, (1, 1), "VALID", dimension_numbers=layout)
  return jax.nn.relu(out + bias)


def _max_pool(hidden: jax.Array) -> jax.Array:
  window = (1, 2, 2, 1)
  return jax.lax.reduce_window(hidden, -jnp.inf, jax.lax.max, window, window, "VALID")


def _dropout(hidden: jax.Array, rate: float, rng: Any) -> jax.Array:
  return jnp.where(jax.random.uniform(rng, hidden.shape) >= rate, hidden / (1 - rate), 0.0)


def _flat(hidden: jax.Array) -> jax.Array:
  return hidden.reshape(hidden.shape[0], -1)


def _cnn_small(parameters: Sequence[jax.Array], images: jax.Array, rng: Any) -> jax.Array:
  del rng  # There is no dropout in this model.
  kernel_1, bias_1, kernel_2, bias_2, kernel_3, bias_3, kernel_4, bias_4 = parameters
  hidden = _max_pool(_convolution(images, kernel_1, bias_1))
  hidden = _flat(_max_pool(_convolution(hidden, kernel_2, bias_2)))
  return jax.nn.relu(hidden @ kernel_3 + bias_3) @ kernel_4 + bias_4


def _cnn(parameters: Sequence[jax.Array], images: jax.Array, rng: Any) -> jax.Array:
  kernel_1, bias_1, kernel_2, bias_2, kernel_3, bias_3, kernel_4, bias_4 = parameters
  rng_1, rng_2 = jax.random.split(rng)
  hidden = _convolution(_convolution(images, kernel_1, bias_1), kernel_2, bias_2)
  hidden = _flat(_dropout(_max_pool(hidden), 0.25, rng_1))
  hidden = _dropout(jax.nn.relu(hidden @ kernel_3 + bias_3), 0.5, rng_2)
  return hidden @ kernel_4 + bias_4


def _logistic(parameters: Sequence[jax.Array], images: jax.Array, rng: Any) -> jax.Array:
  del rng  # There is no dropout in this model.
  kernel, bias = parameters
  return _flat(images) @ kernel + bias


_LOGITS = {"cnn_small": _cnn_small, "cnn": _cnn, "logistic": _logistic}


class _ClientInOrder(fedjax.ClientDataset):
  """A client whose batches keep their order.

  fedjax itself fills a client's last batch with examples that the client had before.  Here
  the last batch is smaller, as with all other contestants.
  """

  def shuffle_repeat_batch(self, hparams: fedjax.ShuffleRepeatBatchHParams) -> Any:
    """Returns fedjax's batches of `hparams.batch_size`, in order and without repeats."""
    return self.batch(batch_size=hparams.batch_size)


def serve(job: job_lib.Job, answer_requests: Callable[[Any], None]) -> None:
  """Answers requests; see `contestant_process.py`."""
  logits = _LOGITS[job.model_name]

  def loss(
      parameters: Sequence[jax.Array], batch: dict[str, jax.Array], rng: Any
  ) -> jax.Array:
    log_probabilities = jax.nn.log_softmax(logits(parameters, batch["x"], rng))
    return -jnp.take_along_axis(log_probabilities, batch["y"][:, None], axis=1).mean()

  algorithm = fed_avg.federated_averaging(
      jax.grad(loss),
      fedjax.optimizers.sgd(job.learning_rate),
      fedjax.optimizers.sgd(1.0),
      fedjax.ShuffleRepeatBatchHParams(job.batch_size),
  )
  state = algorithm.init([jnp.asarray(p) for p in job.parameters(job.vector)])

  def prepare(number: int) -> Callable[[], np.ndarray]:
    clients = job.clients_of(number)
    keys = jax.random.split(jax.random.PRNGKey(number), len(clients))
    examples = [dict(zip("xy", job.examples(client, number))) for client in clients]
    given = [
        (client, _ClientInOrder(one), key)
        for client, one, key in zip(clients, examples, keys)
    ]

    def run_round() -> np.ndarray:
      nonlocal state
      state, _ = algorithm.apply(state, given)
      return job_lib.flat(map(np.asarray, state.params))

    return run_round

  answer_requests(prepare)
