import dataclasses
import os
import shutil
import tempfile
from unittest import mock

from absl.testing import absltest
import grpc
import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from fl_clustering import runtime
from fl_clustering.distribution import dealing
from fl_clustering.distribution import pool
from fl_clustering.distribution import remote_worker
from fl_clustering.distribution import site_paths
from fl_clustering.engine import client_files
from fl_clustering.engine import client_update
from fl_clustering.engine import engine as engine_lib
from fl_clustering.engine import evaluation
from fl_clustering.engine import participation
from tests import small_task
from tests.distribution import recording_relay
from tests.distribution import started_workers

_TRAINING = client_update.LocalTraining(batch_size=20, learning_rate=0.1)


@tff.tensorflow.computation(np.str_)
def _content(path):
  return tf.io.read_file(path)


@tff.federated_computation(tff.FederatedType(np.str_, tff.CLIENTS))
def _contents(paths):
  return tff.federated_map(_content, paths)


@tff.tensorflow.computation(np.str_)
def _size(path):
  return tf.strings.length(tf.io.read_file(path))


@tff.federated_computation(tff.FederatedType(np.str_, tff.CLIENTS))
def _total_size(paths):
  return tff.federated_sum(tff.federated_map(_size, paths))


class _DiskFull(grpc.RpcError):
  """The error as TensorFlow says it."""

  def details(self):
    return "RESOURCE_EXHAUSTED: f.client; No space left on device"


class SitePathTest(absltest.TestCase):

  def test_a_path_is_read_back(self):
    for address in ("a.example:8000", "[::1]:80"):
      path = site_paths.SitePath(address, "00001.points")
      self.assertEqual(site_paths.parse(str(path)), path)
    self.assertIsNone(site_paths.parse("/tmp/site:a:1/x"))


