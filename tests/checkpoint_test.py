import json
import os
from unittest import mock

from absl.testing import parameterized
import numpy as np

from fl_clustering.three_phase import checkpoint

_STATE = {"vectors": np.arange(6, dtype=np.float32).reshape(2, 3)}
_START = "what the stage started from"
_HISTORY = [["kmeans", 0, 1, "accuracy", 0.1 + 0.2]]


def _without(name):
  """Returns a function that writes a checkpoint without one of its parts."""
  def write(path):
    meta = {"started_from": _START, "round": 1, "history": []}
    del meta[name]
    np.savez(path, meta=np.array(json.dumps(meta)))
  return write


class CheckpointsTest(parameterized.TestCase):

  def setUp(self):
    super().setUp()
    self.folder = self.create_tempdir().full_path
    self.path = os.path.join(self.folder, "kmeans.npz")

  def _save(self, round_num, folder=None, at_once=True, history=()):
    checkpoints = checkpoint.Checkpoints(folder or self.folder)
    checkpoints.save("kmeans", _START, round_num, _STATE, list(history), at_once=at_once)
    return checkpoints

  def _round(self, folder=None):
    return checkpoint.Checkpoints(folder or self.folder).load("kmeans", _START)[0]

  def test_what_was_saved_is_loaded_bit_for_bit(self):
    self._save(3, at_once=False, history=_HISTORY)
    checkpoints = checkpoint.Checkpoints(self.folder)
    round_num, state, history = checkpoints.load("kmeans", _START)
    self.assertEqual((round_num, history), (3, _HISTORY))
    np.testing.assert_array_equal(state["vectors"], _STATE["vectors"])
    self.assertEqual(state["vectors"].dtype, np.float32)
    self.assertIsNone(checkpoints.load("pretrain", _START))

  def test_a_round_soon_after_a_save_is_saved_only_at_once(self):
    checkpoints = checkpoint.Checkpoints(self.folder)
    with mock.patch.object(checkpoint, "SAVING_SHARE", 1e-9):
      for round_num, at_once, saved in ((1, False, 1), (2, False, 1), (3, True, 3)):
        checkpoints.save("kmeans", _START, round_num, _STATE, [], at_once=at_once)
        self.assertEqual(self._round(), saved)

  def test_an_interrupted_save_leaves_the_checkpoint_before(self):
    self._save(3)
    half = os.path.join(self.folder, ".kmeans.npz.123.npz")
    with open(half, "wb") as f:
      f.write(b"PK half")
    self.assertEqual(self._round(), 3)
    self.assertFalse(os.path.exists(half))

  @parameterized.parameters(
      lambda path: os.truncate(path, os.path.getsize(path) // 2),
      # No pickles.
      lambda path: np.savez(path, meta=np.array({"round": 1}, dtype=object)),
      _without("started_from"), _without("round"), _without("history"),
  )
  def test_a_damaged_file_is_named(self, damage):
    self._save(3)
    damage(self.path)
    with self.assertRaisesRegex(checkpoint.DamagedCheckpoint, "kmeans.npz"):
      self._round()

  def test_the_state_of_another_start_is_refused(self):
    checkpoints = self._save(3)
    with self.assertRaisesRegex(checkpoint.DamagedCheckpoint, "kmeans.npz"):
      checkpoints.load("kmeans", "another start")

  def test_a_stage_of_another_run_is_reused_if_it_started_from_the_same(self):
    self._save(3, history=_HISTORY)
    own = self.create_tempdir().full_path
    checkpoints = checkpoint.Checkpoints(own, reuse=self.folder)
    with self.assertLogs(level="WARNING") as logs:
      self.assertIsNone(checkpoints.load("kmeans", "another start"))
      self.assertIsNone(checkpoints.load("kmeans", "yet another start"))
    self.assertLen(logs.records, 1)
    self.assertIsNone(checkpoints.load("pretrain", _START))
    round_num, state, _ = checkpoints.load("kmeans", _START)
    self.assertEqual(round_num, 3)
    np.testing.assert_array_equal(state["vectors"], _STATE["vectors"])
    # It is the run's own from then on, and the other one stays as it is.
    self.assertEqual(self._round(own), 3)
    checkpoints.save("kmeans", _START, 4, _STATE, [], at_once=True)
    self.assertEqual((self._round(own), self._round()), (4, 3))

  def test_a_damaged_stage_of_another_run(self):
    other = self.create_tempfile("other/kmeans.npz", "no archive").full_path
    checkpoints = checkpoint.Checkpoints(self.folder, reuse=os.path.dirname(other))
    with self.assertRaisesRegex(checkpoint.DamagedCheckpoint, other):
      checkpoints.load("kmeans", _START)
