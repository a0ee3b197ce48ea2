"""A regression on clients' tables, from files to predictions, on scikit-learn's diabetes data."""

import os
import tempfile

from absl.testing import absltest
from absl.testing import parameterized
import numpy as np
import pandas as pd
from sklearn import datasets
from sklearn import metrics

from experiment_shell import finished_run
from fl_clustering import load_model
from fl_clustering.methods import registry
from tests.experiment_shell import in_process
from tests.integration import three_phase_program as program

_METHODS = tuple(name for name, entry in registry.METHODS.items() if not entry.needs_classes)
_FLAGS = (
    "--dataset=files", "--label_column=target", "--split_column=part",
    f"--methods={','.join(_METHODS)}", f"--personal={','.join(registry.PERSONAL)}",
    "--num_clusters=2", "--num_new_clients=1", "--pretrain_rounds=2", "--cluster_rounds=2",
    "--control_repeats=2", "--method_repeats=0", "--learning_rate=0.02", "--hidden_units=8",
)


def _write_clients(folder):
  data = datasets.load_diabetes(as_frame=True, scaled=False).frame
  order = np.random.default_rng(0).permutation(len(data))
  os.makedirs(folder)
  for i, rows in enumerate(np.array_split(order, 6)):
    part = np.where(np.arange(len(rows)) % 4 == 0, "test", "train")
    data.iloc[rows].assign(part=part).to_csv(os.path.join(folder, f"c{i}.csv"), index=False)


