import os
import time
import tempfile
from unittest import mock

from absl.testing import absltest
import grpc
import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from fl_clustering import runtime
from fl_clustering.distribution import announcement
from fl_clustering.distribution import pool
from fl_clustering.distribution import remote_worker
from fl_clustering.engine import client_update
from fl_clustering.engine import engine as engine_lib
from fl_clustering.engine import evaluation
from fl_clustering.engine import federated_training
from fl_clustering.engine import participation
from fl_clustering.kmeans import estimator
from tests import small_task
from tests.distribution import started_workers

_TRAINING = client_update.LocalTraining(batch_size=20, learning_rate=0.1)


@tff.tensorflow.computation(np.str_)
def _size(path):
  return tf.strings.length(tf.io.read_file(path))


@tff.federated_computation(tff.FederatedType(np.str_, tff.CLIENTS))
def _sizes(paths):
  return tff.federated_map(_size, paths)


@tff.federated_computation(tff.FederatedType(np.str_, tff.CLIENTS))
def _total_size(paths):
  return tff.federated_sum(tff.federated_map(_size, paths))


class _DiskFull(grpc.RpcError):
  """The error as TensorFlow says it."""

  def details(self):
    return "RESOURCE_EXHAUSTED: f.client; No space left on device"


class PoolTest(absltest.TestCase):

  def _pool(self, *workers, timeout=3):
    self.told = []
    addresses = tuple(worker.address for worker in workers)
    return self.enter_context(pool.Pool(addresses, timeout, self.told.append))

  def _workers(self, number):
    return [started_workers.StartedWorker(self) for _ in range(number)]

  def _paths(self, sizes):
    folder = self.create_tempdir().full_path
    paths = []
    for i, size in enumerate(sizes):
      paths.append(os.fsencode(os.path.join(folder, f"{i}.train")))
      with open(paths[-1], "wb") as file:
        file.write(bytes([i]) * size)
    return paths

  def test_everything_that_is_asked_of_clients_is_the_same_to_the_bit(self):
    task = small_task.small_task()
    rng = np.random.default_rng(0)
    vectors = np.stack([
        np.concatenate([p.ravel() for p in task.model.initial_parameters(rng)])
        for _ in range(2)
    ])
    round_ = participation.Round(2, ("a", "b", "d", "e"), 1)

    def answers():
      with tempfile.TemporaryDirectory() as folder:
        engine = engine_lib.Engine(task, folder, _TRAINING, seed=3)
        fedavg = federated_training.FedAvg(task, engine.files, _TRAINING, None, seed=3)
        return {
            "fedavg": fedavg.next(fedavg.initialize(), round_)[0].vector,
            "train": engine.train(vectors, (("a", "b", "d"), ("b", "e")), round_),
            "members": engine.train_members(vectors, (("a", "b"), ("b", "e")), round_),
            "each": engine.train_each(vectors, ("b", "d"), round_),
            "confusions": engine.confusions(vectors, [
                evaluation.Request(0, engine.files.global_test),
                evaluation.Request(1, (engine.files.test["a"], engine.files.test["c"])),
            ]),
            "losses": engine.losses(vectors, task.client_ids),
            "subspaces": engine.subspaces(("a", "c"), 2),
        }

    with runtime.LocalRuntime():
      expected = answers()
    workers = self._workers(2)
    self._pool(*workers)
    with mock.patch.object(os, "sched_getaffinity", return_value=range(7)):
      self.assertEqual(runtime.num_cores(), 2)
    found = answers()
    for name, value in expected.items():
      tf.nest.map_structure(np.testing.assert_array_equal, found[name], value)
    for worker in workers:
      self.assertNotEmpty(worker.files())

  def test_kmeans_from_sums_is_the_same_to_the_bit(self):
    rng = np.random.default_rng(1)
    clients = {
        f"client {i}": rng.normal(i % 3, 0.2, (40 + i, 3)) * [1, 30, 1e-3] for i in range(7)
    }

    def fit():
      return estimator.FederatedKMeans(3, standardize=True, random_state=2).fit(clients)

    with runtime.LocalRuntime():
      expected = fit()
    self._pool(*self._workers(2))
    found = fit()
    np.testing.assert_array_equal(found.cluster_centers_, expected.cluster_centers_)
    self.assertEqual(found.inertia_, expected.inertia_)

  def test_a_pool_that_was_closed_computes_no_fit(self):
    with pool.Pool((self._workers(1)[0].address,)):
      self.assertTrue(runtime.has_context_of_the_caller())
    self.assertFalse(runtime.has_context_of_the_caller())
    estimator.FederatedKMeans(2).fit(np.eye(4))

  def test_an_aggregator_of_tff_adds_up_at_each_worker(self):
    task, round_ = small_task.small_task(), participation.Round(1, ("a", "b", "c", "e"), 1)

    def after():
      with tempfile.TemporaryDirectory() as folder:
        engine = engine_lib.Engine(task, folder, _TRAINING, seed=3)
        fedavg = federated_training.FedAvg(
            task, engine.files, _TRAINING, tff.aggregators.MeanFactory(), seed=3
        )
        state, losses = fedavg.next(fedavg.initialize(), round_)
        return state.vector, losses

    with runtime.LocalRuntime():
      expected, expected_losses = after()
    self._pool(*self._workers(2))
    vector, losses = after()
    np.testing.assert_allclose(vector, expected, atol=1e-7)
    self.assertEqual(losses, expected_losses)

  def test_results_are_in_the_order_of_the_clients(self):
    self._pool(*self._workers(2))
    self.assertEqual(_sizes(self._paths([5, 0, 3, 9, 1])), [5, 0, 3, 9, 1])

  def test_one_client_needs_one_worker(self):
    self._pool(*self._workers(2))
    (path,) = self._paths([4])
    self.assertEqual((_sizes([path]), _total_size([path])), ([4], 4))

  def test_files_are_sent_once(self):
    worker, other = self._workers(2)
    paths = self._paths([3, 3000, 0])
    with pool.Pool((worker.address,)):
      self.assertEqual(_total_size(paths), 3003)
      sent = worker.files()
      self.assertCountEqual([size for size, _ in sent.values()], [3, 3000, 0])
      self.assertEqual(_total_size(paths), 3003)
    with pool.Pool((worker.address,)):
      self.assertEqual(_total_size(paths), 3003)
    self.assertEqual(worker.files(), sent)
    self.assertEmpty(other.files())

  def test_a_file_that_changed_is_sent_again(self):
    worker, = self._workers(1)
    paths = self._paths([3])
    self._pool(worker)
    self.assertEqual(_sizes(paths), [3])
    with open(paths[0], "wb") as file:
      file.write(b"12345")
    self.assertEqual(_sizes(paths), [5])

  def test_a_file_that_was_not_written_to_its_end_is_sent_again(self):
    worker, = self._workers(1)
    paths = self._paths([300])
    with pool.Pool((worker.address,)):
      self.assertEqual(_sizes(paths), [300])
    (name,) = worker.files()
    with open(os.path.join(worker.folder, name), "wb") as file:
      file.write(b"\0" * 100)
    self._pool(worker)
    self.assertEqual(_sizes(paths), [300])

  def test_the_clients_of_a_worker_that_ends_go_to_the_others(self):
    first, second = self._workers(2)
    self._pool(first, second)
    paths = self._paths([1, 2, 3, 4])
    self.assertEqual(_sizes(paths), [1, 2, 3, 4])
    first.kill()
    self.assertEqual(_sizes(paths), [1, 2, 3, 4])
    self.assertEqual(_total_size(paths), 10)
    (line,) = self.told
    self.assertRegex(line, f"^the worker at {first.address} ended, or its connection did")

  def test_a_worker_that_comes_back_takes_part_again(self):
    first, second = self._workers(2)
    self._pool(first, second, timeout=30)
    paths = self._paths([1, 2])
    self.assertEqual(_sizes(paths), [1, 2])
    first.kill()
    self.assertEqual(_sizes(paths), [1, 2])
    first.start()
    second.kill()
    # Waits until the first one is there.
    self.assertEqual(_sizes(paths), [1, 2])
    self.assertLen(self.told, 2)

  def test_a_worker_that_hangs_is_lost(self):
    first, second = self._workers(2)
    self._pool(first, second, timeout=1)
    paths = self._paths([1, 2])
    self.assertEqual(_sizes(paths), [1, 2])
    first.stop()
    self.assertEqual(_sizes(paths), [1, 2])
    (line,) = self.told
    self.assertIn(f"the worker at {first.address} did not answer for 1 s.", line)

  def test_a_worker_with_a_full_disk_is_not_asked_again(self):
    workers = self._pool(*self._workers(2)).context._workers
    paths = self._paths([1, 2])
    connect = self.enter_context(mock.patch.object(workers[0], "connect"))
    with mock.patch.object(workers[0]._connection.files, "send", side_effect=_DiskFull()):
      self.assertEqual(_sizes(paths), [1, 2])
    self.assertEqual(_sizes(paths), [1, 2])
    connect.assert_not_called()
    self.assertEqual(self.told, [
        f"the worker at {workers[0].address} has no space left on its disk. Its clients go to the "
        "other workers."
    ])

  def test_no_worker_is_left(self):
    first, second = self._workers(2)
    self._pool(first, second, timeout=1)
    paths = self._paths([1, 2])
    self.assertEqual(_sizes(paths), [1, 2])
    first.kill()
    second.kill()
    with self.assertRaisesRegex(
        runtime.WorkerLost, f"no worker is left: {first.address} .*, {second.address} "
    ):
      _sizes(paths)

  def test_errors_of_a_client_are_errors(self):
    self._pool(*self._workers(2))
    paths = self._paths([1, 2])
    os.remove(paths[0])
    with self.assertRaises(FileNotFoundError):
      _sizes(paths)


