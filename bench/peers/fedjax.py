"""Google's fedjax: its federated averaging with models of the same layers in JAX."""

from typing import Any, Callable

import fedjax
from fedjax.algorithms import fed_avg
import jax
import jax.numpy as jnp

from bench.peers import job as job_lib


class _InOrder(fedjax.ClientDataset):
  """A client whose last batch is smaller; fedjax fills it with examples that it had before."""

  def shuffle_repeat_batch(self, hparams: fedjax.ShuffleRepeatBatchHParams) -> Any:
    return self.batch(batch_size=hparams.batch_size)


def _logits(is_small: bool, parameters: Any, hidden: Any, rng: Any) -> Any:
  def drop(values: Any, rate: float, key: Any) -> Any:
    kept = jax.random.uniform(key, values.shape) >= rate
    return values if is_small else jnp.where(kept, values / (1 - rate), 0.0)

  keys, layout, window = jax.random.split(rng), ("NHWC", "HWIO", "NHWC"), (1, 2, 2, 1)
  for kernel, bias, is_pooled in zip(parameters[::2], parameters[1:4:2], (is_small, True)):
    hidden = jax.lax.conv_general_dilated(hidden, kernel, (1, 1), "VALID", dimension_numbers=layout)
    hidden = jax.nn.relu(hidden + bias)
    if is_pooled:
      hidden = jax.lax.reduce_window(hidden, -jnp.inf, jax.lax.max, window, window, "VALID")
  hidden = drop(hidden, 0.25, keys[0]).reshape(len(hidden), -1)
  hidden = drop(jax.nn.relu(hidden @ parameters[4] + parameters[5]), 0.5, keys[1])
  return hidden @ parameters[6] + parameters[7]


def main(job: job_lib.Job) -> None:
  def loss(parameters: Any, batch: Any, rng: Any) -> jax.Array:
    logits = _logits(job.model == "cnn_small", parameters, batch["x"], rng)
    return -jnp.take_along_axis(jax.nn.log_softmax(logits), batch["y"][:, None], axis=1).mean()

  server, client = map(fedjax.optimizers.sgd, (1.0, job_lib.LEARNING_RATE))
  batches = fedjax.ShuffleRepeatBatchHParams(job_lib.BATCH_SIZE)
  algorithm = fed_avg.federated_averaging(jax.grad(loss), client, server, batches)
  state = algorithm.init(list(map(jnp.asarray, job.parameters)))

  def prepare(number: int) -> Callable[[], Any]:
    keys = jax.random.split(jax.random.PRNGKey(number), len(job.clients))
    examples = [dict(zip("xy", job.examples(client, number))) for client in job.clients]
    clients = list(zip(job.clients, map(_InOrder, examples), keys))

    def run_round() -> Any:
      nonlocal state
      state, _ = algorithm.apply(state, clients)
      return state.params

    return run_round

  job.run(prepare)
