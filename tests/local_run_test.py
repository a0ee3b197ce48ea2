import dataclasses
import importlib.util
from unittest import mock

from absl.testing import absltest

from fl_clustering import local_run
from fl_clustering.engine import engines
from fl_clustering.three_phase import config as config_lib
from tests import small_task


def _config(engine):
  return config_lib.ThreePhaseConfig.for_task(small_task.small_task(), engine=engine)


class LocalRunTest(absltest.TestCase):

  def test_jax_takes_no_runtime_of_tff(self):
    config, task = _config("jax"), small_task.small_task()
    with (
        mock.patch.object(local_run, "runtime", None),
        mock.patch.object(local_run.run_lib, "run", return_value="found") as run,
    ):
      self.assertEqual(local_run.run(config, task), "found")
    self.assertEqual(run.call_args.args[:2], (config, task))

  def test_the_usual_engine_is_one_that_can_compute_the_model(self):
    task = small_task.small_task()
    of_jax = dataclasses.replace(task, model=dataclasses.replace(task.model, logits=None))
    for engine in engines.ENGINES:
      with mock.patch.object(engines, "usual", return_value=engine):
        self.assertEqual(config_lib.ThreePhaseConfig.for_task(task).engine, engine)
        self.assertEqual(config_lib.ThreePhaseConfig.for_task(of_jax).engine, "jax")

  def test_an_engine_that_is_not_installed_is_named(self):
    for engine in engines.ENGINES:
      with (
          mock.patch.object(importlib.util, "find_spec", return_value=None),
          self.assertRaisesRegex(ValueError, f"^`engine` {engine}"),
      ):
        local_run.run(_config(engine), small_task.small_task())
