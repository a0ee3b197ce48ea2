"""A round of FedAvg here and in other frameworks, as ratios over plain TensorFlow.

  bazel run bench/peers:run -- --model=cnn

Each peer runs the same rounds on the same clients, in a process of its own.  In every launch, the
peers take turns, and another one is the first.  A peer with a file of requirements beside it has an
environment of its own, which is installed when it is first needed: all of them download 1 GB.  A
peer that can't be installed or fails is named with the reason, and the others go on.  Run it on a
quiet machine.

The last column says how far any weight of the last model is from plain TensorFlow's, with the same
digits in the same order.  With `cnn`, TFF, fedjax and pfl draw dropout of their own.  Flower needs
a later TensorFlow, with which plain TensorFlow ends at Flower's weights.
"""

import os
import statistics
import tempfile
from typing import Any

from absl import flags
import numpy as np

from bench import peer_environments
from bench.peers import job as job_lib
from clustering_basics import randomness
from clustering_basics import validate
from experiment_shell import launch

PEERS = ("plain", "ours", "tff", "fedjax", "pfl", "flower")

flags.DEFINE_enum("model", "cnn", ["cnn", "cnn_small"], "The model.")
flags.DEFINE_list("peers", list(PEERS[1:]), "Who is compared with plain TensorFlow.")
flags.DEFINE_integer("launches", 3, "Processes of each peer.", lower_bound=1)
flags.DEFINE_integer("rounds", 5, "Rounds that are timed, after one that is not.", lower_bound=1)
flags.DEFINE_integer("num_clients", 100, "Number of clients.", lower_bound=2)
flags.adopt_module_key_flags(peer_environments)

_SEED = 1
_MAIN = "import sys; from bench.peers import job, {0}; {0}.main(job.read(sys.argv[1]))"


def build_job(model: str, num_clients: int, num_rounds: int) -> job_lib.Job:
  """Returns the job, with orders and dropout as our engine draws them, in `client_update.py`."""
  import tensorflow as tf  # pylint: disable=g-import-not-at-top

  task = job_lib.load_task(model, _SEED, num_clients)
  train: list[Any] = [client.train for client in task.clients]
  bounds = np.cumsum([0, *map(len, train)])
  orders = np.zeros((num_rounds, bounds[-1]), np.int32)
  seeds = np.zeros((num_rounds, num_clients, 2), np.int32)

  @tf.function(input_signature=[tf.TensorSpec([], tf.int32), tf.TensorSpec([2], tf.int32)])
  def draw(num_examples: tf.Tensor, client_seed: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    epoch_seed = tf.random.experimental.stateless_fold_in(client_seed, 0)
    order = tf.random.experimental.stateless_shuffle(tf.range(num_examples), epoch_seed)
    return order, epoch_seed

  for number in range(num_rounds):
    for i, client_id in enumerate(task.client_ids):
      seed = randomness.stateless_seed(_SEED, "local_training", number + 1, client_id)
      own = slice(*bounds[i : i + 2])
      order, seeds[number, i] = draw(len(train[i]), seed)
      orders[number, own] = bounds[i] + order
  return job_lib.Job(
      model, _SEED, np.concatenate([one.features for one in train]),
      np.concatenate([one.labels for one in train]), bounds, orders, seeds,
      task.model.initial_parameters(randomness.generator(_SEED, "initial_parameters")),
  )


def measure(peer: str, job: str) -> tuple[float, np.ndarray]:
  """Returns the median seconds of a round of a peer, in a new process, and its last model."""
  answer = f"{job}.{peer}.npz"
  peer_environments.call([peer_environments.python(peer), "-c", _MAIN.format(peer), job, answer])
  with np.load(answer) as arrays:
    return statistics.median(arrays["seconds"][1:]), arrays["vector"]


def main() -> None:
  peers = [PEERS[0], *dict.fromkeys(flags.FLAGS.peers)]
  with launch.input_errors():
    for peer in peers[1:]:
      validate.one_of(PEERS[1:], peers=peer)
  seconds: dict[str, list[float]] = {peer: [] for peer in peers}
  vectors: dict[str, np.ndarray] = {}
  problems: dict[str, str] = {}
  with tempfile.TemporaryDirectory() as folder:
    job = os.path.join(folder, "job.npz")
    build_job(flags.FLAGS.model, flags.FLAGS.num_clients, flags.FLAGS.rounds + 1).write(job)
    for number in range(flags.FLAGS.launches):
      first = number % len(peers)
      for peer in (*peers[first:], *peers[:first]):
        if peer in problems:
          continue
        try:
          one, vectors[peer] = measure(peer, job)
          seconds[peer].append(one)
        except RuntimeError as e:
          problems[peer] = str(e)
  if PEERS[0] in problems:
    raise launch.RunFailed(f"plain TensorFlow failed: {problems[PEERS[0]]}.")
  print(f"{flags.FLAGS.model}, {flags.FLAGS.num_clients} clients, {flags.FLAGS.launches} launches")
  print(f"{'':8} seconds   over plain TensorFlow (lowest - highest launch)   weights apart")
  for peer in peers:
    if peer in problems:
      print(f"{peer:8} failed: {problems[peer]}")
      continue
    ratios = [one / plain for one, plain in zip(seconds[peer], seconds[PEERS[0]])]
    spread = f"{statistics.median(ratios):.2f} ({min(ratios):.2f} - {max(ratios):.2f})"
    apart = np.abs(vectors[peer] - vectors[PEERS[0]]).max()
    print(f"{peer:8} {statistics.median(seconds[peer]):7.3f}   {spread:46}   {apart:.1e}")


if __name__ == "__main__":
  launch.run(main)
