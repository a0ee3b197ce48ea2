"""Tests the numbers of a summary on an invented result, in which no two are alike."""

import types

from absl.testing import absltest
import numpy as np

from fl_clustering.engine import cost as cost_lib
from fl_clustering.methods import cluster_assignment
from fl_clustering.three_phase import config as config_lib
from fl_clustering.three_phase import result as result_lib
from fl_clustering.three_phase import summary

# True labels are rows, so the recalls are 3/4 and 4/6, the precisions 3/5 and 4/5.
_CONFUSION = np.array([[3, 1], [2, 4]])
_METRICS = {"accuracy": 0.7, "recall": (3 / 4 + 4 / 6) / 2, "precision": 0.7}
# Accuracy, recall and precision all differ.
_OTHER = np.array([[1, 3], [1, 15]])
_OTHER_METRICS = {
    "accuracy": 0.8, "recall": (1 / 4 + 15 / 16) / 2, "precision": (1 / 2 + 15 / 18) / 2
}
_CONFIG = config_lib.ThreePhaseConfig(
    dataset="digits", num_clients=4, methods=("kmeans",), num_clusters=2, target_accuracy=0.6,
    seed=3,
)


def _right(*num_right, num_examples=10):
  """Returns for each model a matrix with so many examples right."""
  return np.array([[[right, num_examples - right], [0, 0]] for right in num_right])


def _client(num_test):
  return types.SimpleNamespace(test=range(num_test))


_TASK = types.SimpleNamespace(
    name="digits", clients=(None,) * 4, counts={"test": np.full(4, 10)}.get, new_clients=(),
    global_test=range(50),
)


def _method(clients, **changes):
  values = {
      "assignment": cluster_assignment.ClusterAssignment(([0, 1], [2, 3])),
      "vectors": np.zeros((2, 3), np.float32),
      "best_accuracy": np.array([0.25, 0.5]),
      "clients": clients,
      "clients_blended": _right(1, 1, 1, 1),
      "global_mean": _CONFUSION,
      "global_weighted": _OTHER,
      "global_blended": np.stack([_CONFUSION, _OTHER]),
      "new_clients": None,
      "new_client_clusters": None,
      "cost": cost_lib.Cost(10, 20, 30),
      "adjusted_rand_index": None,
      "purity": None,
  }
  return result_lib.MethodResult(**{**values, **changes})


def _summary(methods, task=_TASK, **changes):
  pretrain = result_lib.PretrainResult(
      vector=np.zeros(3, np.float32), global_test=_OTHER, clients=_right(2, 3, 4, 5),
      own_weights=_right(0, 0, 0, 0), new_clients=changes.pop("pretrain_new_clients", None),
      cost=cost_lib.Cost(1, 2, 3),
  )
  values = {
      "pretrain": pretrain, "evaluated": np.arange(4), "client_weights": None,
      "methods": methods, "repeats": {},
      "num_clusters_choice": None, "local_weights": None,
  }
  return summary.summarize(_CONFIG, task, result_lib.ThreePhaseResult(**{**values, **changes}))


