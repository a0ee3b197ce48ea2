from absl.testing import absltest

from tests import nightly
from tests.distribution import worker_program

# K-means on this machine, and by two workers that a bad network leads to.
_SCRIPT = """
import contextlib
import errno

from fl_clustering.distribution import isolation
from tests.distribution import lossy_network

try:
  isolation.isolate()
  network = lossy_network.LossyNetwork(share_lost=0.03, seed=0)
except OSError as e:
  if e.errno not in (errno.EPERM, errno.EACCES, errno.ENOENT, errno.ENODEV, errno.ENOSPC):
    raise
  raise SystemExit(f"refused: {e.strerror}")

import numpy as np

from fl_clustering import runtime
from fl_clustering.distribution import pool
from fl_clustering.kmeans import estimator
from tests.distribution import started_workers

class Test(contextlib.ExitStack):
  addCleanup = contextlib.ExitStack.callback

def fit():
  return estimator.FederatedKMeans(3, random_state=0).fit(clients)

rng = np.random.default_rng(0)
clients = {f"client {i}": rng.normal(i % 3, 0.3, (10_000, 8)) for i in range(4)}
with runtime.LocalRuntime():
  expected = fit()
with Test() as test:
  ports = [started_workers.StartedWorker(test).address.split(":")[1] for _ in range(2)]
  with pool.Pool([f"{lossy_network.ADDRESS}:{port}" for port in ports], 10, print):
    found = fit()
print(np.array_equal(found.cluster_centers_, expected.cluster_centers_))
print(network.num_packets > 1_000, network.num_lost > 30)
"""


class LossyNetworkTest(absltest.TestCase):

  @nightly.only
  def test_lost_packets_change_no_bit_and_cost_no_worker(self):
    result = worker_program.run_script(_SCRIPT)

    if result.stderr.startswith("refused: "):
      self.skipTest(f"This machine allows no network of our own: {result.stderr}")
    self.assertEqual(result.stdout.splitlines(), ["True", "True True"], result.stderr)


if __name__ == "__main__":
  absltest.main()