class RegressionTest(absltest.TestCase):

  @classmethod
  def setUpClass(cls):
    super().setUpClass()
    temporary = tempfile.TemporaryDirectory()
    cls.addClassCleanup(temporary.cleanup)
    cls.base = os.path.realpath(temporary.name)
    cls.data = os.path.join(cls.base, "data")
    _write_clients(cls.data)
    cls.folder = os.path.join(cls.base, "run")
    flags = (*_FLAGS, f"--data_dir={cls.data}", f"--output_dir={cls.folder}")
    with program.interrupted_after("ifca", 1):
      interrupted = program.run(*flags)
    assert interrupted.code == 130, interrupted.stderr
    cls.result = program.run(*flags, "--resume")
    assert cls.result.code == 0, cls.result.stderr
    cls.run_ = finished_run.FinishedRun(cls.folder)
    cls.rows = cls.run_.rows("client_metrics.csv", ("phase", "method", "client_id", "clusters"))

  def _tables(self):
    return {f"c{i}": pd.read_csv(os.path.join(self.data, f"c{i}.csv")) for i in range(6)}

  def test_it_is_found_and_said(self):
    self.assertIn("10 features, and numbers to learn in the column target", self.result.stdout)
    self.assertIn(
        "(--task=classification takes them as classes); methods are compared by mean squared error",
        self.result.stdout,
    )
    self.assertEqual(self.run_.settings["tables"]["task"], "regression")
    self.assertEqual(self.run_.summary["comparison"]["metric"], "mse")

  def test_labels_are_standardized_by_the_training_rows_of_training_clients(self):
    new = {row["client_id"] for row in self.run_.rows("clients.csv", ("client_id",)) if row["new"]}
    self.assertLen(new, 1)
    labels = pd.concat([
        table.loc[table["part"] == "train", "target"]
        for name, table in self._tables().items() if name not in new
    ])
    scale = load_model.load_model(self.folder).format.label_scale
    self.assertAlmostEqual(scale.mean, labels.mean())
    self.assertAlmostEqual(scale.deviation, labels.std(ddof=0))

  def test_every_method_has_every_client_s_metrics(self):
    methods = {"fedavg", "local", "finetuned", *_METHODS, *registry.PERSONAL}
    self.assertContainsSubset(methods, set(self.run_.summary["methods"]))
    for method in methods:
      own = [row for row in self.rows if (row["phase"], row["method"]) == ("cluster", method)]
      self.assertLen(own, 5)
      of_summary = self.run_.summary["methods"][method]["clients"]
      for metric in ("rmse", "mae", "r2", "mse"):
        values = [row[metric] for row in own]
        self.assertAlmostEqual(of_summary[metric]["mean"], np.mean(values))
      self.assertAlmostEqual(own[0]["rmse"] ** 2, own[0]["mse"])

  def test_predictions_have_the_metrics_of_the_run(self):
    output = os.path.join(self.create_tempdir().full_path, "predictions.csv")
    in_process.run_predict(
        f"--run={self.folder}", f"--data_dir={self.data}", f"--output={output}"
    )
    predictions = pd.read_csv(output)
    self.assertEqual(list(predictions), ["client", "row", "cluster", "prediction"])
    saved = load_model.load_model(self.folder)
    pooled = []
    for name, table in self._tables().items():
      own = predictions[predictions["client"] == name]["prediction"].to_numpy()
      np.testing.assert_allclose(saved.predict(table, name), own, rtol=1e-6)
      is_test = (table["part"] == "test").to_numpy()
      truth, predicted = table["target"][is_test], own[is_test]
      (found,) = [
          row for row in self.rows if row["client_id"] == name and row["method"] == saved.method
          and row["phase"] in ("cluster", "new_clients")
      ]
      self.assertEqual(found["num_test"], len(truth))
      for metric, score in (
          ("rmse", metrics.root_mean_squared_error), ("mae", metrics.mean_absolute_error),
          ("r2", metrics.r2_score), ("mse", metrics.mean_squared_error),
      ):
        self.assertAlmostEqual(found[metric] / score(truth, predicted), 1, places=4)
      if found["phase"] == "cluster":
        pooled.append((truth, predicted))
    truth, predicted = map(np.concatenate, zip(*pooled))
    of_summary = self.run_.summary["methods"][saved.method]["clients"]
    self.assertAlmostEqual(of_summary["pooled_r2"], metrics.r2_score(truth, predicted), places=4)

  def test_the_outputs_are_those_of_the_parameters(self):
    saved = load_model.load_model(self.folder)
    name, table = next(iter(self._tables().items()))
    encoding = saved.format.encoding
    features = table[list(encoding.columns)].to_numpy(float)
    hidden = (features - encoding.shift) * encoding.factor
    vector = saved.vectors[list(saved.clusters[name])].mean(axis=0)
    first, bias, last, offset = np.split(vector, [80, 88, 96])
    hidden = np.maximum(hidden @ first.reshape(10, 8) + bias, 0)
    outputs = hidden @ last + offset
    scale = saved.format.label_scale
    np.testing.assert_allclose(
        saved.predict(table, name), outputs * scale.deviation + scale.mean, rtol=1e-4
    )

  def test_a_client_s_mean_is_the_last_row(self):
    found = [row for row in self.rows if row["phase"] == "baseline"]
    self.assertLen(found, 5)
    table = self._tables()[found[0]["client_id"]]
    is_test = table["part"] == "test"
    # Validation rows are for training, and the baseline does not use them.
    means = table["target"][~is_test].mean()
    expected = np.sqrt(((table["target"][is_test] - means) ** 2).mean())
    self.assertAlmostEqual(found[0]["rmse"] / expected, 1, delta=0.05)
    self.assertIn("client's mean", self.result.stdout)

  def test_the_gain_is_the_difference_of_the_squared_errors(self):
    mse = {
        method: np.array([
            row["mse"] for row in self.rows if (row["phase"], row["method"]) == ("cluster", method)
        ]) for method in ("ifca", "fedavg")
    }
    gain = self.run_.summary["methods"]["ifca"]["gain"]
    self.assertAlmostEqual(gain["mean"] / (mse["fedavg"] - mse["ifca"]).mean(), 1)

  def test_the_report_shows_errors(self):
    page = program.read_text(self.folder, "report.html")
    self.assertIn("root mean squared error", page)
    self.assertNotIn("accuracy (share correct)", page)
    self.assertFalse(os.path.exists(os.path.join(self.folder, "figures", "label_mix.png")))


class BadInputTest(parameterized.TestCase):

  @parameterized.named_parameters(
      ("target", "--target_accuracy=0.5", "`target_accuracy` must be left out for a regression"),
      ("model", "--model=logistic", "`model` must be mlp or linear for a regression, got 'logi"),
      ("method", "--methods=flux", "`methods` must be methods that need no classes for a regr"),
      ("private method", "--methods=dp_fedavg", "`methods` must be methods that need no classes"),
      ("penalty", "--ridge_penalty=0.1", "`ridge_penalty` must not be given with model=mlp"),
  )
  def test_is_refused(self, flag, message):
    base = self.create_tempdir().full_path
    data, out = os.path.join(base, "data"), os.path.join(base, "out")
    _write_clients(data)
    result = program.run(
        "--dataset=files", f"--data_dir={data}", "--label_column=target", "--split_column=part",
        "--task=regression", flag, f"--output_dir={out}",
    )
    self.assertEqual(result.code, 2)
    self.assertRegex(result.stderr, f"^error: .*{message}.*\n$")
    self.assertFalse(os.path.exists(out))


if __name__ == "__main__":
  absltest.main()
