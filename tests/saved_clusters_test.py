"""Tests of which method's models are saved."""

import types

from absl.testing import absltest
import numpy as np

from fl_clustering.three_phase import judging
from fl_clustering.three_phase import saved_clusters


def _tallies(*num_right):
  """Returns confusion matrices of clients with so many right answers of ten."""
  return np.array([[[right, 10 - right], [0, 0]] for right in num_right])


def _method(clients, validation=None, log_loss=None, validation_log_loss=None):
  outputs, of_validation = (
      values and judging.OutputMetrics({"log_loss": np.array(values)}, {}, ())
      for values in (log_loss, validation_log_loss)
  )
  return types.SimpleNamespace(
      clients=_tallies(*clients), outputs=outputs,
      validation=None if validation is None else _tallies(*validation),
      validation_outputs=of_validation,
  )


class MostAccurateTest(absltest.TestCase):

  def _chosen(self, metric="accuracy", methods=("kmeans", "ifca"), **found):
    return saved_clusters.most_accurate(
        types.SimpleNamespace(chosen_methods=methods),
        types.SimpleNamespace(label_scale=None, num_classes=2, class_weights=None),
        types.SimpleNamespace(metric=metric, methods=found),
    )

  def test_validation_rows_decide_where_there_are_any(self):
    # Only one of the clients has such rows.
    found = {"kmeans": _method((9, 9), (5,)), "ifca": _method((6, 6), (7,))}
    self.assertEqual(self._chosen(**found), "ifca")

  def test_test_rows_decide_where_there_are_none(self):
    self.assertEqual(self._chosen(kmeans=_method((9, 5)), ifca=_method((6, 7))), "kmeans")

  def test_the_least_loss_is_best(self):
    nan = float("nan")
    found = {
        "kmeans": _method((9, 9), (9,), [0.1, 0.1], [0.5, nan]),
        "ifca": _method((9, 9), (9,), [0.2, 0.2], [0.4, nan]),
    }
    self.assertEqual(self._chosen("log_loss", **found), "ifca")
    # Where no client has a value on validation rows.
    for method in found.values():
      method.validation_outputs.clients["log_loss"][:] = nan
    self.assertEqual(self._chosen("log_loss", ("ifca", "kmeans"), **found), "kmeans")

  def test_controls_are_not_chosen_but_where_no_method_is(self):
    found = {"kmeans": _method((5,)), "fedavg": _method((9,)), "local": _method((10,))}
    self.assertEqual(self._chosen(methods=("kmeans",), **found), "kmeans")
    self.assertEqual(self._chosen(methods=(), **found), "fedavg")


if __name__ == "__main__":
  absltest.main()
