"""What leaves a site, read from the bytes on the wire: docs/sites.md, "What leaves a site"."""

from unittest import mock

from absl.testing import absltest

from experiments.three_phase import report
from fl_clustering.three_phase import stages
from tests.distribution import site_bytes
from tests.integration import three_phase_program

# The model is that of `sites_test`, so that its computations are built only once.
_HIDDEN_UNITS = 8


class SiteBytesTest(site_bytes.TestCase):

  num_classes = 2

  def test_three_phases(self):
    for name in ("FIRST_FIGURES", "FIGURES"):  # They take much of the time.
      self.enter_context(mock.patch.object(report, name, ()))
    # The four rounds of `local` are blocks of one and of three, however slow the machine is.
    with mock.patch.object(stages, "SECONDS_PER_BLOCK", 1e9):
      result = three_phase_program.run(
          *self.flags, "--dataset=files", f"--hidden_units={_HIDDEN_UNITS}",
          "--learning_rate=0.5", "--pretrain_rounds=2", "--cluster_rounds=2", "--num_clusters=2",
          "--methods=kmeans,ifca,cfl,fesem,pacfl", "--personal=ditto,apfl,mr_mtl",
      )
    self.assertEqual(result.code, 0, result.stderr)
    num_columns, num_classes = site_bytes.NUM_COLUMNS, self.num_classes
    num_parameters = (num_columns + 1) * _HIDDEN_UNITS + (_HIDDEN_UNITS + 1) * num_classes
    expected = {
        "sums of the features": {("float64", (num_columns,))},
        "numbers of rows": {("int32", (3,))},
        "positions of answers": {("int32", ())},
        "sums of models, examples, losses": {
            ("float32", (num_parameters,)), ("float32", ()), ("float32", (4,))
        },
        "a client's model, its loss and its share of a mixture": {
            ("float32", (1, num_parameters)), ("float32", (1,))
        },
        "a client's losses in a block of rounds": {
            ("float32", (1, number)) for number in (1, 3)
        },
        "its confusion matrices after each of them": {
            ("int32", (1, number, num_classes, num_classes)) for number in (1, 3)
        },
        "losses of two models": {("float32", (2, 1))},
        "labels and subspaces": {
            ("int32", (num_classes,)), ("float32", (num_classes, num_columns, 3))
        },
        "confusion matrices of one client or two": {
            ("int32", (number, num_classes, num_classes)) for number in (1, 2)
        },
    }
    for values in self.values_by_site():
      self.assertEqual(set(values), set.union(*expected.values()))


if __name__ == "__main__":
  absltest.main()