class FullDiskTest(absltest.TestCase):

  def test_what_tensorflow_says_of_a_failed_write_is_told_from_a_file_that_can_t_be_read(self):
    context = runtime.Context(None, lambda: None)
    self.addCleanup(context.close)
    worker = remote_worker.RemoteWorker("h:1", 1, None)
    worker._connection = mock.Mock(context=context, reason=None)
    for reason in ("No space left on device", "Disk quota exceeded"):
      error = grpc.RpcError()
      error.details = lambda: (
          f"RESOURCE_EXHAUSTED: 7a.client; {reason}\n\t [[{{{{node map/WriteFile}}}}]]"
      )
      with (
          mock.patch.object(tff.framework.SyncExecutionContext, "invoke", side_effect=error),
          self.assertRaisesRegex(runtime.WorkerLost, "h:1 has no space left on its disk"),
      ):
        worker.invoke(_sizes, ["7a.client"], ())
      self.assertTrue(worker.is_full)


class MissingSitesTest(absltest.TestCase):

  def test_a_site_that_does_not_answer_can_be_left_out(self):
    site, lost = (started_workers.StartedWorker(self) for _ in range(2))
    announcement.write(site.folder, num_cores=1, site={"clients": {}})
    lost.kill()
    told = []
    with mock.patch.object(pool, "_CONNECT_SECONDS", 1):
      opened = self.enter_context(pool.Pool(
          (lost.address, site.address), tell=told.append, may_miss_sites=True
      ))
    self.assertEqual(opened.sites, {site.address: {"clients": {}}})
    self.assertEqual(told, [f"the site at {lost.address} refused the connection. It is left out."])

  def test_a_worker_without_clients_can_not(self):
    worker, lost = (started_workers.StartedWorker(self) for _ in range(2))
    lost.kill()
    with mock.patch.object(pool, "_CONNECT_SECONDS", 1), self.assertRaisesRegex(
        ValueError, f"the worker at {lost.address} refused the connection"
    ):
      pool.Pool((worker.address, lost.address), may_miss_sites=True)


