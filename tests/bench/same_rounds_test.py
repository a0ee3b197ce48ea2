"""Whether our contestants compute the same rounds: ours, plain TensorFlow and TFF's own."""

import dataclasses
import sys

from absl.testing import absltest
from absl.testing import parameterized
import numpy as np

from bench.contest import contestant_process
from bench.contest import contestants
from tests import nightly
from tests.bench import sample_job

_ANSWER_SECONDS = 600


@nightly.only
class SameRoundsTest(parameterized.TestCase):

  def _vectors(self, name, job):
    folder = self.create_tempdir().full_path
    job.write(folder)
    with contestant_process.ContestantProcess(
        contestants.CONTESTANTS[name], sys.executable, folder, _ANSWER_SECONDS
    ) as process:
      return [process.run_round(number)[1] for number in range(1, job.num_rounds + 1)]

  @parameterized.parameters("ours", "tff")
  def test_has_the_weights_of_plain_tensorflow(self, name):
    _, job = sample_job.small_job(rounds=2)

    for ours, plain in zip(self._vectors(name, job), self._vectors("plain", job)):
      np.testing.assert_allclose(ours, plain, rtol=0, atol=1e-5)
      self.assertGreater(np.abs(plain - job.vector).max(), 1e-3)

  def test_with_some_clients_a_round(self):
    _, job = sample_job.small_job(rounds=3, model="logistic", clients_per_round=2)

    for ours, plain in zip(self._vectors("ours", job), self._vectors("plain", job)):
      np.testing.assert_allclose(ours, plain, rtol=0, atol=1e-5)

  def test_with_the_same_dropout(self):
    _, job = sample_job.small_job(rounds=1, model="cnn")
    others = dataclasses.replace(job, seeds=job.seeds + 1)

    ((ours,), (plain,), (other,)) = (
        self._vectors("ours", job), self._vectors("plain", job), self._vectors("plain", others)
    )

    np.testing.assert_allclose(ours, plain, rtol=0, atol=1e-5)
    self.assertGreater(np.abs(other - plain).max(), 1e-4)

  def test_another_order_gives_other_weights(self):
    _, job = sample_job.small_job(rounds=1)
    turned = dataclasses.replace(job, orders=job.orders[:, ::-1] * 0)

    (ours,), (plain,) = self._vectors("ours", job), self._vectors("plain", turned)

    self.assertGreater(np.abs(ours - plain).max(), 1e-4)


if __name__ == "__main__":
  absltest.main()
