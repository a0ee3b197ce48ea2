"""Tests the rows of an invented result, in which no two numbers are alike."""

from absl.testing import absltest
import numpy as np

from fl_clustering.engine import cost as cost_lib
from fl_clustering.methods import cluster_assignment
from fl_clustering.three_phase import config as config_lib
from fl_clustering.three_phase import gains
from fl_clustering.three_phase import result as result_lib
from fl_clustering.three_phase import rows
from fl_clustering.three_phase import stages

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
      "ari": None,
      "purity": None,
  }
  return result_lib.MethodResult(**{**values, **changes})


def _result(methods, pretrain_new_clients=None, repeats=None):
  pretrain = result_lib.PretrainResult(
      vector=np.zeros(3, np.float32), global_test=_OTHER, clients=_right(2, 3, 4, 5),
      own_weights=_right(0, 0, 0, 0), new_clients=pretrain_new_clients, cost=cost_lib.Cost(1, 2, 3),
  )
  return result_lib.ThreePhaseResult(
      pretrain=pretrain, evaluated=np.arange(4), client_weights=None, methods=methods,
      repeats=repeats or {}, num_clusters_choice=None, local_weights=None,
  )


def _found(methods, cluster="", **changes):
  """Returns the metrics of every method as a whole, or of a cluster of each, by name."""
  found = {}
  for row in rows.of_result(_CONFIG, _result(methods, **changes)):
    if row["cluster"] == cluster:
      found.setdefault(row["method"], {})[row["metric"]] = row["value"]
  return found