class UnusableTest(absltest.TestCase):

  def _message(self, *addresses):
    with self.assertRaises(ValueError) as raised:
      pool.Pool(addresses, timeout=1)
    return str(raised.exception)

  def test_nobody_answers(self):
    worker = started_workers.StartedWorker(self)
    worker.stop()
    with mock.patch.object(pool, "_CONNECT_SECONDS", 1):
      self.assertEqual(
          self._message(worker.address), f"the worker at {worker.address} does not answer."
      )

  def test_a_refused_connection_is_said_at_once(self):
    worker = started_workers.StartedWorker(self)
    worker.kill()
    start = time.monotonic()
    self.assertEqual(
        self._message(worker.address), f"the worker at {worker.address} refused the connection."
    )
    self.assertLess(time.monotonic() - start, pool._CONNECT_SECONDS / 2)

  def test_another_program(self):
    worker = started_workers.StartedWorker(self)
    os.remove(os.path.join(worker.folder, announcement.FILE_NAME))
    self.assertRegex(
        self._message(worker.address),
        f"^the worker at {worker.address} was not started by `tools:worker` or `tools:site` ",
    )

  def test_another_version(self):
    worker = started_workers.StartedWorker(self)
    path = os.path.join(worker.folder, announcement.FILE_NAME)
    with open(path, encoding="utf-8") as file:
      content = file.read()
    with open(path, "w", encoding="utf-8") as file:
      file.write(content.replace(tf.__version__, "1.2.3"))
    self.assertRegex(
        self._message(worker.address),
        f"^the worker at {worker.address} can't be used: it has the versions .*1.2.3.*, and "
        f"this program has .*{tf.__version__}",
    )

  def test_a_damaged_announcement(self):
    worker = started_workers.StartedWorker(self)
    for content in ("{", "{}", "[]", '{"versions": {}, "num_cores": 1}'):
      with open(os.path.join(worker.folder, announcement.FILE_NAME), "w") as file:
        file.write(content)
      self.assertIn("can't be used: it", self._message(worker.address))

  def test_addresses(self):
    self.assertIn("`workers` must name every worker once", self._message())
    self.assertIn("`workers` must name every worker once", self._message("a:1", "a:1"))


if __name__ == "__main__":
  absltest.main()
