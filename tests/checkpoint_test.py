import json
import os
from unittest import mock

from absl.testing import absltest
import numpy as np

from fl_clustering.three_phase import checkpoint

_STATE = {"vectors": np.arange(6, dtype=np.float32).reshape(2, 3)}
_START = "what the stage started from"
_HISTORY = [["cluster", "kmeans", 0, 1, "accuracy", 0.1 + 0.2]]


class CheckpointsTest(absltest.TestCase):

  def setUp(self):
    super().setUp()
    self.folder = self.create_tempdir().full_path

  def test_what_was_saved_is_loaded_bit_for_bit(self):
    checkpoint.Checkpoints(self.folder).save("kmeans", _START, 3, _STATE, _HISTORY, at_once=False)
    round_num, state, history = checkpoint.Checkpoints(self.folder).load("kmeans", _START)
    self.assertEqual(round_num, 3)
    self.assertEqual(history, _HISTORY)
    np.testing.assert_array_equal(state["vectors"], _STATE["vectors"])
    self.assertEqual(state["vectors"].dtype, np.float32)

  def test_a_stage_without_a_checkpoint(self):
    self.assertIsNone(checkpoint.Checkpoints(self.folder).load("pretrain", _START))

  def test_stages_are_kept_apart(self):
    checkpoints = checkpoint.Checkpoints(self.folder)
    checkpoints.save("pretrain", _START, 1, _STATE, [], at_once=True)
    self.assertIsNone(checkpoints.load("kmeans", _START))

  def test_the_last_round_is_always_saved(self):
    checkpoints = checkpoint.Checkpoints(self.folder)
    for round_num in range(1, 6):
      checkpoints.save("kmeans", _START, round_num, _STATE, [], at_once=round_num == 5)
    self.assertEqual(checkpoints.load("kmeans", _START)[0], 5)

  def test_a_round_soon_after_a_save_is_saved_only_at_once(self):
    checkpoints = checkpoint.Checkpoints(self.folder)
    with mock.patch.object(checkpoint, "SAVING_SHARE", 1e-9):
      checkpoints.save("kmeans", _START, 1, _STATE, [], at_once=False)
      checkpoints.save("kmeans", _START, 2, _STATE, [], at_once=False)
      self.assertEqual(checkpoints.load("kmeans", _START)[0], 1)
      checkpoints.save("kmeans", _START, 3, _STATE, [], at_once=True)
      self.assertEqual(checkpoints.load("kmeans", _START)[0], 3)

  def test_an_interrupted_save_leaves_the_checkpoint_before(self):
    checkpoint.Checkpoints(self.folder).save("kmeans", _START, 3, _STATE, [], at_once=True)
    half = os.path.join(self.folder, ".kmeans.npz.123.npz")
    with open(half, "wb") as f:
      f.write(b"PK half")
    checkpoints = checkpoint.Checkpoints(self.folder)
    self.assertEqual(checkpoints.load("kmeans", _START)[0], 3)
    self.assertFalse(os.path.exists(half))

  def test_a_damaged_file_is_named(self):
    path = os.path.join(self.folder, "kmeans.npz")
    checkpoints = checkpoint.Checkpoints(self.folder)
    checkpoints.save("kmeans", _START, 3, _STATE, [], at_once=True)
    with open(path, "r+b") as f:
      f.truncate(os.path.getsize(path) // 2)
    with self.assertRaisesRegex(checkpoint.DamagedCheckpoint, "kmeans.npz can't be read"):
      checkpoints.load("kmeans", _START)

  def test_the_state_of_another_start_is_refused(self):
    checkpoints = checkpoint.Checkpoints(self.folder)
    checkpoints.save("kmeans", _START, 3, _STATE, [], at_once=True)
    with self.assertRaisesRegex(
        checkpoint.DamagedCheckpoint, "kmeans.npz does not fit this run.*remove it"
    ):
      checkpoints.load("kmeans", "another start")

  def test_a_stage_of_another_run_is_reused_if_it_started_from_the_same(self):
    checkpoint.Checkpoints(self.folder).save("kmeans", _START, 3, _STATE, _HISTORY, at_once=True)
    own = self.create_tempdir().full_path
    checkpoints = checkpoint.Checkpoints(own, reuse=self.folder)
    with self.assertLogs(level="WARNING") as logs:
      self.assertIsNone(checkpoints.load("kmeans", "another start"))
      self.assertIsNone(checkpoints.load("kmeans", "yet another start"))
    self.assertLen(logs.records, 1)
    self.assertStartsWith(
        logs.records[0].getMessage(), "The stage kmeans started from other data or settings in "
    )
    self.assertIsNone(checkpoints.load("pretrain", _START))
    round_num, state, _ = checkpoints.load("kmeans", _START)
    self.assertEqual(round_num, 3)
    np.testing.assert_array_equal(state["vectors"], _STATE["vectors"])
    # It is the run's own from then on, and the other one stays as it is.
    checkpoints.save("kmeans", _START, 4, _STATE, [], at_once=True)
    self.assertEqual(checkpoint.Checkpoints(own).load("kmeans", _START)[0], 4)
    self.assertEqual(checkpoint.Checkpoints(self.folder).load("kmeans", _START)[0], 3)

  def test_a_damaged_stage_of_another_run(self):
    other = self.create_tempfile("other/kmeans.npz", "no archive").full_path
    checkpoints = checkpoint.Checkpoints(self.folder, reuse=os.path.dirname(other))
    with self.assertRaisesRegex(
        checkpoint.DamagedCheckpoint,
        rf"^the checkpoint {other} can't be read \(.*\); --resume without --reuse continues "
        r"this run\.$",
    ):
      checkpoints.load("kmeans", _START)

  def test_what_is_missing_is_named(self):
    for missing in ("started_from", "round", "history"):
      meta = {"started_from": _START, "round": 1, "history": []}
      del meta[missing]
      np.savez(os.path.join(self.folder, "kmeans.npz"), meta=np.array(json.dumps(meta)))
      with self.assertRaisesRegex(checkpoint.DamagedCheckpoint, f"can't be read.*{missing}"):
        checkpoint.Checkpoints(self.folder).load("kmeans", _START)

  def test_pickles_are_refused(self):
    np.savez(
        os.path.join(self.folder, "kmeans.npz"),
        meta=np.array({"round": 1}, dtype=object),
    )
    with self.assertRaisesRegex(checkpoint.DamagedCheckpoint, "kmeans.npz can't be read"):
      checkpoint.Checkpoints(self.folder).load("kmeans", _START)


if __name__ == "__main__":
  absltest.main()
