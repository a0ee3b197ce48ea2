from unittest import mock

from absl.testing import absltest
from absl.testing import parameterized
import numpy as np

from fl_clustering import runtime
from fl_clustering.engine import participation
from fl_clustering.engine import personalization
from fl_clustering.engine.tff import heads
from fl_clustering.engine.tff import model_jobs
from tests import letters
from tests import local_runtime
from tests import small_task
from tests.engine.tff import small_engine

_TASK = small_task.small_task()
_ALL, _ROUND = np.arange(5), participation.Round(4, letters.clients("abde"), 2)
_CLUSTERS = letters.clusters("bcde", "", "ed", "d", "a")
_COMMON = small_task.vectors(_TASK, 6)[5]
_PULL = personalization.Personalization(pull=0.1)
# What an engine makes of five models, as several arrays.
_VERBS = {
    "train": lambda engine, models: engine.train(models, _CLUSTERS, _ROUND)[0],
    "train_members": lambda engine, models: _of_members(
        *engine.train_members(models, _CLUSTERS, _ROUND)
    ),
    "train_each": lambda engine, models: engine.train_each(models, _ALL, _ROUND)[0],
    "train_own": lambda engine, models: engine.train_own(models, _ALL, _ROUND, _COMMON, _PULL)[:2],
    "losses": lambda engine, models: engine.losses(models, _ALL),
    "confusions": lambda engine, models: engine.confusions(models, _CLUSTERS),
    "moments": lambda engine, models: engine.moments(models[0], _ALL, by_label=True),
}
# The numbers that fit a message: three models, or ten outputs of a client's 60 examples.
_FIT = {**dict.fromkeys(_VERBS, 3 * _TASK.num_parameters), "moments": 10 * 60}

setUpModule = local_runtime.use


def _limit(num_numbers):
  """Has a message hold at most so many numbers, as with large models."""
  num_bytes = 4 * num_numbers
  return mock.patch.multiple(model_jobs, MESSAGE_BYTES=num_bytes, MOST_MESSAGE_BYTES=num_bytes)


def _of_members(vectors, own, losses):
  return [vectors, *own, *(one.clients for one in losses), *(one.values for one in losses)]


class BatchesTest(parameterized.TestCase):

  @parameterized.parameters(
      (10, [(0, 2), (2, 4), (4, 5)], [4, 6, 1, 9, 10]), (10, [], []),
      # An item that fits nowhere is alone.
      (10, [(0, 1), (1, 2), (2, 3)], [3, 11, 3]),
      # A model of six numbers is sent once in a batch.
      (10, [(0, 4)], [1, 1, 1, 1], [[0]] * 4, 6),
      (10, [(0, 1), (1, 2), (2, 3), (3, 4)], [1, 1, 1, 1], [[0], [1]] * 2, 6),
      (12, [(0, 4)], [1, 1, 1, 1], [[0], [1]] * 2, 6),
      (12, [(0, 2), (2, 3)], [1, 1, 1], [[0, 1], [1, 0], [2]], 6),
      (18, [(0, 3)], [1, 1, 1], [[0, 1], [1, 0], [2]], 6),
      # Models and results are in messages of their own.
      (12, [(0, 2), (2, 4)], [6, 6, 6, 6], [[0], [1]] * 2, 6),
      # A model that fits no message is sent once.
      (5, [(0, 3)], [1, 1, 1], [[0]] * 3, 6), (5, [(0, 1), (1, 3)], [1, 1, 1], [[0], [1], [1]], 6),
  )
  def test_hold_as_many_items_as_fit(self, limit, expected, *args):
    with _limit(limit):
      found = [(part.start, part.stop) for part in model_jobs.batches(*args)]
    self.assertEqual(found, expected)

  def test_large_models_are_sent_to_all_cores(self):
    megabyte = 2**18  # Numbers of float32.
    for cores, expected in ((1, 2), (2, 2), (3, 3), (12, 12), (40, 12)):
      with mock.patch.object(runtime, "num_cores", return_value=cores):
        for batches in (
            model_jobs.batches([10 * megabyte] * 50),
            model_jobs.batches([1] * 50, [[i] for i in range(50)], 10 * megabyte),
        ):
          self.assertEqual(batches[0], slice(0, expected), cores)


class ResultsTest(absltest.TestCase):

  def _do_all(self, models, jobs):
    self.sent.append((models.copy(), [dict(job) for job in jobs]))
    # In the order of completion, as several workers would answer.
    return [(job["index"], models[job["model"]].sum() + job["term"]) for job in jobs[::-1]]

  def _results(self, models, jobs, limit=100):
    self.sent = []
    with _limit(limit):
      return [
          float(total) for total, in model_jobs.results(self._do_all, models, jobs, [1] * len(jobs))
      ]

  def test_results_are_in_the_order_of_the_jobs_however_they_are_sent(self):
    models = np.array([[1, 0], [10, 0], [100, 0]], np.float32)
    jobs = [{"model": m, "term": i / 10} for i, m in enumerate((2, 0, 2, 1, 0))]
    expected = [100, 1.1, 100.2, 10.3, 1.4]
    for limit in (1, 4, 6, 100):
      np.testing.assert_allclose(self._results(models, jobs, limit), expected, rtol=1e-6)

  def test_only_models_that_are_used_are_sent(self):
    models = np.array([[1, 0], [10, 0], [100, 0]], np.float32)
    self._results(models, [{"model": 2, "term": 0}, {"model": 2, "term": 1}])
    ((sent, jobs),) = self.sent
    np.testing.assert_array_equal(sent, models[2:])
    self.assertEqual([job["model"] for job in jobs], [0, 0])

  def test_a_job_may_use_several_models(self):
    models = np.array([[1, 0], [10, 0], [100, 0]], np.float32)
    jobs = [{"model": np.array([2, 1]), "term": 0}, {"model": np.array([0, 2]), "term": 1}]
    for limit in (4, 6, 100):
      self.assertEqual(self._results(models, jobs, limit), [110, 102])
    self._results(models, jobs, 4)
    self.assertEqual([sent[:, 0].tolist() for sent, _ in self.sent], [[10, 100], [1, 100]])

  def test_a_view_of_one_model_is_sent_as_one(self):
    models = np.broadcast_to(np.float32([3, 4]), (5, 2))
    found = self._results(models, [{"model": 4, "term": 0}, {"model": 1, "term": 1}])
    self.assertEqual(found, [7, 8])
    self.assertEqual(self.sent[0][0].shape, (1, 2))


class AnySizeTest(parameterized.TestCase):

  @parameterized.parameters(*_VERBS)
  def test_messages_of_any_size_in_any_order_give_the_same_bits(self, verb):
    do_in_order, sent = model_jobs.in_order, []

    def in_order(do_all, common, jobs):
      sent.append(len(jobs))
      # As several workers would answer.
      return do_in_order(lambda *args: list(do_all(*args))[::-1], common, jobs)

    # A head has all members of its cluster, and is cut where their results do not fit.
    with mock.patch.object(heads, "FEWEST_HEADS", 1):
      whole = _VERBS[verb](small_engine.engine(), small_task.vectors(_TASK, 5))
      with (
          _limit(_FIT[verb]), mock.patch.object(heads, "HEADS_PER_MESSAGE", 1),
          mock.patch.object(model_jobs, "in_order", in_order),
      ):
        parts = _VERBS[verb](small_engine.engine(), small_task.vectors(_TASK, 5))
    self.assertGreater(len(sent), 1)
    for found, expected in zip(parts, whole, strict=True):
      np.testing.assert_array_equal(found, expected)