class SummaryTest(absltest.TestCase):

  def _assert_metrics(self, found, expected):
    self.assertEqual(set(found), set(expected))
    for name, value in expected.items():
      self.assertAlmostEqual(found[name], value, msg=name)

  def test_a_global_model_has_its_own_accuracy_recall_and_precision(self):
    found = _summary({"fedavg": _method(_right(1, 2, 3, 4))})
    method = found["methods"]["fedavg"]
    self._assert_metrics(method["global_mean"], _METRICS)
    self._assert_metrics(method["global_weighted"], _OTHER_METRICS)
    self._assert_metrics(method["global_blended"], {
        name: (_METRICS[name] + _OTHER_METRICS[name]) / 2 for name in _METRICS
    })
    self._assert_metrics(found["pretrain"]["global"], _OTHER_METRICS)

  def test_distribution_over_the_clients(self):
    found = _summary({"fedavg": _method(_right(0, 3, 6, 9))})["methods"]["fedavg"]
    self._assert_metrics(found["clients"]["accuracy"], {
        "mean": 0.45, "sd": np.sqrt(0.1125), "p10": 0.09, "max": 0.9,
    })
    # Of a single label, the recall is the accuracy.
    self._assert_metrics(found["clients"]["recall"], found["clients"]["accuracy"])
    self.assertAlmostEqual(found["clients_blended"]["accuracy"]["mean"], 0.1)

  def test_validation_is_of_the_clients_that_have_such_rows(self):
    found = _summary({
        "kmeans": _method(_right(1, 2, 3, 4), validation=_right(6, 8)),
        "fedavg": _method(_right(1, 2, 3, 4)),
    })["methods"]
    self.assertAlmostEqual(found["kmeans"]["validation"]["accuracy"]["mean"], 0.7)
    self.assertNotIn("validation", found["fedavg"])

  def test_recall_is_the_clients_recall(self):
    clients = np.stack([_CONFUSION, _OTHER, _OTHER, _OTHER])
    found = _summary({"fedavg": _method(clients)})["methods"]["fedavg"]["clients"]
    expected = (_METRICS["recall"] + 3 * _OTHER_METRICS["recall"]) / 4
    self.assertAlmostEqual(found["recall"]["mean"], expected)
    self.assertAlmostEqual(found["accuracy"]["mean"], (0.7 + 3 * 0.8) / 4)
    self.assertAlmostEqual(found["recall"]["max"], _METRICS["recall"])

  def test_who_just_reaches_the_target_counts(self):
    found = _summary({"fedavg": _method(_right(5, 6, 6, 7))})["methods"]["fedavg"]
    self.assertEqual(found["clients"]["share_at_target"], 0.75)

  def test_pooled_accuracy_weighs_examples(self):
    clients = np.concatenate([_right(0, 0, 0), _right(70, num_examples=70)])
    found = _summary({"fedavg": _method(clients)})["methods"]["fedavg"]["clients"]
    self.assertEqual(found["pooled_accuracy"], 0.7)
    self.assertEqual(found["accuracy"]["mean"], 0.25)

  def test_gain_is_over_fedavg(self):
    found = _summary({
        "kmeans": _method(_right(5, 6, 7, 8)), "fedavg": _method(_right(4, 4, 6, 6)),
    })
    gain = found["methods"]["kmeans"]["gain"]
    self.assertAlmostEqual(gain["mean"], 0.15)
    self.assertLess(gain["low"], gain["high"])
    self.assertNotIn("gain", found["methods"]["fedavg"])
    self.assertEqual(found["comparison"]["num_comparisons"], 1)

  def test_groupings_have_a_gain_over_fine_tuning(self):
    found = _summary({
        "kmeans": _method(_right(5, 6, 7, 8)), "fedavg": _method(_right(4, 4, 6, 6)),
        "finetuned": _method(_right(5, 5, 6, 7)), "ditto": _method(_right(5, 5, 5, 5)),
    })
    self.assertAlmostEqual(found["methods"]["kmeans"]["gain_over_finetuned"]["mean"], 0.075)
    for name in ("fedavg", "finetuned", "ditto"):
      self.assertNotIn("gain_over_finetuned", found["methods"][name])
    self.assertEqual(found["comparison"]["num_comparisons"], 4)

  def test_repeats_and_more_comparisons_widen_the_interval(self):
    methods = {"kmeans": _method(_right(5, 6, 7, 8)), "fedavg": _method(_right(4, 4, 6, 6))}

    def width(found):
      gain = found["methods"]["kmeans"]["gain"]
      return gain["high"] - gain["low"]

    alone = width(_summary(methods))
    repeats = {"fedavg": np.array([[0.6, 0.6, 0.6, 0.6], [0.45, 0.45, 0.45, 0.45]])}
    with_control = width(_summary(methods, repeats=repeats))
    self.assertGreater(with_control, alone)
    repeats["kmeans"] = np.array([[0.75, 0.75, 0.75, 0.75], [0.5, 0.5, 0.5, 0.5]])
    self.assertGreater(width(_summary(methods, repeats=repeats)), with_control)
    more = _summary({**methods, "local": methods["kmeans"]})
    self.assertEqual(more["comparison"]["num_comparisons"], 2)
    self.assertGreater(width(more), alone)

  def test_new_clients_are_apart(self):
    task = types.SimpleNamespace(**{**vars(_TASK), "new_clients": (_client(7),)})
    found = _summary(
        {"fedavg": _method(_right(1, 1, 1, 1), new_clients=_right(8))}, task,
        pretrain_new_clients=_right(5),
    )
    self.assertEqual(found["methods"]["fedavg"]["new_clients"]["accuracy"]["mean"], 0.8)
    self.assertEqual(found["methods"]["fedavg"]["clients"]["accuracy"]["mean"], 0.1)
    self.assertEqual(found["pretrain"]["new_clients"]["accuracy"]["mean"], 0.5)
    self.assertEqual(found["num_clients"], 4)
    self.assertEqual(found["num_test_examples"], {"clients": 40, "new_clients": 7, "global": 50})

  def test_costs_and_agreement_with_groups(self):
    found = _summary({
        "kmeans": _method(_right(1, 1, 1, 1), adjusted_rand_index=0.25, purity=0.5),
        "fedavg": _method(_right(1, 1, 1, 1)),
    })
    kmeans = found["methods"]["kmeans"]
    self.assertEqual((kmeans["adjusted_rand_index"], kmeans["purity"]), (0.25, 0.5))
    self.assertEqual(kmeans["cost"], {"client_steps": 10, "bytes_down": 20, "bytes_up": 30})
    self.assertEqual(found["pretrain"]["cost"], {"client_steps": 1, "bytes_down": 2, "bytes_up": 3})
    self.assertNotIn("purity", found["methods"]["fedavg"])


if __name__ == "__main__":
  absltest.main()
