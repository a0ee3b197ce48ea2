"""What a user's program or environment has set of JAX changes nothing of the engine's numbers."""

import dataclasses
import os
import subprocess
import sys
import tempfile
import threading
from unittest import mock

from absl.testing import absltest
import jax
import numpy as np

from fl_clustering.engine import bounded_sums
from fl_clustering.engine import participation
from fl_clustering.engine import sketch
from fl_clustering.engine.jax import bounded_sums as of_jax
from fl_clustering.engine.jax import engine as jax_engine
from fl_clustering.engine.jax import evaluation
from fl_clustering.engine.jax import own_settings
from tests import nightly
from tests import small_task

_USERS = {
    "jax_enable_x64": True,
    "jax_default_prng_impl": "rbg",
    "jax_threefry_partitionable": False,
    "jax_numpy_dtype_promotion": "strict",
    "jax_numpy_rank_promotion": "raise",
    "jax_transfer_guard": "disallow",
    "jax_debug_nans": True,
}


def _bounded_sums(task):
  """Returns the sums that private clusters ask for."""
  clients = task.clients
  sums = of_jax.BoundedSums(task.model, 2, 2, 0.5, clients.train, clients.test)
  points = sums.centered_sketches(np.full(sketch.SIZE, 0.01))
  vectors, everyone = np.zeros((2, task.num_parameters), np.float32), np.arange(len(clients))
  vectors[1, 5] = np.nan
  told = bounded_sums.Public(vectors, True, points.by_id[:2].astype(np.float64), 0.3)

  def others():
    questions = (bounded_sums.SKETCH, bounded_sums.NORM, bounded_sums.REPORT)
    return (
        *(sums.total(one, told, everyone) for one in questions),
        sums.total(bounded_sums.ROUND, told._replace(is_locked=False), everyone),
        *sums.scores(vectors, everyone, 3),
    )

  found = points.by_id, sums.total(bounded_sums.ROUND, told, everyone)
  return (*found, *nightly.either(tuple, others)())


def _computed():
  """Returns arrays that the engine computes, random order and dropout among them."""
  task = small_task.small_task("logistic")
  model = dataclasses.replace(
      task.model, uses_dropout=True, layers=(("dropout", 0.5), *task.model.layers)
  )
  engine = jax_engine.Engine(dataclasses.replace(task, model=model), 20, 0.1, 3)
  everyone, vectors = engine.clients, np.zeros((2, model.num_parameters), np.float32)
  vectors[1, 5] = np.nan
  round_ = participation.Round(1, everyone, 2)
  trained, (losses,) = engine.train(vectors[:1], [everyone], round_)

  def others():
    each, _ = engine.train_each(vectors[[0, 0]], everyone[:2], round_)
    return (
        each, engine.sketches(everyone, 8), *engine.confusions(trained, [everyone]),
        engine.global_confusions(trained),
        evaluation.logits(model, trained[0], np.ones((3, 28, 28, 1), np.float32)),
    )

  # By day, one of each kind: what trains, evaluates, projects, and adds up messages.
  return (
      trained, losses.values, engine.losses(vectors, everyone), *_bounded_sums(task),
      *nightly.either(tuple, others)(),
  )


class OwnSettingsTest(absltest.TestCase):

  def test_products_that_leave_their_precision_open_are_of_full_float32(self):
    # On a CPU, their numbers don't show it.
    with own_settings.own():
      product = jax.make_jaxpr(lambda x: x @ x)(np.ones((2, 2), np.float32))
    self.assertIn("HIGHEST", str(product))

  def test_the_users_settings_change_no_bit_and_stay(self):
    expected = _computed()
    for name, value in _USERS.items():
      self.addCleanup(jax.config.update, name, getattr(jax.config, name))
      jax.config.update(name, value)
    for one, other in zip(_computed(), expected, strict=True):
      self.assertEqual(one.dtype, other.dtype)
      np.testing.assert_array_equal(one, other)
    for name, value in _USERS.items():
      self.assertEqual(getattr(jax.config, name), value)

  def test_a_call_that_another_outlives_leaves_it_its_settings(self):
    names = [
        name for name in ("jax_compilation_cache_dir", "jax_threefry_partitionable")
        if hasattr(jax.config, name)
    ]
    begun, ends, late = threading.Event(), threading.Event(), []

    def found():
      return [getattr(jax.config, name) for name in names]

    def longer():
      with own_settings.own():
        begun.set()
        ends.wait()
        late.extend(found())

    before, thread = found(), threading.Thread(target=longer)
    with own_settings.own():
      during = found()
      thread.start()
      begun.wait()
    ends.set()
    thread.join()
    self.assertEqual(late, during)
    self.assertEqual(found(), before)



_COMPILED = """
import jax
from fl_clustering.engine.jax import devices, own_settings

devices.local()
with own_settings.own():
  jax.jit(lambda x: x + 1)(3.0)
"""


class CacheTest(absltest.TestCase):

  def setUp(self):
    super().setUp()
    if not hasattr(jax.config, "jax_compilation_cache_dir"):
      self.skipTest("JAX 0.4.13 keeps no programs for CPUs.")
    self.base = self.enter_context(tempfile.TemporaryDirectory())
    self.enter_context(mock.patch.dict(os.environ, {"XDG_CACHE_HOME": self.base}))
    jax.config.update("jax_compilation_cache_dir", None)

  def _kept(self):
    return {name.partition("-")[0] for _, _, names in os.walk(self.base) for name in names}

  def test_nothing_is_kept_of_sums_whose_shapes_would_tell_of_clients(self):
    for named in (None, os.path.join(self.base, "of_the_user")):
      jax.config.update("jax_compilation_cache_dir", named)
      with own_settings.without_cache():
        with own_settings.own():
          jax.jit(lambda x: x + 3)(3.0)
        self.assertEqual(self._kept(), set())
    jax.config.update("jax_compilation_cache_dir", None)
    with own_settings.own():
      jax.jit(lambda x: x + 4)(3.0)
    self.assertNotEmpty(self._kept())

  def test_what_the_engine_compiles_is_kept_and_nothing_else(self):
    def ours(x):
      return x + 1

    def users(x):
      return x + 2

    with own_settings.own():
      jax.jit(ours)(3.0)
    self.assertEqual(self._kept(), {"jit_ours"})
    jax.jit(users)(3.0)
    self.assertEqual(self._kept(), {"jit_ours"})
    self.assertIsNone(jax.config.jax_compilation_cache_dir)

  def test_a_folder_of_the_users_is_the_one(self):
    named = self.enter_context(tempfile.TemporaryDirectory())
    self.addCleanup(jax.config.update, "jax_compilation_cache_dir", None)
    jax.config.update("jax_compilation_cache_dir", named)
    with own_settings.own():
      self.assertEqual(jax.config.jax_compilation_cache_dir, named)
    self.assertEqual(jax.config.jax_compilation_cache_dir, named)

  def test_a_folder_that_cant_be_written_is_no_word_worth(self):
    file = os.path.join(self.base, "file")
    open(file, "w", encoding="ascii").close()
    done = subprocess.run(
        [sys.executable, "-c", _COMPILED], env={**os.environ, "XDG_CACHE_HOME": file},
        capture_output=True, text=True, check=False,
    )
    self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))