class SitesTest(absltest.TestCase):

  def _pool(self, *workers, timeout=3, site_timeout=30):
    self.told = []
    addresses = tuple(worker.address for worker in workers)
    return self.enter_context(pool.Pool(addresses, timeout, self.told.append, site_timeout))

  def _sites(self, number):
    """Returns so many sites, of which each says another thing of itself."""
    return [started_workers.StartedWorker(self, site={"number": i}) for i in range(number)]

  def _path(self, worker, name, content):
    with open(os.path.join(worker.folder, name), "w", encoding="ascii") as file:
      file.write(content)
    return str(site_paths.SitePath(worker.address, name))

  def test_every_client_is_computed_where_its_file_is(self):
    sites = self._sites(2)
    # Both have a file of the same name.
    paths = [self._path(sites[i % 2], f"{i // 2}.x", "ab"[i % 2] * (i + 1)) for i in range(5)]
    opened = self._pool(*sites)
    self.assertEqual(
        opened.sites, {site.address: {"number": number} for number, site in enumerate(sites)}
    )
    found = [content.decode() for content in _contents(paths)]
    self.assertEqual(found, ["a", "bb", "aaa", "bbbb", "aaaaa"])
    self.assertEqual(_total_size(paths), 15)
    self.assertEqual(_total_size(paths[:1]), 1)

  def test_a_round_waits_for_a_site(self):
    first, second = self._sites(2)
    paths = [self._path(first, "x", "a"), self._path(second, "x", "bb")]
    self._pool(first, second)
    first.kill()
    # It comes back when the program has noticed.
    with mock.patch.object(dealing.time, "sleep", lambda seconds: first.start()):
      self.assertEqual(_total_size(paths), 3)
    self.assertLen(self.told, 1)
    self.assertRegex(
        self.told[0], rf"^the worker at {first.address} ended.* The round waits 30 s for it\.$"
    )

  def test_a_site_that_does_not_come_back_is_named(self):
    first, second = self._sites(2)
    paths = [self._path(first, "x", "a"), self._path(second, "x", "bb")]
    self._pool(first, second, site_timeout=1)
    second.kill()
    with self.assertRaisesRegex(
        dealing.SiteMissing, rf"^the site at {second.address} .*, and was not back within 1 s\.$"
    ) as caught:
      _total_size(paths)
    self.assertEqual(caught.exception.address, second.address)
    self.assertIsInstance(caught.exception, runtime.WorkerLost)
    # What the other has can still be asked for.
    self.assertEqual(_total_size(paths[:1]), 1)

  def test_a_network_that_is_cut_and_mended(self):
    (site,) = self._sites(1)
    relay = recording_relay.RecordingRelay(self, site.address)
    self._path(site, "x", "abc")
    path = str(site_paths.SitePath(relay.address, "x"))
    told = []

    def tell(line):
      told.append(line)
      relay.mend()

    with pool.Pool((relay.address,), timeout=1, tell=tell):
      self.assertEqual(_total_size([path]), 3)
      relay.cut()
      self.assertEqual(_total_size([path]), 3)
    self.assertLen(told, 1)
    self.assertIn(f"the worker at {relay.address} did not answer for 1 s.", told[0])

  def test_a_site_that_comes_back_with_other_data(self):
    (site,) = self._sites(1)
    path = self._path(site, "x", "a")
    self._pool(site, site_timeout=600)
    site.kill()

    def come_back(seconds):
      del seconds
      site.announce({"number": 7})
      site.start()

    with (
        mock.patch.object(dealing.time, "sleep", come_back),
        self.assertRaisesRegex(
            dealing.SiteMissing,
            rf"^the site at {site.address} can't be used: it came back with other clients or other "
            r"rows\.$",
        ),
    ):
      _total_size([path])

  def test_a_site_whose_disk_is_full_is_not_waited_for(self):
    (site,) = self._sites(1)
    path = self._path(site, "x", "a")
    self._pool(site, site_timeout=600)
    with (
        mock.patch.object(runtime.Context, "invoke", side_effect=_DiskFull()),
        self.assertRaisesRegex(
            dealing.SiteMissing, rf"^the site at {site.address} has no space left on its disk\.$"
        ),
    ):
      _total_size([path])
    self.assertEqual(self.told, [
        f"the worker at {site.address} has no space left on its disk. The round does not wait for "
        "it."
    ])

  def test_a_site_that_is_lost_whenever_it_computes_is_missing(self):
    site = remote_worker.RemoteWorker("h:1", 1, None)

    def is_lost(*unused_args):
      site.reason = "ended"
      raise runtime.WorkerLost("the worker at h:1 ended.")

    def comes_back(unused_seconds):
      site.reason, site.site = None, {}

    self.enter_context(mock.patch.object(site, "invoke", is_lost))
    self.enter_context(mock.patch.object(site, "connect", comes_back))
    context = pool._PoolContext([site], None, mock.Mock(), 1, 600, lambda line: None)
    self.addCleanup(context.close)
    context.connect(may_miss_sites=False)
    argument = mock.Mock(num_clients=1)
    argument.site.return_value, argument.part.return_value = "h:1", (None, [])
    with self.assertRaisesRegex(dealing.SiteMissing, r"^the site at h:1 ended\.$") as caught:
      context._invoke_parts(_total_size, argument)
    self.assertEqual(caught.exception.address, "h:1")

  def test_sites_and_other_workers_are_not_mixed(self):
    (site,) = self._sites(1)
    other = started_workers.StartedWorker(self)
    with self.assertRaisesRegex(
        remote_worker.WorkerUnusable, f"^the worker at {other.address} owns no clients, but others"
    ):
      pool.Pool((site.address, other.address))

  def test_a_site_that_does_not_answer_at_the_start(self):
    first, second = self._sites(2)
    second.kill()
    self.enter_context(mock.patch.object(pool, "_CONNECT_SECONDS", 4))
    for addresses, hint in (
        ((first.address, second.address),
         "; --missing_sites=skip leaves out sites that do not answer"),
        ((second.address,), ""),
    ):
      with self.assertRaisesRegex(
          remote_worker.WorkerUnusable,
          rf"^the worker at {second.address} refused the connection{hint}\.$",
      ):
        pool.Pool(addresses)

  def test_a_file_that_is_gone_is_named(self):
    (site,) = self._sites(1)
    path = self._path(site, "x.train", "a")
    os.remove(os.path.join(site.folder, "x.train"))
    self._pool(site)
    with self.assertRaisesRegex(runtime.ClientFileUnreadable, "'x.train' can't be read"):
      _total_size([path])