class RowsTest(absltest.TestCase):

  def _assert_metrics(self, found, expected, part=""):
    for name, value in expected.items():
      self.assertAlmostEqual(found[part + name], value, msg=name)

  def test_a_global_model_has_its_own_accuracy_recall_and_precision(self):
    found = _found({"fedavg": _method(_right(1, 2, 3, 4))})
    self._assert_metrics(found["fedavg"], _METRICS, "global_")
    self._assert_metrics(found["fedavg"], _OTHER_METRICS, "global_weighted_")
    self._assert_metrics(found["fedavg"], {
        name: (_METRICS[name] + _OTHER_METRICS[name]) / 2 for name in _METRICS
    }, "global_blended_")
    self._assert_metrics(found["pretrain"], _OTHER_METRICS, "global_")

  def test_distribution_over_the_clients(self):
    found = _found({"fedavg": _method(_right(0, 3, 6, 9))})["fedavg"]
    self._assert_metrics(found, {
        "accuracy": 0.45, "accuracy_sd": np.sqrt(0.1125), "accuracy_p10": 0.09,
        "recall": 0.45,  # Of a single label, it is the accuracy.
        "blended_accuracy": 0.1,
    })

  def test_validation_is_of_the_clients_that_have_such_rows(self):
    methods = {
        "kmeans": _method(
            _right(1, 2, 3, 4), validation=_right(6, 8),
            validation_accuracy=np.array([0.7, np.nan]),
        ),
        "fedavg": _method(_right(1, 2, 3, 4)),
    }
    found = _found(methods)
    self.assertAlmostEqual(found["kmeans"]["validation_accuracy"], 0.7)
    self.assertNotIn("validation_accuracy", found["fedavg"])
    of_clusters = [_found(methods, cluster)["kmeans"] for cluster in (0, 1)]
    self.assertEqual(
        of_clusters, [{"best_accuracy": 0.25, "validation_accuracy": 0.7}, {"best_accuracy": 0.5}]
    )

  def test_recall_is_the_clients_recall(self):
    clients = np.stack([_CONFUSION, _OTHER, _OTHER, _OTHER])
    found = _found({"fedavg": _method(clients)})["fedavg"]
    expected = (_METRICS["recall"] + 3 * _OTHER_METRICS["recall"]) / 4
    self._assert_metrics(found, {"recall": expected, "accuracy": (0.7 + 3 * 0.8) / 4})

  def test_who_just_reaches_the_target_counts(self):
    found = _found({"fedavg": _method(_right(5, 6, 6, 7))})["fedavg"]
    self.assertEqual(found["share_at_target"], 0.75)

  def test_pooled_accuracy_weighs_examples(self):
    clients = np.concatenate([_right(0, 0, 0), _right(70, num_examples=70)])
    found = _found({"fedavg": _method(clients)})["fedavg"]
    self.assertEqual((found["pooled_accuracy"], found["accuracy"]), (0.7, 0.25))

  def test_gains_are_over_fedavg_and_of_groupings_over_fine_tuning(self):
    found = _found({
        "kmeans": _method(_right(5, 6, 7, 8)), "fedavg": _method(_right(4, 4, 6, 6)),
        "finetuned": _method(_right(5, 5, 6, 7)), "ditto": _method(_right(5, 5, 5, 5)),
    })
    self._assert_metrics(found["kmeans"], {"gain": 15, "finetuned_gain": 7.5})
    self.assertLess(found["kmeans"]["gain_low"], found["kmeans"]["gain_high"])
    self.assertNotIn("gain", found["fedavg"])
    for name in ("fedavg", "finetuned", "ditto"):
      self.assertNotIn("finetuned_gain", found[name])

  def test_a_gain_is_that_of_the_clients_and_of_all_trainings(self):
    methods = {
        "kmeans": _method(_right(5, 6, 7, 8)), "fedavg": _method(_right(4, 4, 6, 6)),
        "finetuned": _method(_right(5, 5, 6, 7)),
    }
    repeats = {
        "fedavg": np.array([[0.6] * 4, [0.45] * 4]), "kmeans": np.array([[0.75] * 4, [0.5] * 4]),
    }
    found = _found(methods, repeats=repeats)["kmeans"]
    for part, differences in (("", [0.1, 0.2, 0.1, 0.2]), ("finetuned_", [0, 0.1, 0.1, 0.1])):
      # Fine-tuning is taken to vary as FedAvg does.
      gain = gains.gain(np.array(differences), [0.5, 0.6, 0.45], [0.65, 0.75, 0.5], 3)
      self._assert_metrics(found, {
          "gain": 100 * gain.mean, "gain_low": 100 * gain.low, "gain_high": 100 * gain.high,
          "gain_detectable": 100 * gain.detectable,
      }, part)

  def test_a_gain_without_an_interval_has_none(self):
    found = _found({"kmeans": _method(_right(5)), "fedavg": _method(_right(4))})["kmeans"]
    self.assertAlmostEqual(found["gain"], 10)
    self.assertNoCommonElements(found, ("gain_low", "gain_high", "gain_detectable"))

  def test_repeats_and_more_comparisons_widen_the_interval(self):
    methods = {"kmeans": _method(_right(5, 6, 7, 8)), "fedavg": _method(_right(4, 4, 6, 6))}

    def width(methods=methods, **changes):
      found = _found(methods, **changes)["kmeans"]
      return found["gain_high"] - found["gain_low"]

    alone = width()
    repeats = {"fedavg": np.array([[0.6, 0.6, 0.6, 0.6], [0.45, 0.45, 0.45, 0.45]])}
    with_control = width(repeats=repeats)
    self.assertGreater(with_control, alone)
    repeats["kmeans"] = np.array([[0.75, 0.75, 0.75, 0.75], [0.5, 0.5, 0.5, 0.5]])
    self.assertGreater(width(repeats=repeats), with_control)
    self.assertGreater(width({**methods, "local": methods["kmeans"]}), alone)

  def test_new_clients_are_apart(self):
    found = _found(
        {"fedavg": _method(_right(1, 1, 1, 1), new_clients=_right(8))},
        pretrain_new_clients=_right(5),
    )
    self._assert_metrics(found["fedavg"], {"new_accuracy": 0.8, "accuracy": 0.1})
    self.assertEqual(found["pretrain"]["new_accuracy"], 0.5)

  def test_costs_and_agreement_with_groups(self):
    found = _found({
        "kmeans": _method(_right(1, 1, 1, 1), ari=0.25, purity=0.5),
        "fedavg": _method(_right(1, 1, 1, 1)),
    })
    self._assert_metrics(found["kmeans"], {
        "clusters": 2, "ari": 0.25, "purity": 0.5, "steps": 10, "bytes_down": 20, "bytes_up": 30,
        "bytes": 50,
    })
    self._assert_metrics(found["pretrain"], {"steps": 1, "bytes_down": 2, "bytes_up": 3})
    self.assertNotIn("purity", found["fedavg"])


class RoundsTest(absltest.TestCase):

  def test_costs_are_of_everything_until_then(self):
    told = rows.Rounds()
    for method in ("pretrain", "kmeans", "failed"):
      for number, steps in ((1, 2), (2, 1)):
        metrics = {"steps": steps, "accuracy": number / 10}
        told.round_finished(method, number, stages.metric_rows(method, "", number, metrics))
    found = list(told.rows(_result({"kmeans": _method(_right(1, 1, 1, 1))})))

    self.assertEqual(
        [(row["method"], row["round"], row["value"]) for row in found if row["metric"] == "steps"],
        # The method had cost 7 of its 10 steps before its rounds.
        [("pretrain", 1, 2), ("pretrain", 2, 3), ("kmeans", 1, 9), ("kmeans", 2, 10)],
    )
    accuracies = [row["value"] for row in found if row["metric"] == "accuracy"]
    self.assertEqual(accuracies, [0.1, 0.2, 0.1, 0.2])
