import os
from unittest import mock

from absl.testing import parameterized
import numpy as np

from bench.peers import job as job_lib
from bench.peers import run
from experiment_shell import launch
from tests import nightly
from tests.experiment_shell import in_process


class PeersTest(parameterized.TestCase):

  def setUp(self):
    super().setUp()
    self.folder = self.create_tempdir().full_path

  def _written(self, *arguments):
    job = run.build_job(*arguments)
    path = os.path.join(self.folder, "job.npz")
    job.write(path)
    return job, path

  @nightly.only  # By day, nothing else: only measurements need it.
  def test_every_example_has_a_place_in_every_round(self):
    job, path = self._written("cnn_small", 4, 3)
    again = job_lib.read(path)

    for i in again.clients:
      own = slice(*job.bounds[i : i + 2])
      self.assertGreater(len({tuple(order[own]) for order in job.orders}), 1)
      for number in (1, 2, 3):
        images, labels = again.examples(i, number)
        self.assertEqual(images.max(), 1)
        # The same pairs of an image and a label, in another order.
        pairs, given = (
            sorted((image.sum(dtype=float), int(label)) for image, label in zip(*both))
            for both in ((images * 255, labels), (job.images[own].astype(float), job.labels[own]))
        )
        np.testing.assert_allclose(pairs, given, rtol=1e-6)
    for one, other in zip(again.parameters, job.parameters):
      np.testing.assert_array_equal(one, other)

  @nightly.only  # By day, `own_tasks_test` compares a round with NumPy's.
  @parameterized.parameters(("cnn_small", "ours"), ("cnn_small", "tff"), ("cnn", "ours"))
  def test_the_weights_of_plain_tensorflow(self, model, peer):
    # A client has few steps: a rounding that decides about a maximum changes all that follow.
    job, path = self._written(model, 100, 2)
    start = np.concatenate([p.ravel() for p in job.parameters])
    _, plain = run.measure("plain", path)
    _, found = run.measure(peer, path)

    self.assertGreater(np.abs(plain - start).max(), 1e-2)
    np.testing.assert_allclose(found, plain, rtol=0, atol=1e-3)
    if (model, peer) == ("cnn_small", "ours"):  # Few such roundings: most weights are the same.
      ends = np.cumsum([p.size for p in job.parameters])
      for own in np.split(np.abs(found - plain), ends[:-1]):
        self.assertLess(np.median(own), 1e-4)

  @nightly.only  # By day, nothing else: only measurements need it.
  def test_a_peer_that_can_not_be_installed(self):
    with mock.patch.dict(os.environ, {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": ""}):
      printed = in_process.run_main(
          run.main, "--model=cnn_small", "--peers=fedjax,ours", "--launches=1",
          "--rounds=1", f"--environments_dir={self.folder}",
      )

    self.assertRegex(printed, "fedjax +failed: ERROR: ")
    self.assertRegex(printed, r"ours +[0-9.]+ +[0-9.]+ \(.*\) +[0-9.]+e-0[4-9]\n")

  def test_unknown_peer(self):
    with self.assertRaisesRegex(launch.InputError, "`peers` must be one of ours, .*'fedml'"):
      in_process.run_main(run.main, "--peers=fedml")