def _at_sites(files, workers):
  """Moves clients' files to sites, one after another, and returns the `ClientFiles`."""

  def move(file, worker):
    name = os.path.basename(os.fsdecode(file.path))
    shutil.copy(file.path, os.path.join(worker.folder, name))
    path = os.fsencode(str(site_paths.SitePath(worker.address, name)))
    return dataclasses.replace(file, path=path, site=worker.address)

  of_client = {c: workers[i % len(workers)] for i, c in enumerate(files.train)}
  train = {c: move(file, of_client[c]) for c, file in files.train.items()}
  test = {c: move(file, of_client[c]) for c, file in files.test.items()}
  return client_files.ClientFiles(train, test, tuple(test.values()))


class EngineTest(absltest.TestCase):

  def setUp(self):
    super().setUp()
    self._task = small_task.small_task()
    rng = np.random.default_rng(0)
    self._vectors = np.stack([
        np.concatenate([p.ravel() for p in self._task.model.initial_parameters(rng)])
        for _ in range(3)
    ])
    folder = tempfile.TemporaryDirectory()
    self.addCleanup(folder.cleanup)
    files = client_files.write_client_files(self._task, folder.name)
    self._alone = dataclasses.replace(files, global_test=tuple(files.test.values()))
    self._workers = [started_workers.StartedWorker(self, site={"number": i}) for i in range(2)]
    self._at_sites = _at_sites(files, self._workers)

  def _engine(self, files):
    with mock.patch.object(client_files, "write_client_files", return_value=files):
      return engine_lib.Engine(self._task, None, _TRAINING, seed=3)

  def _answers(self, files):
    engine = self._engine(files)
    # The second is at one site alone, and nobody of the third takes part.
    clusters = (("a", "b", "c", "d"), ("e", "a"), ("c",))
    round_ = participation.Round(2, ("a", "b", "d", "e"), 1)
    trained, losses = engine.train(self._vectors, clusters, round_)
    own, own_losses = engine.train_each(self._vectors[:2], ("d", "e"), round_)
    members = engine.train_members(self._vectors, clusters, round_)
    requests = [
        evaluation.Request(1, engine.files.global_test),
        evaluation.Request(0, tuple(engine.files.test[c] for c in "edcba")),
    ]
    return {
        "trained": trained, "losses": losses, "own": own, "own losses": own_losses,
        "members": members[1], "confusions": engine.confusions(self._vectors, requests),
        "losses of models": engine.losses(self._vectors, tuple("cadeb")),
        "subspaces": engine.subspaces(tuple("ea"), 2),
    }

  def test_the_engine_gives_the_same_at_sites(self):
    with runtime.LocalRuntime():
      expected = self._answers(self._alone)
    with pool.Pool(tuple(worker.address for worker in self._workers)):
      found = self._answers(self._at_sites)
    self.assertEqual(*(tf.nest.flatten(x["losses"]) for x in (found, expected)))
    np.testing.assert_allclose(found.pop("trained"), expected.pop("trained"), rtol=0, atol=1e-6)
    tf.nest.map_structure(np.testing.assert_array_equal, found, expected)

  def test_one_sum_per_site_and_cluster_crosses(self):
    sent = []
    invoke = remote_worker.RemoteWorker.invoke

    def record(worker, comp, arg, paths):
      result = invoke(worker, comp, arg, paths)
      flat = tff.structure.flatten(tff.structure.from_container(result, recursive=True))
      sent.append((worker.address, sum(map(np.size, flat))))
      return result

    with pool.Pool(tuple(worker.address for worker in self._workers)):
      engine = self._engine(self._at_sites)
      with mock.patch.object(remote_worker.RemoteWorker, "invoke", record):
        engine.train(
            self._vectors[:2], (("a", "b", "c", "d", "e"), ("b", "d")),
            participation.Round(2, tuple("abcde"), 1),
        )
    first, second = (worker.address for worker in self._workers)
    num_numbers = self._vectors.shape[1] + 1 + 5
    # The second cluster has members at the second site only.
    self.assertCountEqual(
        sent, [(first, num_numbers), (second, num_numbers), (second, num_numbers)]
    )


if __name__ == "__main__":
  absltest.main()
