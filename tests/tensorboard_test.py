from absl.testing import absltest
from tensorboard.backend.event_processing import event_accumulator

from fl_clustering.three_phase import stages
from fl_clustering.three_phase import tensorboard


class TensorBoardTest(absltest.TestCase):

  def _scalars(self, folder):
    """Returns lists of (round, value) by tag."""
    events = event_accumulator.EventAccumulator(folder).Reload()
    tags = events.Tags()
    names = tags["scalars"] + tags["tensors"]
    return {
        tag: [(one.step, float(one.tensor_proto.float_val[0])) for one in events.Tensors(tag)]
        for tag in names
    }

  def test_rounds_can_be_seen_before_the_end_and_once_if_resumed(self):
    folder = self.create_tempdir().full_path
    rows = [stages.metric_rows("kmeans", "", n, {"accuracy": n / 4}) for n in (1, 2)]
    rows[1] += stages.metric_rows("kmeans", 0, 2, {"train_loss": 8.0})
    for _ in range(2):
      board = tensorboard.TensorBoard(folder)
      for round_num, own in enumerate(rows, start=1):
        board.round_finished("kmeans", round_num, own)

    self.assertEqual(self._scalars(folder), {
        "accuracy/kmeans": [(1, 0.25), (2, 0.5)], "train_loss/kmeans/cluster 0": [(2, 8.0)],
    })
